//! What got slower or faster since the last record, beyond the spread of the repeats.

use super::record::{Figure, Record, Repeat};
use std::fmt::Write as _;

/// Figures of which less is better. Raw microseconds are not among them: they follow the machine.
const FIGURES: &[(&str, Figure)] =
    &[("c/R one", Repeat::by_send), ("p99 ms", Repeat::p99_ms), ("RSS MB", Repeat::rss_mb)];

/// A line for each change; what is compared with what stands above.
pub(crate) fn changes(last: &Record, now: &Record) -> String {
    let mut text = format!("compared with {} ({}):\n", last.name(), last.started);
    let mut rows = 0;
    let mut changes = 0;
    for row in &now.rows {
        let is_same = |old: &&super::record::Row| {
            old.use_case == row.use_case && old.broker == row.broker && old.repeats.len() > 1
        };
        let Some(old) = last.rows.iter().find(is_same).filter(|_| row.repeats.len() > 1) else {
            continue;
        };
        rows += 1;
        for (name, figure) in FIGURES {
            let (Some(before), Some(after)) = (old.spread(*figure), row.spread(*figure)) else {
                continue;
            };
            let word = if after.is_above(&before) {
                "slower or more"
            } else if before.is_above(&after) {
                "faster or less"
            } else {
                continue;
            };
            changes += 1;
            let _ = writeln!(
                text,
                "  {word}: {} on {}: {name} {after:.2}, was {before:.2}",
                row.use_case, row.broker
            );
        }
    }
    if rows == 0 {
        text += "  nothing: no use case has several repeats in both\n";
    } else if changes == 0 {
        let _ = writeln!(text, "  no change beyond the spread in {rows} rows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::{Calibration, Raw};
    use crate::perf::record::{Figures, Row};

    fn record(name: &str, cpu_us: &[f64]) -> Record {
        let raw = Raw { send_us: 2.0, receive_us: 1.0 };
        let calibration = Calibration { sockets: 1, one: raw, two: raw };
        let repeat = |(at, &cpu_us): (usize, &f64)| Repeat {
            round: at as u32 + 1,
            calibration,
            figures: Figures { cpu_us: Some(cpu_us), ..Figures::default() },
        };
        let repeats = cpu_us.iter().enumerate().map(repeat).collect();
        Record {
            commit: name.into(),
            started: "2026-01-01T00:00:00Z".into(),
            host_name: "host".into(),
            host: serde_json::Value::Null,
            warm_up_s: 1.0,
            measure_s: 1.0,
            rows: vec![Row {
                use_case: "fan-out".into(),
                broker: "weir".into(),
                version: "1".into(),
                repeats,
            }],
        }
    }

    #[test]
    fn only_what_is_beyond_the_spread_is_a_change() {
        let old = record("old", &[4.0, 4.2, 4.4]);
        let slower = changes(&old, &record("new", &[4.6, 5.0]));
        assert!(slower.contains("slower or more: fan-out on weir: c/R one 2.40"), "{slower}");
        let faster = changes(&old, &record("new", &[3.0, 3.9]));
        assert!(faster.contains("faster or less"), "{faster}");
        let same = changes(&old, &record("new", &[4.3, 5.0]));
        assert!(same.contains("no change beyond the spread in 1 rows"), "{same}");
        let once = changes(&old, &record("new", &[9.0]));
        assert!(once.contains("nothing"), "{once}");
    }
}
