//! Does the steps that are done to the broker and to the way to it, at their times.

use crate::driver::{DriverError, Running};
use crate::monitor::{Monitor, now_us};
use crate::usecase::{Fault, Step};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use weir_load::Cue;
use weir_load::proxy::{Impairment, Proxy};

/// A step, and when it was done.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    /// Its place in the use case.
    pub(crate) step: usize,
    /// Microseconds of the monotonic clock.
    pub(crate) begin_us: u64,
    /// When it was undone: the broker goes on, answers again, the way is clear.
    pub(crate) end_us: u64,
    /// Why it could not be done or undone.
    pub(crate) error: Option<String>,
}

/// One half of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Event {
    at_us: u64,
    step: usize,
    is_end: bool,
}

/// Who does the steps.
pub(crate) struct FaultInjector<'a> {
    steps: &'a [Step],
    /// One for each node, if the way to the broker is to be troubled.
    proxies: Vec<Proxy>,
}

impl<'a> FaultInjector<'a> {
    /// Makes ready what the steps need: a proxy, if the way to the broker is to be troubled.
    ///
    /// # Errors
    /// A proxy that cannot be started.
    pub(crate) fn new(steps: &'a [Step], nodes: &[SocketAddr]) -> std::io::Result<Self> {
        let is_impaired = |step: &Step| step.fault.is_some_and(Fault::is_of_network);
        let nodes = if steps.iter().any(is_impaired) { nodes } else { &[] };
        let proxies = nodes.iter().map(|&node| Proxy::start(node)).collect::<Result<_, _>>()?;
        Ok(Self { steps, proxies })
    }

    /// Where the load is to connect: the broker's nodes, or the proxies before them.
    pub(crate) fn targets(&self, nodes: Vec<SocketAddr>) -> Vec<SocketAddr> {
        if self.has_proxy() { self.proxies.iter().map(Proxy::address).collect() } else { nodes }
    }

    /// Whether there is a proxy before the broker.
    pub(crate) fn has_proxy(&self) -> bool {
        !self.proxies.is_empty()
    }

    /// Waits for the begin of measure and does every step in its time. `over` is disconnected when
    /// the load is done: what is not begun by then is left, what is begun is undone.
    pub(crate) fn conduct(
        &self,
        cue: &Cue,
        over: &Receiver<()>,
        running: &Mutex<&mut Running>,
        monitor: &Monitor,
    ) -> Vec<Happened> {
        let mut happened = Vec::new();
        let events = self.events();
        if events.is_empty() {
            return happened;
        }
        let Some(start_us) = cue.wait() else { return happened };
        let mut is_over = false;
        for event in events {
            is_over = is_over || !wait_until(start_us + event.at_us, over);
            if is_over && !event.is_end {
                continue;
            }
            self.act(event, running, monitor, &mut happened);
        }
        happened
    }

    /// In the order of their times.
    fn events(&self) -> Vec<Event> {
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        let mut events = Vec::new();
        for (step, of) in self.steps.iter().enumerate() {
            if of.fault.is_some_and(|fault| fault.is_of_broker() || fault.is_of_network()) {
                let begin_us = micros(of.at.seconds);
                events.push(Event { at_us: begin_us, step, is_end: false });
                let at_us = begin_us + micros(of.lasts.seconds);
                events.push(Event { at_us, step, is_end: true });
            }
        }
        // Stable: a begin stays before its own end.
        events.sort_by_key(|event| event.at_us);
        events
    }

    fn act(
        &self,
        event: Event,
        running: &Mutex<&mut Running>,
        monitor: &Monitor,
        happened: &mut Vec<Happened>,
    ) {
        let step = &self.steps[event.step];
        let begun = happened.iter().position(|one| one.step == event.step);
        if event.is_end && begun.is_none() {
            return;
        }
        let Ok(mut running) = running.lock() else { return };
        let begin_us = now_us();
        let done = nodes_of(step, running.nodes()).try_for_each(|node| {
            let of = running.node_mut(node);
            match (step.fault, event.is_end) {
                (Some(Fault::Freeze), false) => of.freeze()?,
                (Some(Fault::Freeze), true) => of.thaw()?,
                (Some(Fault::Kill), false) => of.kill(),
                (Some(Fault::Restart), false) => of.end(),
                (Some(Fault::Kill | Fault::Restart), true) => {
                    of.launch_again()?;
                    monitor.follow(node, of.pid);
                }
                _ => self.impair(step, node, event.is_end),
            }
            Ok::<_, DriverError>(())
        });
        let is_back = event.is_end && step.fault.is_some_and(Fault::is_killing);
        let mut back = if is_back { nodes_of(step, running.nodes()) } else { 0..0 };
        let done = done.and_then(|()| back.try_for_each(|node| running.node_mut(node).answer()));
        let at = begun.unwrap_or_else(|| {
            happened.push(Happened { step: event.step, begin_us, end_us: begin_us, error: None });
            happened.len() - 1
        });
        if event.is_end {
            happened[at].end_us = now_us();
        }
        if let Err(error) = done {
            happened[at].error.get_or_insert(error.to_string());
        }
    }

