//! The line that moves while a run lasts; plain lines where there is no terminal.

use super::Viewer;
use super::events::Event;
use super::state::{Run, State};
use super::text::{millis, si};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;
use weir_say::noteln;

/// How often a plain line is written, in seconds of the run.
const PLAIN_EVERY_S: f64 = 5.0;

/// Lines on standard error.
pub(crate) struct Lines {
    state: State,
    /// The line that moves; absent where lines stand one below the other.
    bar: Option<ProgressBar>,
    /// When a plain line was written, and in which phase.
    last_plain: Option<(f64, &'static str)>,
}

impl Lines {
    /// With a line that moves, or with plain lines only.
    pub(crate) fn new(has_bar: bool) -> Self {
        Self { state: State::default(), bar: has_bar.then(bar), last_plain: None }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| noteln!("{line}")),
            None => noteln!("{line}"),
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

impl Viewer for Lines {
    fn handle(&mut self, event: &Event) {
        self.state.handle(event);
        match event {
            Event::Started(_) => {
                self.last_plain = None;
                for line in self.state.run.iter().flat_map(announcement) {
                    self.say(&line);
                }
                if let Some(bar) = &self.bar {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                    bar.enable_steady_tick(Duration::from_millis(100));
                }
            }
            Event::Interval(row) => {
                let Some(run) = &self.state.run else { return };
                let phase = run.phases.last().map_or("", |phase| phase.name);
                let is_due = self
                    .last_plain
                    .is_none_or(|(at_s, of)| of != phase || row.t_s - at_s >= PLAIN_EVERY_S);
                if let Some(bar) = &self.bar {
                    bar.set_message(line(run));
                } else if is_due {
                    self.last_plain = Some((row.t_s, phase));
                    noteln!("  {}", line(run));
                }
            }
            Event::Mark(mark) => self.say(&format!("  {:>6.1} s {}", mark.t_s, mark.text)),
            Event::Ended(ended) => {
                if let Some(bar) = &self.bar {
                    bar.disable_steady_tick();
                    bar.set_draw_target(ProgressDrawTarget::hidden());
                }
                // Why, is said below the tables.
                if !ended.reasons.is_empty() {
                    noteln!("  {}", ended.status.name());
                }
            }
            Event::Planned(_) | Event::Phase(_) | Event::Over => {}
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What is going to happen, before it does.
fn announcement(run: &Run) -> Vec<String> {
    let of = &run.started;
    // One that is not started has no address.
    let mut known = Vec::new();
    if !of.address.is_empty() {
        known.push(of.address.clone());
    }
    if of.profile != "unknown" {
        known.push(format!("profile {}", of.profile));
    }
    let mut lines = vec![format!("{} on {} ({})", of.use_case, of.broker, known.join(", "))];
    lines.extend(of.note.iter().map(|note| format!("  note: {note}")));
    if of.agents > 0 {
        lines.push(format!("  {} agents share the load", of.agents));
    }
    lines.push(format!("  results go to {}", of.folder));
    lines
}

/// A run's newest interval.
fn line(run: &Run) -> String {
    let Some(row) = run.row() else { return String::new() };
    let left = run.left_s().map_or_else(String::new, |left_s| format!("{left_s:>3.0} s left"));
    let mut parts = vec![format!("{:<9}{left}", row.phase)];
    match row.phase.as_str() {
        "connect" | "subscribe" => {
            parts.push(format!("{}/{} connected", row.connections, run.started.connections));
            parts.push(format!("{}/s", si(row.connected_per_s)));
            parts.push(format!("p99 {}", millis(row.connect_p99_us)));
        }
        _ if row.publishers == 0 && row.published_per_s + row.received_per_s == 0.0 => {
            parts.push(format!("{} connections held", row.connections));
        }
        _ => {
            parts.push(format!(
                "out {}/s in {}/s",
                si(row.published_per_s),
                si(row.received_per_s)
            ));
            let (p50, p99) = (millis(row.latency_p50_us), millis(row.latency_p99_us));
            parts.push(format!("p50 {p50} p99 {p99}"));
            parts.push(format!("outstanding {}", si(row.outstanding as f64)));
        }
    }
    if run.started.is_watched {
        let cores = row.broker_cpu_cores();
        parts.push(format!("broker {cores:.2} cores {:.0} MB", row.broker_rss_bytes as f64 / 1e6));
    }
    parts.push(format!("load {:.2} cores", row.generator_cpu_cores));
    parts.join(" | ")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn run(rows: usize) -> Run {
        let mut state = State::default();
        sample::events(rows).iter().for_each(|event| state.handle(event));
        state.run.unwrap()
    }

    #[test]
    fn a_line_has_the_rates_the_latencies_and_who_works_how_much() {
        let text = line(&run(4));
        for part in [
            "measure    7 s left",
            "out 1000/s in 990/s",
            "p50 0.1 ms p99 0.9 ms",
            "outstanding 10",
            "broker 0.25 cores 12 MB",
            "load 0.21 cores",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }

    #[test]
    fn a_run_is_announced_with_its_broker_and_its_folder() {
        let mut run = run(0);
        run.started.note = Some("fewer files".into());
        run.started.agents = 3;
        assert_eq!(
            announcement(&run),
            [
                "singlenode-p2p-1K-1K-1K-1K on Weir 0.1.0 (127.0.0.1:1883, profile default)",
                "  note: fewer files",
                "  3 agents share the load",
                "  results go to weir-results/one",
            ]
        );
    }
}
