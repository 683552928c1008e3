//! The result of a use case that a broker cannot be asked to run: what it lacks, and no figures.

use crate::driver::Driver;
use crate::result::{
    Connections, Generator, Messages, Operations, Rates, RunResult, SCHEMA, Status, Verdict,
};
use crate::run::{RunOptions, suite};
use crate::usecase::{self, Times, UseCase};
use crate::{folder, host};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Keeps in a folder of its own that `driver` lacks what `use_case` needs; the broker is not
/// started.
///
/// # Errors
/// The folder, the scale, a broker that is not there.
pub(crate) fn keep(
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
    eprintln!("{} on {} {}", use_case.name, broker.name, broker.version);
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
        generator: Generator::default(),
        series: Vec::new(),
        not_measured: BTreeMap::from([("every metric".to_owned(), reason)]),
    };
    let folder = folder::create(&options.out, &use_case.name, driver.name())?;
    folder::write(&folder, "result.json", &(serde_json::to_string_pretty(&result)? + "\n"))?;
    Ok((result, folder))
}
