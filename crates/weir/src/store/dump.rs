//! `weir store dump`: records, or what they amount to, as JSON.

mod json;

use super::DAMAGED;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_broker::StoreReader;
use weir_core::{Lsn, Record};
use weir_say::{noteln, sayln};

#[derive(Debug, clap::Args)]
pub(super) struct DumpArgs {
    /// The broker's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The sessions that the records amount to: subscriptions, what waits, what is in flight
    #[arg(long)]
    sessions: bool,
    /// The retained messages that the records amount to
    #[arg(long)]
    retained: bool,
}

pub(super) fn run(args: &DumpArgs) -> anyhow::Result<ExitCode> {
    let reader = StoreReader::open(&args.folder)?;
    if args.sessions || args.retained {
        let mut amounts = Dumped { args, session: None, messages: Vec::new() };
        reader.amounts_to(|lsn, record| amounts.take(lsn, record))?;
        amounts.end_session();
        return Ok(ExitCode::SUCCESS);
    }
    let mut is_damaged = false;
    for (shard, path) in reader.logs() {
        reader.records(*shard, path, |entry| {
            if !weir_say::is_read() {
                return;
            }
            let lsn = json::lsn(entry.lsn);
            match entry.record {
                Ok(record) => {
                    let mut object = json!({ "shard": shard, "lsn": lsn });
                    json::extend(&mut object, json::record(&record));
                    sayln!("{object}");
                }
                Err(why) => sayln!("{}", json!({ "shard": shard, "lsn": lsn, "damaged": why })),
            }
        })?;
    }
    for damaged in reader.check()?.into_iter().flat_map(|check| check.damages) {
        is_damaged = true;
        noteln!("weir: {damaged}");
    }
    Ok(if is_damaged { ExitCode::from(DAMAGED) } else { ExitCode::SUCCESS })
}

/// The records of sessions and retained messages, on their way to an object for each.
struct Dumped<'a> {
    args: &'a DumpArgs,
    session: Option<Value>,
    /// Those of the session so far.
    messages: Vec<(Lsn, Value)>,
}

impl Dumped<'_> {
    fn take(&mut self, lsn: Lsn, record: &Record<'_>) {
        match record {
            Record::Retained { .. } => {
                self.end_session();
                if self.args.retained {
                    sayln!("{}", json::fields(record));
                }
            }
            Record::Session { .. } => {
                self.end_session();
                let mut session = json::fields(record);
                let lists = ["subscriptions", "in_flight", "queue", "unreleased"];
                lists.into_iter().for_each(|list| session[list] = json!([]));
                self.session = self.args.sessions.then_some(session);
            }
            Record::Message { .. } => self.messages.push((lsn, json::fields(record))),
            _ => self.add(record),
        }
    }

    fn add(&mut self, record: &Record<'_>) {
        let Some(session) = &mut self.session else { return };
        let mut fields = json::fields(record);
        let list = match record {
            Record::Absent { .. } => return json::extend(session, fields),
            Record::Subscribed { .. } => "subscriptions",
            Record::Noted { packet_id, .. } => {
                fields = json!(packet_id.value());
                "unreleased"
            }
            Record::Received { .. } => "in_flight",
            Record::Queued { message, packet_id, .. } => {
                let found = self.messages.iter().rfind(|(lsn, _)| lsn == message);
                let message = found.map_or(Value::Null, |(_, message)| message.clone());
                fields["message"] = message;
                if packet_id.is_some() { "in_flight" } else { "queue" }
            }
            _ => return,
        };
        if let Some(list) = session[list].as_array_mut() {
            list.push(fields);
        }
    }

    fn end_session(&mut self) {
        self.messages.clear();
        if let Some(session) = self.session.take() {
            sayln!("{session}");
        }
    }
}
