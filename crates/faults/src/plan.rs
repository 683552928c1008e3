//! The faults of a run, drawn from its seed.

use clap::ValueEnum;
use std::fmt;
use std::time::Duration;
use weir_chance::Chance;

/// How long what takes no time may take.
pub(crate) const PATIENCE: Duration = Duration::from_millis(500);

/// How many nodes there are.
pub(crate) const NODES: usize = 3;

/// What a node is called: its place in the alphabet.
pub(crate) fn name(node: usize) -> char {
    (b'a' + node as u8).into()
}

/// What a fault is done by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A node is killed by SIGKILL and started again
    Kill,
    /// Two nodes are killed by SIGKILL at once and started again; with three copies
    KillTwo,
    /// All nodes are killed by SIGKILL at once and started again, one perhaps much later; with
    /// copies
    KillAll,
    /// A node is stopped by SIGTERM and started again
    Restart,
    /// A node is frozen by SIGSTOP
    Freeze,
    /// The link of a node is down
    Cut,
    /// What one node sends to another does not come
    OneWay,
    /// Two nodes do not reach each other, but the third
    Pair,
    /// A node's etcd is reached by nobody
    EtcdCut,
    /// A node's etcd is killed by SIGKILL and started again
    EtcdKill,
    /// That etcd is killed which leads
    EtcdLeader,
    /// A node's disk is full
    DiskFull,
    /// The wall clock of a node and its etcd is stepped
    Clock,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) node: usize,
    /// Of those that are between two.
    pub(crate) other: usize,
    /// Load before it.
    pub(crate) quiet: Duration,
    /// How long it lasts.
    pub(crate) lasts: Duration,
    /// How much later than the others the node is started, if all were killed.
    pub(crate) late: Duration,
    /// By how much the clock is stepped, in seconds.
    pub(crate) step_s: i64,
    /// Whether the node is killed when its clock is stepped, and begins with the wrong time.
    pub(crate) begins_stepped: bool,
}

/// Longer than whoever has a copy waits for a node to be back.
const LATE: Duration = Duration::from_secs(25);

/// By how much clocks are stepped, forward or back, in seconds.
const STEPS_S: [i64; 6] = [2, 15, 90, 600, 3_600, 6 * 3_600];

impl Fault {
    /// The next; one of `kinds`.
    pub(crate) fn draw(chance: &mut Chance, kinds: &[Kind]) -> Self {
        let kind = kinds[chance.below(kinds.len())];
        let node = chance.below(NODES);
        let other = (node + 1 + chance.below(NODES - 1)) % NODES;
        let quiet = Duration::from_millis(3_000 + chance.below(3_000) as u64);
        // Shorter than a lease, or longer.
        let (short, is_long) = (chance.below(6_000) as u64, chance.below(2) == 1);
        // Drawn for these alone: the others are as they were without them.
        let (step_s, begins_stepped) = match kind {
            Kind::Clock => {
                let (step, is_back) = (STEPS_S[chance.below(STEPS_S.len())], chance.below(2) == 1);
                (if is_back { -step } else { step }, chance.below(2) == 1)
            }
            _ => (0, false),
        };
        let is_late = kind == Kind::KillAll && chance.below(2) == 1;
        let late = if is_late { LATE } else { Duration::ZERO };
        let lasts = match kind {
            Kind::Kill | Kind::KillAll | Kind::Restart | Kind::EtcdKill | Kind::EtcdLeader => short,
            Kind::KillTwo => 2 * short,
            Kind::Freeze | Kind::Clock if is_long => 10_000,
            Kind::Cut | Kind::OneWay | Kind::Pair | Kind::EtcdCut if is_long => 12_000,
            Kind::DiskFull => 2_000 + short,
            _ => 3_000,
        };
        let lasts = Duration::from_millis(lasts);
        Self { kind, node, other, quiet, lasts, late, step_s, begins_stepped }
    }

    /// Whether sessions at the node may be begun anew elsewhere: not only if it is lost, but also
    /// if it may be for a short time.
    pub(crate) fn may_lose(&self, node: usize) -> bool {
        self.ends_process(node)
            || self.node == node && matches!(self.kind, Kind::Freeze | Kind::Cut | Kind::EtcdCut)
    }

    /// Whether this node's process ends by it.
    pub(crate) fn ends_process(&self, node: usize) -> bool {
        match self.kind {
            Kind::KillTwo => self.node == node || self.other == node,
            Kind::KillAll => true,
            Kind::Kill | Kind::Restart => self.node == node,
            _ => self.node == node && self.begins_stepped,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, other) = (name(self.node), name(self.other));
        match self.kind {
            Kind::Kill => write!(out, "{node} killed"),
            Kind::KillTwo => write!(out, "{node} and {other} killed"),
            Kind::KillAll if self.late > Duration::ZERO => write!(out, "all killed, {node} late"),
            Kind::KillAll => write!(out, "all killed"),
            Kind::Restart => write!(out, "{node} stopped"),
            Kind::Freeze => write!(out, "{node} frozen"),
            Kind::Cut => write!(out, "link of {node} down"),
            Kind::OneWay => write!(out, "nothing from {node} to {other}"),
            Kind::Pair => write!(out, "nothing between {node} and {other}"),
            Kind::EtcdCut => write!(out, "etcd of {node} cut"),
            Kind::EtcdKill => write!(out, "etcd of {node} killed"),
            Kind::EtcdLeader => write!(out, "leading etcd killed"),
            Kind::DiskFull => write!(out, "disk of {node} full"),
            Kind::Clock if self.begins_stepped => {
                write!(out, "{node} killed, its clock {:+} s", self.step_s)
            }
            Kind::Clock => write!(out, "clock of {node} {:+} s", self.step_s),
        }?;
        write!(out, " for {:.1} s", self.lasts.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan_with_every_kind_in_it() {
        let plan = || {
            let mut chance = Chance::new(1);
            (0..200).map(|_| Fault::draw(&mut chance, Kind::value_variants())).collect::<Vec<_>>()
        };
        assert_eq!(plan(), plan());
        for kind in Kind::value_variants() {
            assert!(plan().iter().any(|fault| fault.kind == *kind), "{kind:?}");
        }
        assert!(plan().iter().all(|fault| fault.node != fault.other && fault.other < NODES));
    }

    #[test]
    fn clocks_go_forward_and_back_and_only_where_that_is_the_fault() {
        let mut chance = Chance::new(1);
        let plan: Vec<_> =
            (0..400).map(|_| Fault::draw(&mut chance, Kind::value_variants())).collect();
        let is_clock = |fault: &&Fault| fault.kind == Kind::Clock;
        for begins in [false, true] {
            let steps =
                || plan.iter().filter(is_clock).filter(|fault| fault.begins_stepped == begins);
            assert!(steps().any(|fault| fault.step_s > 0) && steps().any(|fault| fault.step_s < 0));
        }
        let mut others = plan.iter().filter(|fault| !is_clock(fault));
        assert!(others.all(|fault| fault.step_s == 0 && !fault.begins_stepped));
    }
}
