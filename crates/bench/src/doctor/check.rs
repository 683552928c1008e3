//! What would spoil a run on this host, each with the way to mend it.

use super::looks::Looks;
use super::{CONNECTION_BYTES, PORTS_PER_SOURCE};
use crate::lines::wrap;
use crate::numbers::grouped;
use crate::usecase::UseCase;
use serde::Serialize;
use weir_say::note;

/// What a run asks of its host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Connections in all.
    pub connections: u64,
    /// New ones a second.
    pub connect_rate_per_s: f64,
}

impl Demand {
    /// The most that any of the use cases asks for at this scale.
    pub fn of(use_cases: &[UseCase], scale: f64) -> Self {
        let connections = use_cases.iter().map(|use_case| {
            let clients = use_case.group.iter().map(|group| u64::from(group.clients));
            (clients.sum::<u64>() as f64 * scale) as u64
        });
        let rates = use_cases.iter().map(|use_case| use_case.connect_rate_per_s);
        Self {
            connections: connections.max().unwrap_or(0),
            connect_rate_per_s: rates.fold(0.0, f64::max),
        }
    }
}

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It spoils nothing.
    Fine,
    /// It would spoil a run, or make it say something else than it seems to.
    Warning,
    /// The host does not say.
    Unknown,
}

/// One thing that may spoil a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// For a person and for machines.
    pub name: &'static str,
    /// How it stands.
    pub state: State,
    /// What was seen.
    pub found: String,
    /// What it does to a run.
    pub why: &'static str,
    /// What to do; empty where nothing need be done.
    pub mend: String,
}

/// Whether it is fine, what was seen, what to do; nothing where the host does not say.
type Seen = Option<(bool, String, String)>;

/// A name, what it does to a run, and the look at it.
struct Looked {
    name: &'static str,
    why: &'static str,
    look: fn(&Looks, &Demand) -> Seen,
}

/// In the order in which they are told.
const CHECKS: &[Looked] = &[
    Looked { name: "open files", why: "one per connection, on both sides", look: files },
    Looked {
        name: "ports",
        why: "a source address needs one port per connection to the same broker",
        look: ports,
    },
    Looked {
        name: "ports in TIME_WAIT",
        why: "whoever closes a connection keeps its port for a minute",
        look: time_wait,
    },
    Looked {
        name: "accept backlog",
        why: "a connection that finds it full waits a second or more before it tries again",
        look: accept_backlog,
    },
    Looked { name: "SYN backlog", why: "connections under way over a network", look: syn_backlog },
    Looked {
        name: "connection tracking",
        why: "costs CPU per packet, and a full table drops connections",
        look: conntrack,
    },
    Looked { name: "memory", why: "for the kernel's share of each connection alone", look: memory },
    Looked {
        name: "processors",
        why: "broker and load on one processor measure each other",
        look: processors,
    },
    Looked {
        name: "CPU quota",
        why: "it stops all threads for the rest of each period, which shows in p99",
        look: quota,
    },
    Looked {
        name: "CPU governor",
        why: "if the processor changes its speed, two runs differ",
        look: governor,
    },
    Looked { name: "other load", why: "it takes CPU and caches from the run", look: others },
    Looked {
        name: "stolen time",
        why: "the hypervisor gives the processor to another guest, which shows in latency",
        look: steal,
    },
    Looked {
        name: "soft interrupts",
        why: "other traffic is handled on the broker's or the load's processor",
        look: softirq,
    },
    Looked {
        name: "clock source",
        why: "every timestamp is a system call or, worse, a device access",
        look: clock,
    },
    Looked {
        name: "huge pages",
        why: "memory grows in steps of 2 MiB, so memory per connection looks larger than it is",
        look: huge_pages,
    },
];

/// Looks at everything; takes a quarter of a second.
pub fn checks(demand: &Demand) -> Vec<Check> {
    all(&Looks::here(), demand)
}

fn all(looks: &Looks, demand: &Demand) -> Vec<Check> {
    let check = |looked: &Looked| {
        let Looked { name, why, look } = *looked;
        let (state, found, mend) = match look(looks, demand) {
            None => (State::Unknown, "the host does not say".into(), String::new()),
            Some((true, found, _)) => (State::Fine, found, String::new()),
            Some((false, found, mend)) => (State::Warning, found, mend),
        };
        Check { name, state, found, why, mend }
    };
    CHECKS.iter().map(check).collect()
}

