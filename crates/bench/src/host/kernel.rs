//! What the kernel does to every connection and time stamp, and no setting says: disclosed, since
//! two hosts that differ in it are not comparable.

use super::files::Files;
use crate::result::KernelFacts;

const NOT_KNOWN: &str = "not known";

/// Readings of the clock that are timed together.
const CLOCK_READS: u32 = 20_000;

/// Everything of this host.
pub(super) fn facts() -> KernelFacts {
    let files = Files::here();
    KernelFacts {
        clock_read_ns: clock_read_ns(),
        governors: governors(&files),
        boost: boost(&files),
        connection_tracking: match files.sysctl("net.netfilter.nf_conntrack_max") {
            Some(most) => format!("loaded, {most} entries at most"),
            None => "not loaded".into(),
        },
        mitigations: mitigations(&files),
    }
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

fn governors(files: &Files) -> String {
    let mut counts: Vec<(String, u32)> = Vec::new();
    for cpu in 0.. {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        if !files.has_folder(&folder) {
            break;
        }
        let governor = files.text(format!("{folder}/cpufreq/scaling_governor"));
        let governor = governor.unwrap_or_else(|| NOT_KNOWN.into());
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
fn boost(files: &Files) -> String {
    let no_turbo = files.read("sys/devices/system/cpu/intel_pstate/no_turbo");
    let is_on = no_turbo
        .map(|text| text == "0")
        .or_else(|| files.read("sys/devices/system/cpu/cpufreq/boost").map(|text| text == "1"));
    is_on.map_or(NOT_KNOWN, |is_on| if is_on { "on" } else { "off" }).into()
}

fn mitigations(files: &Files) -> String {
    let text = files.read("proc/cmdline").unwrap_or_default();
    let told = text.split_whitespace().find_map(|word| word.strip_prefix("mitigations="));
    told.unwrap_or("the kernel's default").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_is_filled_or_says_that_it_is_not_known() {
        let facts = facts();
        let text = serde_json::to_value(&facts).unwrap();
        for (name, value) in text.as_object().unwrap() {
            assert!(value.as_str() != Some(""), "{name}");
        }
        assert!(facts.clock_read_ns > 0.0, "{}", facts.clock_read_ns);
    }
}
