//! The line that moves while a run lasts; plain lines where there is no terminal.

use crate::monitor::Sample;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use weir_load::outcome::{Interval, Phase};

/// How often a plain line is written.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// One run's line.
pub(crate) struct Live {
    bar: ProgressBar,
    is_terminal: bool,
    last_plain: Option<(Instant, Phase)>,
    /// When the measure phase is expected to end, once publishing has begun.
    length_s: [u64; 3],
    phase: Option<(Phase, Instant)>,
    connections_planned: u64,
    connect_rate_per_s: f64,
    before: Option<Sample>,
}

impl Live {
    /// A line for a run with these phases in seconds (warm-up, measure, drain).
    pub(crate) fn new(length_s: [u64; 3], connections: u64, connect_rate_per_s: f64) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::new_spinner();
        if is_terminal {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(100));
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self {
            bar,
            is_terminal,
            last_plain: None,
            length_s,
            phase: None,
            connections_planned: connections,
            connect_rate_per_s,
            before: None,
        }
    }

    /// Shows an interval of the load and the newest sample of the broker.
    pub(crate) fn show(&mut self, interval: &Interval, sample: Option<Sample>) {
        if self.phase.is_none_or(|(phase, _)| phase != interval.phase) {
            self.phase = Some((interval.phase, Instant::now()));
        }
        let text = self.text(interval, sample);
        self.before = sample;
        if self.is_terminal {
            return self.bar.set_message(text);
        }
        let is_due = self
            .last_plain
            .is_none_or(|(at, phase)| phase != interval.phase || at.elapsed() >= PLAIN_EVERY);
        if is_due {
            self.last_plain = Some((Instant::now(), interval.phase));
            eprintln!("  {text}");
        }
    }

    /// Takes the line away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn text(&self, interval: &Interval, sample: Option<Sample>) -> String {
        let seconds = interval.length_us as f64 / 1e6;
        let rate = |count: u64| si(count as f64 / seconds);
        let mut parts = vec![format!("{:<9}{}", name(interval.phase), self.left(interval.phase))];
        match interval.phase {
            Phase::Connect | Phase::Subscribe => {
                let planned = self.connections_planned;
                parts.push(format!("{}/{planned} connected", interval.connections));
                parts.push(format!("{}/s", rate(interval.connected)));
                parts.push(format!("p99 {}", millis(interval.connect_latency.p99_us)));
            }
            _ if interval.publishers + interval.published + interval.received == 0 => {
                parts.push(format!("{} connections held", interval.connections));
            }
            _ => {
                parts.push(format!(
                    "out {}/s in {}/s",
                    rate(interval.published),
                    rate(interval.received)
                ));
                let latency = &interval.end_to_end_latency;
                parts.push(format!(
                    "p50 {} p99 {}",
                    millis(latency.p50_us),
                    millis(latency.p99_us)
                ));
                parts.push(format!("outstanding {}", si(interval.outstanding as f64)));
            }
        }
        if let (Some(now), Some(before)) = (sample, self.before) {
            let wall_us = now.at_us.saturating_sub(before.at_us).max(1) as f64;
            let cpu_us = (now.cpu_user_us + now.cpu_system_us)
                .saturating_sub(before.cpu_user_us + before.cpu_system_us);
            parts.push(format!(
                "broker {:.2} cores {:.0} MB",
                cpu_us as f64 / wall_us,
                now.rss_bytes as f64 / 1e6
            ));
        }
        parts.push(format!("load {:.2} cores", interval.generator_cpu_cores));
        parts.join(" | ")
    }

    fn left(&self, phase: Phase) -> String {
        let Some((_, since)) = self.phase else { return String::new() };
        let length_s = match phase {
            Phase::Connect => {
                (self.connections_planned as f64 / self.connect_rate_per_s).ceil() as u64
            }
            Phase::Subscribe => return String::new(),
            Phase::WarmUp => self.length_s[0],
            Phase::Measure => self.length_s[1],
            Phase::Drain => self.length_s[2],
        };
        format!("{:>3} s left", length_s.saturating_sub(since.elapsed().as_secs()))
    }
}

/// The phase as a person and the results name it.
pub(crate) fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Connect => "connect",
        Phase::Subscribe => "subscribe",
        Phase::WarmUp => "warm-up",
        Phase::Measure => "measure",
        Phase::Drain => "drain",
    }
}

fn millis(latency_us: u64) -> String {
    format!("{:.1} ms", latency_us as f64 / 1e3)
}

fn si(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{:.2}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}
