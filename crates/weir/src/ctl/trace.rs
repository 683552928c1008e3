//! `weir ctl trace`: a trace is begun, its lines are printed as they come, and it is deleted.

use super::{done, granted, refused, text};
use anyhow::Context;
use std::process::ExitCode;
use weir_control::{Caller, TraceShown};
use weir_say::{noteln, say};

/// Who or what is traced.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct TraceOf {
    /// The client of this identifier
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Every client of this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Every client at this address, or in this network
    #[arg(long, value_name = "ADDRESS")]
    address: Option<String>,
    /// Every PUBLISH to a topic that matches this filter, in and out
    #[arg(long, value_name = "FILTER")]
    topic: Option<String>,
}

impl TraceOf {
    fn query(&self) -> Option<[(&str, &str); 2]> {
        let Self { client, user, address, topic } = self;
        let all = [("client", client), ("user", user), ("address", address), ("topic", topic)];
        let (kind, name) = all.into_iter().find_map(|(kind, name)| Some((kind, name.as_ref()?)))?;
        Some([("kind", kind), ("name", name)])
    }
}

/// A number of bytes, such as `500KB` or `10MB`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => Some(1),
        "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        _ => None,
    };
    let bytes = unit.and_then(|unit| digits.parse::<u64>().ok()?.checked_mul(unit));
    bytes.ok_or_else(|| "it must be a number of bytes such as 500KB or 10MB".into())
}

pub(super) fn run(
    caller: &Caller,
    of: &TraceOf,
    length_s: f64,
    bytes_max: u64,
) -> anyhow::Result<ExitCode> {
    let (for_s, bytes_max) = ((length_s.ceil() as u64).to_string(), bytes_max.to_string());
    let mut query = of.query().context("name a client, a user, an address or a topic")?.to_vec();
    query.extend([("for_s", &*for_s), ("bytes_max", &*bytes_max)]);
    let begun = granted(&caller.post(&Caller::path("/api/v1/traces", &query))?)?;
    let id = begun["id"].as_u64().context("the broker named no trace")?;
    let path = format!("/api/v1/traces/{id}");
    let shown = show(caller, &path);
    // If it cannot be deleted now, its time ends it.
    let deleted = caller.delete(&path);
    let trace = shown?;
    done(&deleted?)?;
    let missing = match trace.dropped {
        0 => String::new(),
        count => format!("; {count} are missing, because more came than could be copied"),
    };
    let why = match trace.ended.as_deref() {
        Some("size") => ", the most that --max lets it have",
        _ => "",
    };
    noteln!("{} packets in {} bytes{why}{missing}", trace.events, trace.bytes);
    Ok(ExitCode::SUCCESS)
}

/// Prints lines until there are no more to come.
fn show(caller: &Caller, path: &str) -> anyhow::Result<TraceShown> {
    let mut after = 0;
    loop {
        let reply = caller.get(&format!("{path}/events?after={after}&wait_s=5"))?;
        anyhow::ensure!(reply.status == 200, "{}", refused(&reply));
        let lines = String::from_utf8(reply.body).context("the broker sent no text")?;
        after += lines.lines().count();
        say!("{}", text::json(&lines));
        let trace: TraceShown = serde_json::from_value(granted(&caller.get(path)?)?)?;
        let is_over = trace.ended.is_some() && after as u64 >= trace.events;
        if is_over || !weir_say::is_read() {
            return Ok(trace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn bytes_have_a_unit_or_none() {
        for (text, bytes) in [("7", 7), ("7B", 7), ("500KB", 500_000), ("10mb", 10_000_000)] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "1.5MB", "10GB", "-1"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
