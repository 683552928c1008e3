//! What a connect is made of where there is a handshake: a row a run that has one.

use super::{latency_cells, new_table, short};
use crate::numbers::grouped;
use crate::result::RunResult;
use comfy_table::Table;

/// The parts, as tables and `latencies` name them.
const PARTS: [(&str, &str); 3] =
    [("TCP", "tcp_connect"), ("handshake", "handshake"), ("CONNACK", "connack")];

/// Absent where no run has handshakes.
pub(super) fn handshake_table(runs: &[&RunResult]) -> Option<Table> {
    let runs: Vec<_> = runs.iter().filter(|run| run.latencies.contains_key("handshake")).collect();
    let mut table = new_table(["broker", "part", "full", "resumed", "avg ms", "p50", "p99", "max"]);
    for run in &runs {
        for (title, name) in PARTS {
            let [avg, p50, _, _, _, p99, _, max] = latency_cells(run.latencies.get(name));
            let is_handshake = name == "handshake";
            let counted = |count| if is_handshake { grouped(count) } else { String::new() };
            let (full, resumed) = (counted(run.handshakes.full), counted(run.handshakes.resumed));
            table.add_row([short(run), title.into(), full, resumed, avg, p50, p99, max]);
        }
    }
    (!runs.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::LatencyResult;
    use weir_load::outcome::Handshakes;

    #[test]
    fn the_parts_of_a_connect_stand_below_each_other() {
        let text = include_str!("../../tests/data/result-2.json");
        let mut run: RunResult = serde_json::from_str(text).unwrap();
        assert!(handshake_table(&[&run]).is_none());
        for (at, (_, name)) in PARTS.into_iter().enumerate() {
            let latency = LatencyResult { count: 1, max_us: 1_000 << at, ..Default::default() };
            run.latencies.insert(name.into(), latency);
        }
        run.handshakes = Handshakes { full: 12, resumed: 3_456 };
        let text = handshake_table(&[&run]).unwrap().to_string();
        let row = |part: &str| text.lines().find(|line| line.contains(part)).unwrap().to_owned();
        assert!(row("handshake").contains("12") && row("handshake").contains("3,456"), "{text}");
        assert!(row("TCP").contains("1.0") && row("CONNACK").contains("4.0"), "{text}");
    }
}
