//! What the template is filled with: texts, ready to be read.

use super::runs::{Named, Use, status};
use super::{conclusion, health, overview, sheets, tiles};
use crate::published;
use crate::result::disclosure::{self, Pair};
use crate::result::{Host, RunResult, Status};
use crate::tables::broker;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Everything the template shows but the charts.
pub(super) fn page(results: &[RunResult], uses: &[Use<'_>], is_judged: bool) -> Value {
    let suite = &results[0].suite;
    let ran = results.iter().find(|run| run.verdict.status != Status::Unsupported);
    let reduced = results.iter().filter(|run| run.use_case.scale < 1.0).count();
    json!({
        "title": title(results),
        "suite": format!("weir {} ({})", suite.version, suite.commit),
        "started": results.iter().map(|run| moment(&run.suite.started)).min(),
        "host": host(&ran.unwrap_or(&results[0]).host),
        "other_hosts": other_hosts(results),
        "badges": badges(results),
        "conclusion": conclusion::sentences(uses, is_judged),
        "panels": tiles::panels(uses),
        "health": health::section(uses),
        "runs": results.len(),
        "reduced": reduced,
        "disturbed": disturbed(results),
        "incomplete": results.iter().filter(|run| is_incomplete(run)).count(),
        "repeated": uses.iter().any(|of| of.runs.len() > of.brokers.len()),
        "matrix": overview::matrix(uses),
        "faults": overview::faults(uses),
        "summary": uses.iter().map(sheets::summary).collect::<Vec<_>>(),
        "uses": uses.iter().map(use_case).collect::<Vec<_>>(),
        "sources": sources(uses),
    })
}

/// What never ran has nothing to disclose.
fn is_incomplete(run: &RunResult) -> bool {
    run.verdict.status != Status::Unsupported && !disclosure::missing(run).is_empty()
}

fn title(results: &[RunResult]) -> String {
    let mut brokers: Vec<String> = Vec::new();
    for result in results {
        let name = broker(result);
        if !brokers.contains(&name) {
            brokers.push(name);
        }
    }
    match brokers.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => brokers.concat(),
    }
}

/// A moment without the fractions of its second.
fn moment(rfc3339: &str) -> String {
    let second = rfc3339.split('.').next().unwrap_or_default().trim_end_matches('Z');
    format!("{} UTC", second.replace('T', " "))
}

fn badges(results: &[RunResult]) -> Vec<Value> {
    let of = |word: &str| results.iter().filter(|run| status(run) == word).count();
    let words = ["passed", "failed", "invalid", "aborted", "unsupported"];
    let counted = words.into_iter().map(|word| (word, of(word)));
    counted
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| json!({ "status": word, "text": format!("{count} {word}") }))
        .collect()
}

fn host(host: &Host) -> Vec<Pair> {
    vec![
        Pair::new("CPU", format!("{}, {} cores", host.cpu_model, host.cores)),
        Pair::new("Memory", format!("{:.1} GB", host.memory_bytes as f64 / 1e9)),
        Pair::new("System", format!("{}, kernel {}", host.os, host.kernel)),
        Pair::new("Pinning", &host.pinning),
    ]
}

/// Runs of a second host, if results of several were put together.
fn other_hosts(results: &[RunResult]) -> usize {
    let differs = |run: &&RunResult| {
        let (first, other) = (&results[0].host, &run.host);
        first.cpu_model != other.cpu_model || first.cores != other.cores
    };
    results.iter().filter(differs).count()
}

/// What took the host from the runs, over all of them; nothing where it was quiet.
fn disturbed(results: &[RunResult]) -> Option<String> {
    let of = || results.iter().map(|run| &run.host.disturbance);
    let count = of().filter(|disturbance| !disturbance.reasons.is_empty()).count();
    let most = of().filter_map(|of| of.others_cores).fold(0.0, f64::max);
    (count > 0).then(|| {
        format!(
            "In {count} of {} runs the host was not quiet: other programs took up to {most:.1} \
             processors. CPU, rate and latency may be theirs.",
            results.len()
        )
    })
}

fn use_case(of: &Use<'_>) -> Value {
    let case = &of.runs[0].run.use_case;
    let about = match (case.qos, case.payload_bytes) {
        (Some(qos), Some(payload)) => format!(
            "MQTT {}, QoS {qos}, payload {payload} B{}",
            case.mqtt_version,
            case.publish_bytes_on_wire
                .map_or_else(String::new, |b| format!(" ({b} B on the wire)"))
        ),
        _ => format!("MQTT {}", case.mqtt_version),
    };
    let published = published::of(of.name);
    json!({
        "name": of.name,
        "short": tiles::short(of.name),
        "about": case.about,
        "terms": format!("{about}; measured {} s; scale {}", case.duration_s, scale(case.scale)),
        "reduced": scale_notes(of),
        "revision": case.revision,
        "sha256": case.file_sha256,
        "file": case.file,
        "verdicts": of.runs.iter().filter_map(verdict).collect::<Vec<_>>(),
        "tiles": tiles::of(of),
        "sheets": sheets::sheets(of, &published),
        "published_hosts": published::hosts(&published),
        "has_published": !published.is_empty(),
        "disclosures": of.runs.iter().map(disclosed).collect::<Vec<_>>(),
    })
}

/// Why a run did not pass.
fn verdict(named: &Named<'_>) -> Option<Value> {
    let reasons = &named.run.verdict.reasons;
    let value = json!({ "label": named.label, "status": status(named.run), "reasons": reasons });
    (!reasons.is_empty()).then_some(value)
}

fn scale(scale: f64) -> String {
    format!("{scale:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What stands above a use case that did not run at its full size, said once for equal runs.
fn scale_notes(of: &Use<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for named in of.runs.iter().filter(|named| named.run.use_case.scale < 1.0) {
        let case = &named.run.use_case;
        let why = case.scale_reason.as_ref().map_or_else(
            || ": asked for on the command line".to_owned(),
            |reason| format!(": {reason}"),
        );
        let note = format!("Ran at {} of the suite's size{why}", scale(case.scale));
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

fn disclosed(named: &Named<'_>) -> Value {
    let run = named.run;
    json!({
        "label": named.label,
        "colour": named.colour,
        "at": named.at,
        "state": disclosure::state(run),
        "groups": disclosure::groups(run),
        "configuration": run.broker.configuration,
        "not_measured": run.not_measured.iter()
            .map(|(name, reason)| Pair::new(name, reason)).collect::<Vec<_>>(),
    })
}

fn sources(uses: &[Use<'_>]) -> Vec<Pair> {
    let mut titles = BTreeMap::new();
    for row in uses.iter().flat_map(|of| published::of(of.name)) {
        titles.insert(published::title(&row.source), row.source);
    }
    titles.into_iter().map(|(title, name)| Pair { name, value: title }).collect()
}
