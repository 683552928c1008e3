//! `weir ctl top`: which clients send and get most.

use super::{granted, show, text};
use serde_json::Value;
use std::process::ExitCode;
use weir_control::{Caller, Talker, Traffic};

#[derive(Debug, clap::Args)]
pub(super) struct TopArgs {
    /// How long to count
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u8).range(1..=8))]
    seconds: u8,
    /// What those in front have most of
    #[arg(long, value_name = "WHAT", default_value = "messages",
        value_parser = ["messages", "bytes"])]
    by: String,
    /// Only what comes from clients, or goes to them; both together, if not given
    #[arg(long, value_name = "WAY", value_parser = ["in", "out"])]
    direction: Option<String>,
    /// So many clients at most
    #[arg(long, value_name = "N", default_value_t = 20,
        value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(caller: &Caller, args: &TopArgs) -> anyhow::Result<ExitCode> {
    let TopArgs { seconds, by, direction, limit, json } = args;
    let (seconds, limit) = (seconds.to_string(), limit.to_string());
    let mut query = vec![("seconds", &*seconds), ("by", by), ("limit", &limit)];
    query.extend(direction.as_deref().map(|direction| ("direction", direction)));
    show(granted(&caller.get(&Caller::path("/api/v1/top", &query))?)?, *json, shown)
}

fn shown(mut answer: Value) -> serde_json::Result<String> {
    let seconds = answer["seconds"].as_f64().unwrap_or_default();
    let total: Traffic = serde_json::from_value(answer["total"].take())?;
    let clients: Vec<Talker> = serde_json::from_value(answer["clients"].take())?;
    Ok(text::top(seconds, &total, &clients))
}
