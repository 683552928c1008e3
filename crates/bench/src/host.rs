//! The host: what a reader needs to know of it, and which cores broker and load get.

pub(crate) mod files;
mod kernel;

pub(crate) use files::{Files, Ticks};

use crate::login::Login;
use crate::result::{Disturbance, Host};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Kernel settings that decide how many connections there can be and how they behave.
const SYSCTLS: &[&str] = &[
    "net.core.somaxconn",
    "net.core.netdev_max_backlog",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "fs.file-max",
];

/// A line `key: value` of a file in /proc.
fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// Everything disclosed of the host. `pinning` is in words.
pub fn facts(pinning: &str) -> Host {
    let files = Files::here();
    let read = |path: &str| files.read(path).unwrap_or_default();
    let cpuinfo = read("proc/cpuinfo");
    // Not available_parallelism: that is what the calling thread may use.
    let cores = match cpuinfo.lines().filter(|line| line.starts_with("processor")).count() {
        0 => std::thread::available_parallelism().map_or(1, usize::from) as u32,
        cores => cores as u32,
    };
    let governor = read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let os_release = read("etc/os-release");
    let os = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let loads = read("proc/loadavg");
    let mut loads = loads.split_whitespace().map(|word| word.parse().unwrap_or(0.0));
    let mut sysctls = BTreeMap::new();
    for name in SYSCTLS {
        sysctls
            .insert((*name).to_owned(), files.sysctl(name).unwrap_or_else(|| "not known".into()));
    }
    Host {
        cpu_model: field(&cpuinfo, "model name").unwrap_or_else(|| "not known".into()),
        cores,
        governor: match &*governor {
            "" => "not known: the kernel shows no frequency governor".into(),
            _ => governor,
        },
        memory_bytes: memory_bytes().0,
        os: os.unwrap_or("not known").trim_matches('"').into(),
        kernel: read("proc/sys/kernel/osrelease"),
        virtualization: virtualization(&files, &cpuinfo),
        load_before: [(); 3].map(|()| loads.next().unwrap_or(0.0)),
        open_files_max: open_files_max(),
        sysctls,
        kernel_facts: kernel::facts(),
        pinning: pinning.into(),
        round_trip_us_before: None,
        round_trip_us_after: None,
        disturbance: Disturbance::default(),
    }
}

fn virtualization(files: &Files, cpuinfo: &str) -> String {
    let dmi = ["sys_vendor", "product_name"];
    let dmi = dmi.into_iter().filter_map(|name| files.text(format!("sys/class/dmi/id/{name}")));
    let machine = dmi.collect::<Vec<_>>();
    let machine = match machine.join(" ") {
        machine if machine.is_empty() => "the machine does not name itself".into(),
        machine => machine,
    };
    let is_guest = field(cpuinfo, "flags").is_some_and(|flags| flags.contains("hypervisor"));
    let seen = if is_guest { "a hypervisor" } else { "none seen" };
    format!("{seen} ({machine})")
}

/// Memory of the host: all, and in use (all less available).
pub fn memory_bytes() -> (u64, u64) {
    let files = Files::here();
    let bytes = |key: &str| files.field("proc/meminfo", key).unwrap_or(0) * 1024;
    let total = bytes("MemTotal:");
    (total, total.saturating_sub(bytes("MemAvailable:")))
}

/// Open files allowed for one process.
pub fn open_files_max() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// Median round trip of PINGREQ and PINGRESP, in microseconds.
pub fn round_trip_us(target: SocketAddr, login: &Login) -> Option<f64> {
    crate::mqtt::round_trip_us(target, login)
}

/// Which processor broker and load get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// For the broker's process.
    pub broker_core: Option<usize>,
    /// For the load generator's thread.
    pub load_core: Option<usize>,
    /// For agents in turn: all but the broker's.
    pub agent_cores: Vec<usize>,
    /// The same in words.
    pub text: String,
}

impl Pinning {
    /// One core each where there are two and it is wanted.
    pub fn plan(is_wanted: bool) -> Self {
        let allowed = rustix::thread::sched_getaffinity(None);
        let cores: Vec<usize> = match &allowed {
            Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&at| set.is_set(at)).collect(),
            Err(_) => Vec::new(),
        };
        match (is_wanted, cores.as_slice()) {
            (true, [broker, load, ..]) => Self {
                broker_core: Some(*broker),
                load_core: Some(*load),
                agent_cores: cores[1..].to_vec(),
                text: format!("broker on core {broker}, load generator on core {load}"),
            },
            (true, _) => Self::none("not pinned: there are not two cores"),
            (false, _) => Self::none("not pinned"),
        }
    }

    /// The same for so many agents of this host.
    pub fn of_agents(self, count: u32) -> Self {
        let [_, _, ..] = &*self.agent_cores else { return self };
        if count == 0 {
            return self;
        }
        let cores = self.agent_cores.iter().take(count as usize);
        let cores: Vec<String> = cores.map(usize::to_string).collect();
        let broker = self.broker_core.unwrap_or_default();
        let text = format!("broker on core {broker}, agents on cores {}", cores.join(", "));
        Self { text, ..self }
    }

    fn none(text: &str) -> Self {
        Self { broker_core: None, load_core: None, agent_cores: Vec::new(), text: text.into() }
    }
}

/// Makes the calling thread the last to be run, on the processor `core` if one is given.
pub(crate) fn step_back(core: Option<usize>) {
    // For the calling thread alone, on Linux. A viewer that may not step back is no fault.
    let _ = rustix::process::setpriority_process(None, 19);
    if let Some(core) = core {
        pin_this_thread(core);
    }
}

/// Keeps the calling thread on one processor.
pub fn pin_this_thread(core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &cores) {
        tracing::warn!(%error, "the load generator could not be pinned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_filled_or_says_that_it_is_not_known() {
        let host = facts("in words");
        assert!(host.cores > 0 && host.memory_bytes > 0 && host.open_files_max > 0, "{host:?}");
        for text in [&host.cpu_model, &host.governor, &host.os, &host.kernel, &host.virtualization]
        {
            assert!(!text.is_empty(), "{host:?}");
        }
        assert_eq!(host.sysctls.len(), SYSCTLS.len());
        assert!(host.sysctls.values().all(|value| !value.is_empty()), "{host:?}");
        assert_eq!(host.pinning, "in words");
    }

    #[test]
    fn a_plan_pins_to_two_cores_or_to_none() {
        let plan = Pinning::plan(true);
        assert_eq!(plan.broker_core.is_some(), plan.load_core.is_some());
        assert!(plan.broker_core.is_none() || plan.broker_core != plan.load_core);
        assert_eq!(Pinning::plan(false), Pinning::none("not pinned"));
    }

    #[test]
    fn a_pinned_thread_stays_on_its_core() {
        let Some(core) = Pinning::plan(true).load_core else { return };
        let allowed = std::thread::spawn(move || {
            pin_this_thread(core);
            rustix::thread::sched_getaffinity(None).unwrap()
        });
        let allowed = allowed.join().unwrap();
        assert!(allowed.is_set(core) && allowed.count() == 1);
    }

    #[test]
    fn where_nobody_listens_there_is_no_round_trip() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(round_trip_us(target, &Login::default()), None);
    }
}
