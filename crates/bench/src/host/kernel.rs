//! What the kernel does to every connection and time stamp: disclosed, since two hosts that differ
//! in it are not comparable.

use super::sysctl;
use serde::{Deserialize, Serialize};
use std::fs::read_to_string;

/// How the kernel treats sockets, clocks, memory and processors. Every field is filled, or says
/// that it is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelFacts {
    /// TCP's congestion control for new sockets, such as cubic.
    pub congestion_control: String,
    /// Those it could be set to.
    pub congestion_controls: String,
    /// Queueing discipline of new network devices, such as `fq_codel`; loopback has none.
    pub queueing: String,
    /// Bytes of a TCP receive buffer: least, at the begin, most.
    pub receive_buffer: String,
    /// Bytes of a TCP send buffer: least, at the begin, most.
    pub send_buffer: String,
    /// Most bytes that a program may ask for: receive, send.
    pub asked_buffers: String,
    /// Pages that all of TCP may take: no pressure below, pressure, most.
    pub tcp_memory: String,
    /// Where time stamps come from, such as tsc.
    pub clock_source: String,
    /// Those it could be set to.
    pub clock_sources: String,
    /// What reading the clock costs here, in nanoseconds; 0 where it was not measured.
    pub clock_read_ns: f64,
    /// Frequency governors of all processors, each with how many have it.
    pub governors: String,
    /// Whether the processor may raise its frequency by itself.
    pub boost: String,
    /// Whether a core is two processors.
    pub hyper_threads: String,
    /// Transparent huge pages: always, madvise or never.
    pub huge_pages: String,
    /// Whether every packet is looked up in a table of connections.
    pub connection_tracking: String,
    /// Mitigations of the processor's faults, as the kernel was told on its command line.
    pub mitigations: String,
}

const NOT_KNOWN: &str = "not known";

/// Readings of the clock that are timed together.
const CLOCK_READS: u32 = 20_000;

/// Everything of this host.
pub fn facts() -> KernelFacts {
    const CLOCK: &str = "/sys/devices/system/clocksource/clocksource0";
    let setting = |name: &str| sysctl(name).unwrap_or_else(|| NOT_KNOWN.into());
    let asked = ["net.core.rmem_max", "net.core.wmem_max"].map(setting);
    KernelFacts {
        congestion_control: setting("net.ipv4.tcp_congestion_control"),
        congestion_controls: setting("net.ipv4.tcp_available_congestion_control"),
        queueing: setting("net.core.default_qdisc"),
        receive_buffer: setting("net.ipv4.tcp_rmem"),
        send_buffer: setting("net.ipv4.tcp_wmem"),
        asked_buffers: asked.join(", "),
        tcp_memory: setting("net.ipv4.tcp_mem"),
        clock_source: line(&format!("{CLOCK}/current_clocksource")),
        clock_sources: line(&format!("{CLOCK}/available_clocksource")),
        clock_read_ns: clock_read_ns(),
        governors: governors(),
        boost: boost(),
        hyper_threads: match line("/sys/devices/system/cpu/smt/active").as_str() {
            "1" => "on".into(),
            "0" => "off".into(),
            _ => NOT_KNOWN.into(),
        },
        huge_pages: chosen(&line("/sys/kernel/mm/transparent_hugepage/enabled")),
        connection_tracking: match sysctl("net.netfilter.nf_conntrack_max") {
            Some(most) => format!("loaded, {most} entries at most"),
            None => "not loaded".into(),
        },
        mitigations: mitigations(),
    }
}

/// A file of one line, or that it is not known.
fn line(path: &str) -> String {
    let text = read_to_string(path).unwrap_or_default();
    match text.trim() {
        "" => NOT_KNOWN.into(),
        text => text.into(),
    }
}

/// The word in brackets of a choice such as `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inside = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or_else(|| text.to_owned(), |(chosen, _)| chosen.to_owned())
}

