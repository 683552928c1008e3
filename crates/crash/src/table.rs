//! A result as text.

use crate::ledger::Tally;
use crate::result::CrashResult;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;
use weir_bench::tables::{fit, prose};
use weir_load::plan::Transport;

/// Results of several brokers, side by side: plain text, at most 80 columns.
pub fn render(results: &[CrashResult]) -> String {
    let mut text = String::new();
    let Some(first) = results.first() else { return text };
    let what = match first.step.as_str() {
        "power-cut" => "power cuts",
        _ => "kills (SIGKILL)",
    };
    let _ = writeln!(text, "\n{what} under load");
    let (publishers, subscribers) = (first.publishers, first.subscribers);
    prose(
        &mut text,
        &format!(
            "{publishers} publishers, {subscribers} subscribers over {}, sessions that never \
             expire; seed {}{}",
            if first.transport.is_empty() { Transport::Plain.name() } else { &first.transport },
            first.seed,
            first.file_system.as_ref().map_or_else(String::new, |of| format!("; {of}"))
        ),
    );
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let mut head = vec![String::new()];
    head.extend(results.iter().map(|of| of.broker.name.clone()));
    table.set_header(head);
    for (name, values) in rows(results) {
        table.add_row([name].into_iter().chain(values));
    }
    let _ = writeln!(text, "{}", fit(&table));
    for result in results {
        let (of, verdict) = (&result.broker, verdict(&result.tally));
        let profile = format!("{} {}, profile {}", of.name, of.version, of.profile);
        prose(&mut text, &format!("{profile}, MQTT {}: {verdict}", result.mqtt));
    }
    prose(&mut text, LIMITS);
    if first.step == "power-cut" {
        prose(&mut text, POWER_CUT_LIMITS);
    }
    text
}

const LIMITS: &str = "Acknowledged is PUBACK at QoS 1 and PUBREC at QoS 2. Lost is what was \
    acknowledged and at least one subscriber never got. No loss here is no proof: it is as many \
    crashes as there were, at this load and on this host.";

const POWER_CUT_LIMITS: &str = "A power cut is a file system on a loop device that is shut down \
    without a flush of its log, so that it forgets what was not synced. The write cache of the \
    drive below is not tested, nor are writes that tear.";

type Row = (String, Vec<String>);

fn rows(results: &[CrashResult]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&CrashResult) -> Option<u64>| {
        let cell = |of| value(of).map_or_else(|| "-".into(), |value| value.to_string());
        rows.push((name.into(), results.iter().map(cell).collect()));
    };
    row("crashes", &|of| Some(of.crashes.len() as u64));
    for qos in [1, 2] {
        let of = |result: &CrashResult| result.tally.qos.iter().find(|of| of.qos == qos).copied();
        if results.iter().all(|result| of(result).is_none()) {
            continue;
        }
        let name = |what: &str| format!("QoS {qos} {what}");
        row(&name("acknowledged"), &|result| Some(of(result)?.acknowledged));
        row(&name("lost"), &|result| Some(of(result)?.lost));
        row(&name("deliveries owed"), &|result| Some(of(result)?.owed));
        row(&name("deliveries lost"), &|result| Some(of(result)?.deliveries_lost));
        let duplicated = if qos == 1 { "duplicated (permitted)" } else { "duplicated" };
        row(&name(duplicated), &|result| Some(of(result)?.duplicated));
        row(&name("out of order"), &|result| Some(of(result)?.out_of_order));
        row(&name("subscriptions lost"), &|result| Some(of(result)?.subscriptions_lost));
    }
    row("retained looked for", &|of| Some(of.tally.retained.checked));
    row("retained lost", &|of| Some(of.tally.retained.lost));
    row("retained old", &|of| Some(of.tally.retained.old));
    row("subscriber sessions lost", &|of| Some(of.tally.subscriber_sessions_lost));
    row("publisher sessions lost", &|of| Some(of.tally.publisher_sessions_lost));
    // What hardly ever happens is told when it does.
    let refused = |of: &CrashResult| of.tally.qos.iter().map(|of| of.refused).sum();
    let in_doubt = |of: &CrashResult| of.tally.qos.iter().map(|of| of.duplicated_in_doubt).sum();
    let mut rare = |name: &str, value: &dyn Fn(&CrashResult) -> u64| {
        if results.iter().any(|of| value(of) > 0) {
            row(name, &|of| Some(value(of)));
        }
    };
    rare("refused", &refused);
    rare("QoS 2 duplicated, session lost", &in_doubt);
    rare("altered", &|of| of.tally.altered);
    rare("packet identifiers reused", &|of| of.tally.reused_ids);
    rare("connections dropped", &|of| of.tally.dropped);
    rows
}

fn verdict(tally: &Tally) -> String {
    let mut faults = Vec::new();
    let mut fault = |count: u64, what: &str| {
        if count > 0 {
            faults.push(format!("{count} {what}"));
        }
    };
    for of in &tally.qos {
        let qos = of.qos;
        fault(of.lost, &format!("of {} acknowledged at QoS {qos} lost", of.acknowledged));
        fault(of.subscriptions_lost, &format!("subscriptions at QoS {qos} lost"));
        if qos == 2 {
            fault(of.duplicated, "deliveries at QoS 2 more than once");
        }
        fault(of.out_of_order, &format!("deliveries at QoS {qos} out of order"));
    }
    fault(tally.subscriber_sessions_lost, "sessions of subscribers lost");
    fault(tally.publisher_sessions_lost, "sessions of publishers lost");
    fault(tally.retained.lost, "retained messages lost");
    fault(tally.retained.old, "retained messages older than acknowledged");
    fault(tally.altered, "deliveries altered");
    match faults.as_slice() {
        [] => {
            let acknowledged: u64 = tally.qos.iter().map(|of| of.acknowledged).sum();
            format!("nothing lost of {acknowledged} acknowledged messages")
        }
        faults => faults.join(", "),
    }
}
