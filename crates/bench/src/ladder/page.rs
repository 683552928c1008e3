//! Ladders as a page: the knee chart, what was found, every step.

use super::chart;
use super::record::{Ladder, LadderStep};
use super::search::Seen;
use super::table::{amount, apart, found, label, purpose, seen};
use crate::numbers::{count, millis};
use crate::page::{CSS, Page};
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

const TEMPLATE: &str = include_str!("../../assets/ladder.html");

/// The page over the ladders of one use case, one a broker.
///
/// # Errors
/// No ladder, or a template that does not fit (a test renders it).
pub fn html(ladders: &[Ladder]) -> anyhow::Result<String> {
    ensure!(!ladders.is_empty(), "there is no ladder to show");
    let first = &ladders[0];
    let values = json!({
        "use_case": first.use_case,
        "unit": first.what.unit(),
        "objective": first.objective,
        "limits": first.limits,
        "started": first.suite.started,
        "suite": format!("weir {} ({})", first.suite.version, first.suite.commit),
        "command": first.suite.command.join(" "),
        "host": format!("{}, {} cores, {}", first.host.cpu_model, first.host.cores,
            first.host.pinning),
        "chart": chart::svg(ladders),
        "apart": apart(ladders),
        "ladders": ladders.iter().map(ladder).collect::<Vec<_>>(),
    });
    let page = Page {
        title: &format!("Weir bench: ladder of {}", first.use_case),
        styles: &[CSS, include_str!("../../assets/ladder.css")],
        body: TEMPLATE,
        ..Page::default()
    };
    page.html(&values).context("cannot render the ladder")
}

fn ladder(of: &Ladder) -> Value {
    let mut steps: Vec<&LadderStep> = of.steps.iter().collect();
    steps.sort_by(|one, other| one.value.total_cmp(&other.value));
    json!({
        "label": label(of),
        "profile": of.broker.profile,
        "found": found(of),
        "steps": steps.into_iter().map(step).collect::<Vec<_>>(),
    })
}

fn step(of: &LadderStep) -> Value {
    let time = |us: Option<u64>| us.map_or_else(|| "-".into(), |us| millis(us as f64));
    json!({
        "number": of.number,
        "purpose": purpose(of.purpose),
        "value": amount(of.value),
        "delivered": count(of.delivered_per_s),
        "p50": time(of.p50_us),
        "p99": time(of.p99_us),
        "max": time(of.max_us),
        "lost": of.lost,
        "cpu": of.cpu_cores.map_or_else(|| "-".into(), |cores| format!("{cores:.2}")),
        "load": format!("{:.2}", of.generator_cpu_cores),
        "seen": seen(of.seen),
        "badge": match of.seen {
            Seen::Met => "passed",
            Seen::Missed => "failed",
            Seen::GeneratorLimit => "invalid",
        },
        "reasons": of.reasons,
        "folder": of.folder,
    })
}