/// A sentence on standard error for each thing that would spoil the run.
pub fn warn(demand: &Demand) {
    for check in checks(demand).iter().filter(|check| check.state == State::Warning) {
        let mut text = String::new();
        let sentence = format!("{}: {}; to fix it: {}", check.name, check.found, check.mend);
        wrap(&mut text, "warning: ", "warning:   ", &sentence);
        note!("{text}");
    }
}

fn files(looks: &Looks, demand: &Demand) -> Seen {
    let text = looks.files.read("proc/self/limits")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut limits = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    let (soft, hard) = (limits.next()?, limits.next()?);
    let needed = demand.connections + weir_load::FILES_RESERVED;
    let mut found = format!("{} per process, {} needed", grouped(soft), grouped(needed));
    // A broker that has only files is told apart: its use case is made smaller, and that is said.
    let goes_beyond = soft < needed && looks.holds >= demand.connections;
    if goes_beyond {
        found += ", and the load generator takes io_uring beyond";
    }
    let mend = match hard < needed {
        false => format!("ulimit -n {needed}"),
        true => format!("as root: ulimit -n {needed} (weir bench doctor --tune)"),
    };
    Some((soft >= needed || goes_beyond, found, mend))
}

fn port_count(looks: &Looks) -> Option<u64> {
    let range = looks.files.sysctl("net.ipv4.ip_local_port_range")?;
    let (first, last) = range.split_once(' ')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((last + 1).saturating_sub(first))
}

fn ports(looks: &Looks, demand: &Demand) -> Seen {
    let present = port_count(looks)?;
    let needed = demand.connections.min(PORTS_PER_SOURCE);
    let found = format!("{} per address, {} needed", grouped(present), grouped(needed));
    Some((present >= needed, found, set("net.ipv4.ip_local_port_range='1024 65535'")))
}

fn time_wait(looks: &Looks, _: &Demand) -> Seen {
    let text = looks.files.read("proc/net/sockstat")?;
    let line = text.lines().find(|line| line.starts_with("TCP:"))?;
    let mut words = line.split_whitespace();
    words.find(|word| *word == "tw")?;
    let waiting: u64 = words.next()?.parse().ok()?;
    let ports = port_count(looks)?;
    let found = format!("{} of {}", grouped(waiting), grouped(ports));
    let mend = format!("wait a minute, or {}", set("net.ipv4.tcp_tw_reuse=1"));
    Some((waiting <= ports / 2, found, mend))
}

/// A tenth of a second of new connections may wait.
fn backlog(demand: &Demand) -> u64 {
    (demand.connect_rate_per_s / 10.0).ceil() as u64
}

fn accept_backlog(looks: &Looks, demand: &Demand) -> Seen {
    queue(looks, "net.core.somaxconn", backlog(demand))
}

fn syn_backlog(looks: &Looks, demand: &Demand) -> Seen {
    queue(looks, "net.ipv4.tcp_max_syn_backlog", backlog(demand))
}

fn queue(looks: &Looks, name: &str, needed: u64) -> Seen {
    let present: u64 = looks.files.sysctl(name)?.parse().ok()?;
    let found = format!("{} entries, {} needed", grouped(present), grouped(needed));
    Some((present >= needed, found, set(&format!("{name}={}", needed.max(4_096)))))
}

fn conntrack(looks: &Looks, demand: &Demand) -> Seen {
    let Some(most) = looks.files.number("proc/sys/net/netfilter/nf_conntrack_max") else {
        return Some((true, "not loaded".into(), String::new()));
    };
    let count = looks.files.number("proc/sys/net/netfilter/nf_conntrack_count").unwrap_or(0);
    let found = format!("{} of {} entries taken", grouped(count), grouped(most));
    let needed = count + 2 * demand.connections;
    let mend = format!(
        "exempt the port (iptables -t raw, NOTRACK) or {}",
        set(&format!("net.netfilter.nf_conntrack_max={}", needed.max(most)))
    );
    // A table that no packet ever filled a line of is loaded and idle.
    Some((count == 0 && needed <= most, found, mend))
}

fn memory(looks: &Looks, demand: &Demand) -> Seen {
    let mut available = looks.files.field("proc/meminfo", "MemAvailable:")?.saturating_mul(1_024);
    for text in looks.cgroup_files("memory", "memory.max") {
        if let Ok(most) = text.parse::<u64>() {
            available = available.min(most);
        }
    }
    let needed = demand.connections.saturating_mul(CONNECTION_BYTES);
    let found = format!("{} MiB available, {} needed", available >> 20, needed >> 20);
    Some((available >= needed, found, "more memory, or a smaller --scale".into()))
}

