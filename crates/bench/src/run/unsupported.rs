//! What a broker lacks that a use case asks for.

use super::RunOptions;
use crate::agents::Agents;
use crate::driver::{Driver, DriverError};
use crate::usecase::{Fault, Needs, Step, UseCase};

/// What `use_case` needs and this broker lacks, or why its steps cannot be done.
///
/// # Errors
/// A broker that is not there to be asked for its version.
pub(super) fn lacks(
    use_case: &UseCase,
    driver: &dyn Driver,
    options: &RunOptions,
) -> Result<Option<String>, DriverError> {
    let lacks = driver.lacks(&Needs::of(use_case))?;
    Ok(lacks.or_else(|| match options.nodes_of(use_case, driver) {
        Err(why) => Some(format!("{why}; --nodes 1 runs it on one")),
        Ok(nodes) => {
            of_nodes(use_case, nodes).or_else(|| of_steps(use_case, driver, &options.agents))
        }
    }))
}

/// Why the steps of `use_case` cannot be done to so many nodes.
fn of_nodes(use_case: &UseCase, nodes: u32) -> Option<String> {
    let last = use_case.step.iter().filter_map(|step| step.node).max()?;
    (last > nodes).then(|| format!("a step of node {last}: the broker has {nodes}; see --nodes"))
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
    let is_killing = |step: &Step| step.fault.is_some_and(Fault::is_killing);
    if use_case.step.iter().any(is_killing) && !driver.is_restartable() {
        return Some("a kill of a broker that the suite has not started; give it by name".into());
    }
    None
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
        let kill = UseCase::builtin("cluster-kill").unwrap();
        assert!(of_nodes(&kill, 1).unwrap().starts_with("a step of node 2"));
        assert_eq!(of_nodes(&kill, 2), None);
    }
}
