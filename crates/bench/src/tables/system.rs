//! What a run cost beside CPU and memory: the host's network, switches, power, and what follows.

use super::{new_table, short};
use crate::numbers::{cores, count, mega};
use crate::result::RunResult;
use comfy_table::Table;

/// A row a run that has any of it; absent where none has, as in results of before.
pub(super) fn system_table(runs: &[&RunResult]) -> Option<Table> {
    let mut table = new_table([
        "broker",
        "msg/cpu-s",
        "KiB/conn",
        "PSS",
        "ctxsw/s",
        "lo B/s",
        "net in:out",
        "host",
        "stolen",
        "W",
    ]);
    let mut is_empty = true;
    for run in runs {
        let Some(of) = &run.system else { continue };
        is_empty = false;
        let measure = &of.measure;
        let cell = |value: Option<f64>, text: fn(f64) -> String| {
            value.map_or_else(|| "-".to_owned(), text)
        };
        let cores = |value| cell(value, cores);
        let (net_in, net_out) = (measure.net_received_bytes_per_s, measure.net_sent_bytes_per_s);
        table.add_row([
            short(run),
            cell(of.messages_per_core_s, count),
            match (of.kib_per_connection, &run.resources) {
                (None, Some(_)) => "n/m".into(),
                (kib, _) => cell(kib, |kib| format!("{kib:.1}")),
            },
            of.pss_max_bytes.map_or_else(|| "-".into(), mega),
            cell(measure.context_switches_per_s, count),
            cell(measure.loopback_bytes_per_s, bytes),
            format!("{}:{}", cell(net_in, bytes), cell(net_out, bytes)),
            cores(measure.host_cpu_cores),
            cores(measure.host_steal_cores),
            cell(measure.power_watts, |watts| format!("{watts:.1}")),
        ]);
    }
    (!is_empty).then_some(table)
}

fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes < 1e5 => format!("{:.1}k", bytes / 1e3),
        bytes => mega(bytes as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_unit_that_leaves_them_short() {
        let texts = [0.0, 1_240.0, 99_940.0, 100_000.0, 2_500_000.0].map(bytes);
        assert_eq!(texts, ["0.0k", "1.2k", "99.9k", "0.1M", "2.5M"]);
    }
}
