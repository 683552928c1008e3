//! The first thing a reader sees: use cases by brokers, and what did not pass.

use super::runs::{Repeats, Use, status, worst};
use super::tiles::short;
use crate::numbers::millis;
use crate::result::{RunResult, Status};
use crate::stats::Spread;
use serde_json::{Value, json};

/// All brokers of the page with their colours, in the order they first ran.
pub(super) fn brokers<'a>(uses: &'a [Use<'_>]) -> Vec<(usize, &'a str)> {
    let mut brokers: Vec<(usize, &str)> = Vec::new();
    for broker in uses.iter().flat_map(|of| &of.brokers) {
        if !brokers.iter().any(|(colour, _)| *colour == broker.colour) {
            brokers.push((broker.colour, &broker.label));
        }
    }
    brokers
}

/// The matrix: a row a use case, a column a broker, in a cell the verdict and three figures.
pub(super) fn matrix(uses: &[Use<'_>]) -> Value {
    let brokers = brokers(uses);
    let row = |of: &Use<'_>| {
        let cell = |(colour, _): &(usize, &str)| {
            let found = of.brokers.iter().find(|broker| broker.colour == *colour);
            found.map_or(Value::Null, |broker| cell(of, broker))
        };
        json!({ "name": short(of.name), "cells": brokers.iter().map(cell).collect::<Vec<_>>() })
    };
    json!({
        "brokers": brokers.iter()
            .map(|(colour, label)| json!({ "colour": colour, "label": label })).collect::<Vec<_>>(),
        "rows": uses.iter().map(row).collect::<Vec<_>>(),
    })
}

fn cell(of: &Use<'_>, broker: &Repeats<'_>) -> Value {
    let p99 = broker.spread(|run| Some(run.latency().filter(|of| of.count > 0)?.p99_us as f64));
    let each = broker.spread(RunResult::cpu_us_each);
    let mut figures = vec![figure("p99", p99, |us| format!("{} ms", millis(us)))];
    figures.push(figure("CPU", each, |us| format!("{} µs", millis(us * 1e3))));
    figures.push(if of.has_messages() {
        let with_figures = broker.runs.iter().filter(|named| named.run.has_figures());
        let lost: u64 = with_figures.map(|named| named.run.measure.lost).sum();
        (lost > 0).then(|| format!("{lost} lost"))
    } else {
        figure("memory", broker.spread(RunResult::bytes_per_connection), |b| {
            format!("{b:.0} B each")
        })
    });
    json!({
        "status": worst(broker).name(),
        "passed": broker.runs.iter().filter(|named| status(named.run) == "passed").count(),
        "runs": broker.runs.len(),
        "figures": figures.into_iter().flatten().collect::<Vec<_>>(),
    })
}

fn figure(name: &str, of: Option<Spread>, text: impl Fn(f64) -> String) -> Option<String> {
    of.map(|of| format!("{name} {}", text(of.median)))
}

/// What a reason of an invalid run is about, without the figures that its use case's part of the
/// page has. Of the others the first screen says all, since they are about the broker.
fn in_short(run: &RunResult) -> Vec<&str> {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in &run.verdict.reasons {
        let reason = match reason.split_once(": ") {
            Some((what, _)) if run.verdict.status == Status::Invalid => what,
            _ => reason,
        };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// What did not pass, and why: a line a run.
pub(super) fn faults(uses: &[Use<'_>]) -> Vec<Value> {
    let did_not_pass = |run: &RunResult| run.verdict.status != Status::Passed;
    let mut faults = Vec::new();
    for (at, of) in uses.iter().enumerate() {
        for named in of.runs.iter().filter(|named| did_not_pass(named.run)) {
            faults.push(json!({
                "use": at,
                "name": of.name,
                "label": named.label,
                "status": status(named.run),
                "reasons": in_short(named.run),
            }));
        }
    }
    faults
}