    fn impair(&self, step: &Step, node: usize, is_end: bool) {
        if let Some(proxy) = self.proxies.get(node) {
            proxy.set(if is_end { Impairment::default() } else { impairment(step) });
        }
    }
}

/// The nodes that a step is done to, from 0.
fn nodes_of(step: &Step, nodes: usize) -> Range<usize> {
    match step.node {
        Some(node) => node as usize - 1..node as usize,
        None => 0..nodes,
    }
}

/// What a step does to the network while it lasts.
fn impairment(step: &Step) -> Impairment {
    match step.fault {
        Some(Fault::Delay) => {
            let delay_us = (step.delay_ms.unwrap_or(0.0) * 1e3) as u64;
            Impairment { delay_us, ..Impairment::default() }
        }
        Some(Fault::Loss) => {
            let loss_ppm = (step.loss_share.unwrap_or(0.0) * 1e6) as u32;
            Impairment { loss_ppm, ..Impairment::default() }
        }
        _ => Impairment { is_dead: true, ..Impairment::default() },
    }
}

/// Says whether the load is still there when the time has come.
fn wait_until(at_us: u64, over: &Receiver<()>) -> bool {
    let wait = Duration::from_micros(at_us.saturating_sub(now_us()));
    over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct File {
        step: Vec<Step>,
    }

    fn steps(text: &str) -> Vec<Step> {
        toml::from_str::<File>(text).unwrap().step
    }

    #[test]
    fn events_are_in_order_and_only_of_broker_and_network() {
        let text = r#"
            [[step]]
            at = "9s"
            fault = "kill"
            [[step]]
            at = "1s"
            fault = "freeze"
            for = "3s"
            [[step]]
            at = "2s"
            fault = "cut"
            [[step]]
            at = "3s"
            fault = "delay"
            for = "500ms"
            delay_ms = 10
        "#;
        let steps = steps(text);
        let injector = FaultInjector { steps: &steps, proxies: Vec::new() };
        let events = injector.events();
        let seen: Vec<(u64, usize, bool)> =
            events.iter().map(|event| (event.at_us / 1_000, event.step, event.is_end)).collect();
        assert_eq!(
            seen,
            [
                (1_000, 1, false),
                (3_000, 3, false),
                (3_500, 3, true),
                (4_000, 1, true),
                (9_000, 0, false),
                (9_000, 0, true)
            ]
        );
    }

    const OF_THE_NETWORK: &str = r#"
        [[step]]
        at = "1s"
        fault = "delay"
        for = "1s"
        delay_ms = 2.5
        [[step]]
        at = "2s"
        fault = "loss"
        for = "1s"
        loss_share = 0.125
        [[step]]
        at = "3s"
        fault = "half-open"
        for = "1s"
    "#;

    #[test]
    fn the_network_is_impaired_by_as_much_as_the_step_says() {
        let done: Vec<_> = steps(OF_THE_NETWORK)
            .iter()
            .map(|step| {
                let Impairment { delay_us, loss_ppm, is_dead, .. } = impairment(step);
                (delay_us, loss_ppm, is_dead)
            })
            .collect();
        assert_eq!(done, [(2_500, 0, false), (0, 125_000, false), (0, 0, true)]);
    }

    #[test]
    fn there_is_a_proxy_where_the_network_is_to_be_impaired_and_only_there() {
        let broker = SocketAddr::from(([127, 0, 0, 1], 1));
        let all = steps(OF_THE_NETWORK);
        let with = FaultInjector::new(&all, &[broker; 2]).unwrap();
        let proxies = with.targets(vec![broker; 2]);
        assert!(with.has_proxy() && proxies.len() == 2 && !proxies.contains(&broker));
        let without = FaultInjector::new(&[], &[broker]).unwrap();
        assert!(!without.has_proxy() && without.targets(vec![broker]) == [broker]);
    }

    #[test]
    fn a_step_is_done_to_its_node_or_to_all() {
        let steps =
            steps("[[step]]\nat = 1\nfault = 'kill'\n[[step]]\nat = 2\nfault = 'kill'\nnode = 2");
        assert_eq!((nodes_of(&steps[0], 3), nodes_of(&steps[1], 3)), (0..3, 1..2));
    }

    #[test]
    fn a_time_is_waited_for_while_the_load_is_there() {
        let (until_over, over) = std::sync::mpsc::channel();
        let at_us = now_us() + 2_000;
        assert!(wait_until(at_us, &over) && now_us() >= at_us);
        drop(until_over);
        assert!(!wait_until(u64::MAX, &over));
    }
}
