//! The results as one page without a network: bars of score and memory, curves of cost by rate, the
//! tables, and flespi's of 2018.

use crate::catalog::Workflow;
use crate::published::published;
use crate::record::{Clients, Standing};
use crate::summary::{AtRate, Group, Row, groups};
use crate::table;
use anyhow::Context as _;
use serde_json::{Value, json};
use weir_bench::numbers::{count, mega, millis};
use weir_bench::page::{CSS, Page, UPLOT_CSS, UPLOT_JS};
use weir_stats::Spread;

const TEMPLATE: &str = include_str!("../assets/clients.html");
const JS: &str = include_str!("../assets/clients.js");

/// The page.
///
/// # Errors
/// A template that does not fit (a test renders it).
pub fn html(clients: &Clients) -> anyhow::Result<String> {
    let groups = groups(clients);
    let data: Value = groups.iter().map(|group| curves(group, clients)).collect();
    let settings = &clients.settings;
    let (source, about, rows) = published();
    let best = rows.iter().map(crate::published::PublishedStack::per_core_s).fold(0.0, f64::max);
    let published: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.stack,
                "cpu": row.cpu_percent,
                "rate": count(row.msgs_per_s),
                "score": count(row.per_core_s()),
                "share": percent(row.per_core_s(), best),
                "note": row.note,
            })
        })
        .collect();
    let missing: Vec<Value> = clients
        .stacks
        .iter()
        .filter_map(|of| Some(json!({ "name": of.name, "why": of.missing.as_ref()? })))
        .collect();
    let values = json!({
        "stacks": clients.stacks.len() - missing.len(),
        "started": clients.suite.started,
        "suite": format!("weir {} ({})", clients.suite.version, clients.suite.commit),
        "command": clients.suite.command.join(" "),
        "host": format!("{}, {} cores", clients.host.cpu_model, clients.host.cores),
        "system": format!("{}, Linux {}", clients.host.os, clients.host.kernel),
        "settings": settings,
        "groups": groups.iter().map(|group| self::group(group, clients)).collect::<Vec<_>>(),
        "missing": missing,
        "published": { "source": source, "about": about, "rows": published },
    });
    let page = Page {
        title: "Weir bench: client stacks",
        styles: &[UPLOT_CSS, CSS, include_str!("../assets/clients.css")],
        body: TEMPLATE,
        data: Some(&data),
        scripts: &[UPLOT_JS, JS],
        is_served: false,
    };
    page.html(&values).context("cannot render the page of client stacks")
}

fn percent(value: f64, of: f64) -> f64 {
    if of > 0.0 { (value / of * 1_000.0).round() / 10.0 } else { 0.0 }
}

/// The colour of a stack: its place on the command line, so that it is the same in all groups.
fn colour(clients: &Clients, name: &str) -> usize {
    clients.stacks.iter().position(|of| of.name == name).unwrap_or(0)
}

fn group(group: &Group<'_>, clients: &Clients) -> Value {
    let highest = |of: fn(&Row<'_>) -> Option<Spread>| {
        group.rows.iter().filter_map(|row| Some(of(row)?.high)).fold(0.0, f64::max)
    };
    let (score_max, rss_max) = (highest(|row| row.score), highest(|row| row.rss_max_bytes));
    let bar = |row: &Row<'_>, of: Option<Spread>, max: f64, text: &dyn Fn(f64) -> String| {
        let of = of?;
        Some(json!({
            "name": row.stack.name,
            "versions": table::versions(row),
            "colour": colour(clients, &row.stack.name),
            "text": text(of.median),
            "share": percent(of.median, max),
            "low": percent(of.low, max),
            "range": percent(of.high - of.low, max),
            "is_repeated": of.count > 1,
        }))
    };
    let mega_of = |bytes: f64| mega(bytes as u64);
    let mut by_memory: Vec<&Row<'_>> = group.rows.iter().collect();
    let rss = |row: &Row<'_>| row.rss_max_bytes.map_or(f64::INFINITY, |of| of.median);
    by_memory.sort_by(|one, other| rss(one).total_cmp(&rss(other)));
    let scores = group
        .rows
        .iter()
        .filter_map(|row| bar(row, row.score, score_max, &|score| count(score) + table::mark(row)));
    let memory = by_memory.iter().filter_map(|row| bar(row, row.rss_max_bytes, rss_max, &mega_of));
    json!({
        "title": format!("{}, QoS {}", group.workflow.title(), group.qos),
        "unit": group.workflow.unit(),
        "has_latency": group.workflow == Workflow::Workflow
            || (group.workflow == Workflow::Subscribe && group.qos > 0),
        "limited": group.rows.iter().any(table::is_score_limited).then_some(table::LIMITED),
        "has_knee": group.rows.iter().any(|row| row.knee.is_some()),
        "base": clients.settings.base,
        "rates": group.rates.iter().map(|rate| count(*rate)).collect::<Vec<_>>(),
        "scores": scores.collect::<Vec<_>>(),
        "memory": memory.collect::<Vec<_>>(),
        "rows": group.rows.iter().map(|of| row(of, clients)).collect::<Vec<_>>(),
    })
}