fn processors(looks: &Looks, _: &Demand) -> Seen {
    let present = looks.processors()?;
    let mend = "give at least two: one for the broker, one for the load (taskset, cpuset)";
    Some((present >= 2, format!("{present} allowed"), mend.into()))
}

fn quota(looks: &Looks, _: &Demand) -> Seen {
    let version_2 = looks.cgroup_files("cpu", "cpu.max").into_iter().filter_map(|text| {
        let (quota, period) = text.split_once(' ')?;
        Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
    });
    let periods = looks.cgroup_files("cpu", "cpu.cfs_period_us");
    let quotas = looks.cgroup_files("cpu", "cpu.cfs_quota_us");
    let version_1 = quotas.iter().zip(&periods).filter_map(|(quota, period)| {
        let quota = quota.parse::<f64>().ok().filter(|&quota| quota > 0.0)?;
        Some(quota / period.parse::<f64>().ok()?)
    });
    let least = version_2.chain(version_1).min_by(f64::total_cmp);
    let mend = "run without a quota; give whole processors instead (cpuset, AllowedCPUs=)";
    Some(match least {
        None => (true, "none".into(), String::new()),
        Some(cores) => (false, format!("{cores:.2} processors per period"), mend.into()),
    })
}

fn governor(looks: &Looks, _: &Demand) -> Seen {
    const GOVERNOR: &str = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let Some(governor) = looks.files.read(GOVERNOR) else {
        let found = "the kernel shows none, as is usual in a virtual machine";
        return Some((true, found.into(), String::new()));
    };
    let mend = "cpupower frequency-set -g performance";
    Some((governor == "performance", governor, mend.into()))
}

/// Busy cores of others above which a run is not quiet.
const OTHERS_CORES_MAX: f64 = 0.1;

fn others(looks: &Looks, _: &Demand) -> Seen {
    let busy = looks.busy?.cores;
    let busiest = looks.busiest.iter().map(|(name, cores)| format!(", {name} {cores:.2}"));
    let found = format!("{busy:.2} processors busy{}", busiest.collect::<String>());
    let mend = "stop whatever else runs here, or wait until it ends";
    Some((busy <= OTHERS_CORES_MAX, found, mend.into()))
}

/// Shares of one processor.
const STEAL_CORES_MAX: f64 = 0.02;
const SOFTIRQ_CORES_MAX: f64 = 0.02;

fn steal(looks: &Looks, _: &Demand) -> Seen {
    let steal = looks.busy?.steal;
    let flags = looks.files.read("proc/cpuinfo").unwrap_or_default();
    let guest = if flags.contains("hypervisor") { ", of a virtual machine" } else { "" };
    let mend = "nothing inside the guest helps: use a host with dedicated processors";
    Some((steal <= STEAL_CORES_MAX, format!("{steal:.2} processors{guest}"), mend.into()))
}

fn softirq(looks: &Looks, _: &Demand) -> Seen {
    let softirq = looks.busy?.softirq;
    let mend = "move the network card's interrupts to other processors (smp_affinity_list)";
    Some((softirq <= SOFTIRQ_CORES_MAX, format!("{softirq:.2} processors"), mend.into()))
}

/// Sources that a process reads without a system call.
const FAST_CLOCKS: &[&str] = &[
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
];

const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0";

fn clock(looks: &Looks, _: &Demand) -> Seen {
    let current = looks.files.read(format!("{CLOCKS}/current_clocksource"))?;
    let available = looks.files.read(format!("{CLOCKS}/available_clocksource")).unwrap_or_default();
    let better = available.split_whitespace().find(|name| FAST_CLOCKS.contains(name));
    let mend = match better {
        Some(name) => format!("as root: echo {name} > /{CLOCKS}/current_clocksource"),
        None => "use a machine with a stable time stamp counter: the kernel offers no other \
            clock"
            .into(),
    };
    Some((FAST_CLOCKS.contains(&current.as_str()), current, mend))
}

fn huge_pages(looks: &Looks, _: &Demand) -> Seen {
    const ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    let text = looks.files.read(ENABLED)?;
    let (_, chosen) = text.split_once('[')?;
    let (chosen, _) = chosen.split_once(']')?;
    let mend = format!("as root: echo madvise > /{ENABLED}");
    Some((chosen != "always", chosen.into(), mend))
}

fn set(assignment: &str) -> String {
    format!("sysctl -w {assignment}")
}

#[cfg(test)]
mod tests;
