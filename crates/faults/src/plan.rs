//! The faults of a run, drawn from its seed.

use clap::ValueEnum;
use std::fmt;
use std::time::Duration;
use weir_chance::Chance;

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
}

impl Fault {
    /// The next; one of `kinds`.
    pub(crate) fn draw(chance: &mut Chance, kinds: &[Kind]) -> Self {
        let kind = kinds[chance.below(kinds.len())];
        let node = chance.below(NODES);
        let other = (node + 1 + chance.below(NODES - 1)) % NODES;
        let quiet = Duration::from_millis(3_000 + chance.below(3_000) as u64);
        // Shorter than a lease, or longer.
        let (short, is_long) = (chance.below(6_000) as u64, chance.below(2) == 1);
        let lasts = match kind {
            Kind::Kill | Kind::Restart | Kind::EtcdKill | Kind::EtcdLeader => short,
            Kind::Freeze if is_long => 10_000,
            Kind::Cut | Kind::OneWay | Kind::Pair | Kind::EtcdCut if is_long => 12_000,
            Kind::DiskFull => 2_000 + short,
            _ => 3_000,
        };
        Self { kind, node, other, quiet, lasts: Duration::from_millis(lasts) }
    }

    /// Whether sessions at the node may be begun anew elsewhere: not only if it is lost, but also
    /// if it may be for a short time.
    pub(crate) fn may_lose(&self, node: usize) -> bool {
        self.ends_process(node)
            || self.node == node && matches!(self.kind, Kind::Freeze | Kind::Cut | Kind::EtcdCut)
    }

    /// Whether this node's process ends by it.
    pub(crate) fn ends_process(&self, node: usize) -> bool {
        self.node == node && matches!(self.kind, Kind::Kill | Kind::Restart)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, other) = (name(self.node), name(self.other));
        match self.kind {
            Kind::Kill => write!(out, "{node} killed"),
            Kind::Restart => write!(out, "{node} stopped"),
            Kind::Freeze => write!(out, "{node} frozen"),
            Kind::Cut => write!(out, "link of {node} down"),
            Kind::OneWay => write!(out, "nothing from {node} to {other}"),
            Kind::Pair => write!(out, "nothing between {node} and {other}"),
            Kind::EtcdCut => write!(out, "etcd of {node} cut"),
            Kind::EtcdKill => write!(out, "etcd of {node} killed"),
            Kind::EtcdLeader => write!(out, "leading etcd killed"),
            Kind::DiskFull => write!(out, "disk of {node} full"),
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
}
