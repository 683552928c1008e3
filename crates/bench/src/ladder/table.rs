//! A ladder in the terminal.

use super::record::{Ladder, LadderStep};
use super::search::{Ending, Purpose, Seen};
use crate::lines::wrap;
use crate::numbers::{count, millis};
use crate::stats::Spread;
use crate::tables::{fit, printable, prose};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// What a step was run for, in a word.
pub(super) const fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Climb => "climb",
        Purpose::Bisect => "bisect",
        Purpose::Recheck => "recheck",
        Purpose::Confirm => "confirm",
    }
}

/// What came of a step, in a word or two.
pub(super) const fn seen(seen: Seen) -> &'static str {
    match seen {
        Seen::Met => "met",
        Seen::Missed => "missed",
        Seen::GeneratorLimit => "generator is the limit",
    }
}

/// A number a person reads: whole above 100.
pub(super) fn amount(value: f64) -> String {
    if value < 100.0 && value.fract() != 0.0 { format!("{value:.2}") } else { count(value) }
}

/// A step as it is done, no line wider than a terminal; `of` is whose.
pub fn step_line(of: &str, step: &LadderStep, unit: &str) -> String {
    let p99 = step.p99_us.map_or_else(|| "-".into(), |us| millis(us as f64));
    let mut sentence = format!(
        "{}: step {} ({}): {} {unit}: {}; p99 {p99} ms, lost {}",
        of,
        step.number,
        purpose(step.purpose),
        amount(step.value),
        seen(step.seen),
        step.lost
    );
    if let Some(reason) = step.reasons.first() {
        let _ = write!(sentence, "; {reason}");
    }
    lines(&sentence)
}

/// A sentence that stands alone, what does not fit into its first line below it.
fn lines(sentence: &str) -> String {
    let mut text = String::new();
    wrap(&mut text, "", "  ", sentence);
    text.truncate(text.trim_end().len());
    text
}

/// The steps in the order of their values, and beneath them what was found.
pub fn render(ladder: &Ladder) -> String {
    let head = format!(
        "{} on {}: highest {} with {}",
        ladder.use_case,
        label(ladder),
        ladder.what.unit(),
        ladder.objective
    );
    let mut text = format!("\n{}\n", lines(&head));
    let of = &ladder.limits;
    let scale = if of.scale == 1.0 { String::new() } else { format!("scale {}, ", of.scale) };
    let steps = format!("{scale}steps of {} s after {} s of warm-up", of.measure_s, of.warm_up_s);
    prose(&mut text, &steps);
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        ladder.what.unit(),
        "delivered/s",
        "p50 ms",
        "p99 ms",
        "lost",
        "CPU cores",
        "load CPU",
        "step",
        "result",
    ]);
    let mut steps: Vec<&LadderStep> = ladder.steps.iter().collect();
    steps.sort_by(|one, other| one.value.total_cmp(&other.value));
    for step in &steps {
        let time = |us: Option<u64>| us.map_or_else(|| "-".into(), |us| millis(us as f64));
        table.add_row([
            amount(step.value),
            count(step.delivered_per_s),
            time(step.p50_us),
            time(step.p99_us),
            step.lost.to_string(),
            step.cpu_cores.map_or_else(|| "-".into(), |cores| format!("{cores:.2}")),
            format!("{:.2}", step.generator_cpu_cores),
            format!("{} {}", step.number, purpose(step.purpose)),
            seen(step.seen).into(),
        ]);
    }
    let _ = writeln!(text, "{}", fit(&table));
    for step in steps {
        for reason in &step.reasons {
            prose(&mut text, &format!("step {}: {reason}", step.number));
        }
    }
    let _ = writeln!(text, "{}", lines(&found(ladder)));
    text
}

/// How far ladders of the same broker lie apart, a line a broker; none where each has one. Those
/// of a broker stand side by side.
pub fn apart(ladders: &[Ladder]) -> Vec<String> {
    let name = |of: &Ladder| format!("{} ({})", broker(of), printable(&of.broker.profile));
    ladders
        .chunk_by(|one, other| name(one) == name(other))
        .filter(|of| of[0].round > 0)
        .map(|of| lines(&format!("{}: {}", name(&of[0]), spread(of))))
        .collect()
}

fn spread(ladders: &[Ladder]) -> String {
    let knees = || ladders.iter().filter_map(|of| of.knee).filter(|knee| knee.met.is_some());
    let (all, found) = (ladders.len(), knees().count());
    let Some(Spread { low, high, .. }) =
        Spread::of(knees().filter_map(|knee| knee.met)).filter(|of| of.count > 1)
    else {
        return format!("{all} ladders, {found} with a knee: no spread");
    };
    let limit = match knees().filter(|knee| knee.ending != Ending::Found).count() {
        0 => String::new(),
        ends => format!("; for {ends} of them only a lower bound is known"),
    };
    let share = (high / low - 1.0) * 100.0;
    let (low, high) = (amount(low), amount(high));
    format!("{found} of {all} ladders end at {low} to {high}, {share:.1} % apart{limit}")
}

/// The broker of a ladder as a table names it.
fn broker(ladder: &Ladder) -> String {
    let of = &ladder.broker;
    let version = of.version.split(' ').next().filter(|version| *version != "unknown");
    let words = [Some(of.name.as_str()), version];
    printable(&words.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// A ladder as a table names it: its broker, and which of several it is.
pub(super) fn label(ladder: &Ladder) -> String {
    named(&broker(ladder), ladder.round)
}

/// `broker #2`, where it is one of several.
pub(super) fn named(broker: &str, round: u32) -> String {
    if round == 0 { broker.into() } else { format!("{broker} #{round}") }
}

/// What was found, in a sentence.
pub(super) fn found(ladder: &Ladder) -> String {
    let unit = ladder.what.unit();
    let Some(knee) = ladder.knee else { return "stopped before its end: no knee".into() };
    let Some(met) = knee.met else {
        return match knee.ending {
            Ending::GeneratorLimit => "the generator is the limit: the knee is not known".into(),
            _ => "nothing met the objective".into(),
        };
    };
    let mut text = match (knee.ending, knee.missed) {
        (Ending::Found, Some(missed)) => {
            let (met, missed) = (amount(met), amount(missed));
            format!("the knee is between {met} and {missed} {unit}")
        }
        (Ending::GeneratorLimit, _) => {
            format!("at least {} {unit}: above that, the generator is the limit", amount(met))
        }
        (Ending::SpanEnded, _) => {
            format!("at least {} {unit}: the range ends there (--to)", amount(met))
        }
        _ => format!("at least {} {unit}: too many steps", amount(met)),
    };
    match knee.confirmed {
        Some(confirmed) => {
            let _ = write!(text, "; confirmed at {}", amount(confirmed));
        }
        None => text += "; NOT confirmed below it",
    }
    text
}