fn row(row: &Row<'_>, clients: &Clients) -> Value {
    let dash = || "-".to_owned();
    let faults = row.rates.iter().flatten().filter(|at| at.standing != Standing::Kept);
    let faults: Vec<String> = faults
        .map(|at| {
            let (rate, standing) = (count(at.rate_per_s), at.standing.name());
            format!("at {rate}/s {standing}: {}", at.reasons.join("; "))
        })
        .chain(table::knee_faults(row).into_iter().map(|why| format!("knee: {why}")))
        .collect();
    json!({
        "name": row.stack.name,
        "language": row.stack.language,
        "versions": table::versions(row),
        "colour": colour(clients, &row.stack.name),
        "rates": row.rates.iter().map(|at| at.as_ref().map(at_rate)).collect::<Vec<_>>(),
        "knee": table::knee(row),
        "score": table::score(row),
        "ratio": row.by_base.as_ref().map_or_else(dash, table::ratio),
        "rss": row.rss_max_bytes.map_or_else(dash, |of| table::spread(&of, |b| mega(b as u64))),
        "slope": row.rss_slope.map_or_else(dash, |of| format!("{:.1}", of.median / 1e3)),
        "books": table::books(row),
        "faults": faults,
    })
}

fn at_rate(at: &AtRate) -> Value {
    let text = |of: Option<Spread>| of.map_or_else(|| "-".into(), |of| table::micros(of.median));
    json!({
        "cpu": at.cpu_us.map_or_else(|| "-".into(), |of| table::spread(&of, table::micros)),
        "user": text(at.user_us),
        "system": text(at.system_us),
        "score": at.per_core_s.map_or_else(|| "-".into(), |of| count(of.median)),
        "share": at.cpu_cores.map_or_else(|| "-".into(), |of| format!("{:.1}", of.median * 100.0)),
        "latency": at.latency_us.map_or_else(|| "-".into(), |(p50, p99)| {
            format!("{} / {}", millis(p50 as f64), millis(p99 as f64))
        }),
        "badge": badge(at.standing),
        "standing": at.standing.name(),
        "repeats": at.repeats,
    })
}

/// A class of the page's style.
const fn badge(standing: Standing) -> &'static str {
    match standing {
        Standing::Kept => "passed",
        Standing::Overloaded | Standing::ReplayLimit => "invalid",
        Standing::Wrong | Standing::Broken => "failed",
    }
}

/// The lines of a group: rates, and for each stack what a message costs at each.
fn curves(group: &Group<'_>, clients: &Clients) -> Value {
    let mut rates: Vec<f64> = group.rates.clone();
    let knee_of = |row: &Row<'_>| row.knee.as_ref().and_then(|knee| knee.rate_per_s);
    rates.extend(group.rows.iter().filter_map(|row| Some(knee_of(row)?.median)));
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    let line = |row: &Row<'_>| {
        let at = |rate: &f64| {
            let fixed = row.rates.iter().flatten().find(|at| at.rate_per_s == *rate);
            let fixed = fixed.and_then(|at| Some(at.cpu_us?.median));
            let score = row.knee.as_ref().and_then(|knee| knee.per_core_s);
            let knee = knee_of(row).filter(|of| of.median == *rate).and(score);
            fixed.or_else(|| Some(1e6 / knee?.median)).map(|us| (us * 1e3).round() / 1e3)
        };
        json!({
            "name": row.stack.name,
            "colour": colour(clients, &row.stack.name),
            "values": rates.iter().map(at).collect::<Vec<_>>(),
        })
    };
    json!({
        "unit": group.workflow.unit(),
        "rates": rates,
        "lines": group.rows.iter().map(line).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::example;

    #[test]
    fn the_page_has_all_that_was_measured_and_reaches_for_nothing_outside() {
        let page = html(&example()).unwrap();
        assert!(page.contains("quick") && page.contains("7 messages behind at the end"));
        assert!(page.contains("flespi") && page.contains("published, cannot be obtained"));
        assert!(page.contains("nobody &lt;b&gt;has") && !page.contains("nobody <b>has"));
        for outside in ["src=\"http", "href=\"http", "url(http", "@import"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_curve_has_a_value_for_each_rate_that_was_run() {
        let clients = example();
        let groups = groups(&clients);
        let of = curves(&groups[0], &clients);
        assert_eq!(of["rates"], json!([1_000.0, 20_000.0]));
        assert_eq!(of["lines"][0]["name"], "quick");
        assert_eq!(of["lines"][0]["values"], json!([1.02, 1.02]));
    }
}
