//! The result of a use case that a broker cannot be asked to run: what it lacks, and no figures.

use super::{RunOptions, suite};
use crate::agents::Agents;
use crate::driver::Driver;
use crate::live::events::{Ended, Event, Started};
use crate::result::{
    Connections, Disclosed, Generator, Messages, Operations, Rates, RunResult, SCHEMA, Status,
    Verdict,
};
use crate::usecase::{self, Fault, Needs, Times, UseCase};
use crate::{export, folder, host};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// What `use_case` needs and this broker lacks, or why its steps cannot be done.
///
/// # Errors
/// A broker that is not there to be asked for its version.
pub(super) fn lacks(
    use_case: &UseCase,
    driver: &dyn Driver,
    agents: &Agents,
) -> anyhow::Result<Option<String>> {
    let lacks = driver.lacks(&Needs::of(use_case))?;
    Ok(lacks.or_else(|| of_steps(use_case, driver, agents)))
}

/// Why the steps of `use_case` cannot be done to this broker, or by this load.
fn of_steps(use_case: &UseCase, driver: &dyn Driver, agents: &Agents) -> Option<String> {
    let has = |fault| use_case.step.iter().any(|step| step.fault == Some(fault));
    let is_course = !use_case.step.is_empty() || use_case.reconnect.is_some();
    if is_course && !agents.is_empty() {
        return Some("steps by a load that agents share; leave --agents and --agent out".into());
    }
    if has(Fault::Freeze) && !driver.is_local() {
        return Some("a freeze without the broker's process; say mqtt://HOST:PORT?pid=PID".into());
    }
    if has(Fault::Kill) && !driver.is_restartable() {
        return Some("a kill of a broker that the suite has not started; give it by name".into());
    }
    None
}

/// Keeps in a folder of its own that `driver` lacks what `use_case` needs; the broker is not
/// started.
///
/// # Errors
/// The folder, the scale, a broker that is not there.
pub(super) fn keep(
    use_case: &UseCase,
    driver: &dyn Driver,
    options: &RunOptions,
    lacks: &str,
) -> anyhow::Result<(RunResult, PathBuf)> {
    let broker = driver.about(options.profile)?;
    let connections_max = usecase::connections_max(&[]).min(options.brokers_hold);
    let scaled = usecase::scale(use_case, options.scale, connections_max)?;
    let times = Times::new(use_case, options.warm_up_s, options.measure_s);
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let plan = usecase::plan(&scaled, nowhere, 0, times);
    let reason = format!("not supported: {lacks}");
    let result = RunResult {
        repetition: options.repetition.clone(),
        schema: SCHEMA,
        suite: suite(options, jiff::Timestamp::now()),
        use_case: scaled.run_description(&plan),
        broker,
        host: host::facts("nothing ran"),
        verdict: Verdict { status: Status::Unsupported, reasons: vec![reason.clone()] },
        phases: Vec::new(),
        connections: Connections::default(),
        subscriptions: Operations::default(),
        warm_up: Messages::default(),
        measure: Messages::default(),
        rates: Rates::default(),
        latencies: BTreeMap::new(),
        resources: None,
        system: None,
        generator: Generator::default(),
        series: Vec::new(),
        course: None,
        memory_slope: None,
        marks: Vec::new(),
        interval_histograms: BTreeMap::new(),
        disclosed: Disclosed::default(),
        not_measured: BTreeMap::from([("every metric".to_owned(), reason)]),
    };
    let folder = folder::create(&options.out, &use_case.name, driver.name())?;
    folder::write(&folder, "result.json", &(serde_json::to_string_pretty(&result)? + "\n"))?;
    for (name, text) in export::files(&result)? {
        folder::write(&folder, name, &text)?;
    }
    tell(&result, driver, &folder, options);
    Ok((result, folder))
}

/// A run that ends as it begins.
fn tell(result: &RunResult, driver: &dyn Driver, folder: &Path, options: &RunOptions) {
    let (case, broker) = (&result.use_case, &result.broker);
    let started = Started {
        use_case: case.name.clone(),
        about: case.about.clone(),
        driver: driver.name().into(),
        broker: format!("{} {}", broker.name, broker.version),
        address: broker.address.clone(),
        profile: broker.profile.clone(),
        folder: folder.display().to_string(),
        ..Started::default()
    };
    options.live.tell(&Event::Started(Box::new(started)));
    options.live.tell(&Event::Ended(Box::new(Ended::of(result))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::parse;

    #[test]
    fn steps_that_a_broker_or_a_load_cannot_take_are_named() {
        let of = |name: &str, broker: &str, agents: &Agents| {
            of_steps(&UseCase::builtin(name).unwrap(), &*parse(broker).unwrap(), agents)
        };
        let (alone, shared) = (Agents::default(), Agents { local: 2, ..Agents::default() });
        let [url, watched] = ["mqtt://127.0.0.1:1", "mqtt://127.0.0.1:1?pid=4711"];
        assert!(of("fault-freeze", url, &alone).unwrap().starts_with("a freeze without"));
        assert_eq!(of("fault-freeze", watched, &alone), None);
        assert!(of("fault-kill", watched, &alone).unwrap().starts_with("a kill of a broker"));
        assert_eq!(of("fault-kill", "mosquitto", &alone), None);
        assert_eq!(of("fault-network", url, &alone), None);
        assert!(of("fault-network", "weir", &shared).unwrap().contains("leave --agents"));
        assert_eq!(of("p2p-1K-1K-1K-1K", url, &shared), None);
    }
}