fn clock_read_ns() -> f64 {
    let read = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let ns = |time: rustix::time::Timespec| time.tv_sec as f64 * 1e9 + time.tv_nsec as f64;
    let begin = read();
    for _ in 1..CLOCK_READS {
        std::hint::black_box(read());
    }
    (ns(read()) - ns(begin)) / f64::from(CLOCK_READS)
}

fn governors() -> String {
    let mut counts: Vec<(String, u32)> = Vec::new();
    for cpu in 0.. {
        let folder = format!("/sys/devices/system/cpu/cpu{cpu}");
        if !std::path::Path::new(&folder).is_dir() {
            break;
        }
        let governor = line(&format!("{folder}/cpufreq/scaling_governor"));
        match counts.iter_mut().find(|(known, _)| *known == governor) {
            Some((_, count)) => *count += 1,
            None => counts.push((governor, 1)),
        }
    }
    let text: Vec<String> =
        counts.iter().map(|(name, count)| format!("{name} x {count}")).collect();
    if text.is_empty() { NOT_KNOWN.into() } else { text.join(", ") }
}

/// Two drivers of frequencies say it in two ways.
fn boost() -> String {
    let is_on = match read_to_string("/sys/devices/system/cpu/intel_pstate/no_turbo") {
        Ok(text) => Some(text.trim() == "0"),
        Err(_) => {
            let text = read_to_string("/sys/devices/system/cpu/cpufreq/boost").ok();
            text.map(|text| text.trim() == "1")
        }
    };
    is_on.map_or(NOT_KNOWN, |is_on| if is_on { "on" } else { "off" }).into()
}

fn mitigations() -> String {
    let text = read_to_string("/proc/cmdline").unwrap_or_default();
    let told = text.split_whitespace().find_map(|word| word.strip_prefix("mitigations="));
    told.unwrap_or("the kernel's default").into()
}

impl KernelFacts {
    /// Name and value of each fact, for lists. What a result of an older writer lacks is empty.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let unit = |value: &str, unit: &str| match value {
            "" => String::new(),
            value => format!("{value} {unit}"),
        };
        let of = |value: &str, all: &str| match value {
            "" => String::new(),
            value => format!("{value} (of {all})"),
        };
        let mut clock = of(&self.clock_source, &self.clock_sources);
        if self.clock_read_ns > 0.0 {
            clock += &format!(", {:.0} ns a reading", self.clock_read_ns);
        }
        vec![
            ("congestion control", of(&self.congestion_control, &self.congestion_controls)),
            ("queueing of devices", self.queueing.clone()),
            ("TCP receive buffer", unit(&self.receive_buffer, "B")),
            ("TCP send buffer", unit(&self.send_buffer, "B")),
            ("socket buffers on demand", unit(&self.asked_buffers, "B at most")),
            ("TCP memory", unit(&self.tcp_memory, "pages")),
            ("clock source", clock),
            ("governors", self.governors.clone()),
            ("boost", self.boost.clone()),
            ("hyper-threads", self.hyper_threads.clone()),
            ("huge pages", self.huge_pages.clone()),
            ("connection tracking", self.connection_tracking.clone()),
            ("mitigations", self.mitigations.clone()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_filled_or_says_that_it_is_not_known() {
        let facts = facts();
        for (name, value) in facts.pairs() {
            assert!(!value.trim().is_empty(), "{name}");
        }
        let text = serde_json::to_value(&facts).unwrap();
        for (name, value) in text.as_object().unwrap() {
            assert!(value.as_str() != Some(""), "{name}");
        }
        assert!(facts.clock_read_ns > 0.0, "{}", facts.clock_read_ns);
    }

    #[test]
    fn results_without_these_facts_are_read() {
        let facts: KernelFacts = serde_json::from_str("{}").unwrap();
        assert_eq!(facts, KernelFacts::default());
        assert!(facts.pairs().iter().all(|(_, value)| value.is_empty()), "{:?}", facts.pairs());
    }

    #[test]
    fn of_a_choice_the_word_in_brackets_is_the_fact() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("not known"), "not known");
    }
}
