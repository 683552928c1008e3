//! `weir ctl`: questions to a running broker over its control socket.

mod text;

use anyhow::Context;
use clap::Subcommand;
use serde_json::Value;
use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_control::{Caller, Client, Reply};
use weir_say::{noteln, say, sayln};

/// Ask a running broker: who is connected, end a connection, counters
///
/// The broker serves a unix socket where its configuration has [control] socket = "PATH"; the
/// user it runs as, and root, may use it. Exit code 0: done; 1: no such client, or it is not
/// connected; 2: the broker cannot be asked. docs/control.md has the same as an HTTP API.
#[derive(Debug, clap::Args)]
pub(crate) struct CtlArgs {
    /// The broker's socket, as [control] socket in its configuration
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List clients, the absent ones with a kept session too
    Clients {
        /// So many at most; all of them, if not given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        limit: Option<u64>,
        /// A JSON object on a line for each
        #[arg(long)]
        json: bool,
    },
    /// Show one client
    Client {
        /// Its client identifier
        #[arg(value_name = "ID")]
        id: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// End a client's connection (DISCONNECT 0x98); its session stays if it outlives that
    Kick {
        /// Its client identifier
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Show how many partitions and sessions each shard holds
    Partitions {
        /// As JSON, with the numbers of the partitions
        #[arg(long)]
        json: bool,
    },
    /// Move a partition to another shard, with its sessions and retained messages
    Move {
        /// Its number
        #[arg(value_name = "PARTITION")]
        partition: u8,
        /// The other shard
        #[arg(value_name = "SHARD")]
        shard: u16,
    },
    /// Check that every thread of the broker answers: exit code 0 if so, 1 if not
    Health,
    /// Show the counters of each shard and their sum
    Counters {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

/// Clients of one request; more are asked for in turn.
const PAGE_CLIENTS: u64 = 1_000;

pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let caller = Caller::new(&args.socket).context("cannot ask")?;
    match &args.command {
        Command::Clients { limit, json } => {
            clients(&caller, limit.unwrap_or(u64::MAX), *json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Client { id, json } => {
            let reply = caller.get(&Caller::client_path(id))?;
            if reply.status == 404 {
                return not_found(&reply);
            }
            let client = granted(&reply)?;
            if *json {
                sayln!("{client}");
            } else {
                say!("{}", text::client(&serde_json::from_value(client)?));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Kick { id } => {
            let reply = caller.delete(&Caller::client_path(id))?;
            match reply.status {
                404 => not_found(&reply),
                _ => done(&reply),
            }
        }
        Command::Partitions { json } => {
            let partitions = granted(&caller.get("/api/v1/partitions")?)?;
            if *json {
                sayln!("{partitions}");
            } else {
                let shards: Vec<_> = serde_json::from_value(partitions["shards"].clone())?;
                say!("{}", text::partitions(&shards));
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Move { partition, shard } => {
            done(&caller.put(&format!("/api/v1/partitions/{partition}?shard={shard}"))?)
        }
        Command::Health => Ok(health(&caller)),
        Command::Counters { json } => {
            let counters = granted(&caller.get("/api/v1/counters")?)?;
            if *json {
                sayln!("{counters}");
            } else {
                say!("{}", text::counters(&counters));
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Says whether the broker is ready. A container's health check knows 0 and 1 only.
fn health(caller: &Caller) -> ExitCode {
    match caller.get("/readyz") {
        Ok(reply) if reply.status == 200 => {
            sayln!("ready");
            return ExitCode::SUCCESS;
        }
        Ok(reply) => noteln!("weir: {}", refused(&reply)),
        Err(error) => noteln!("weir: {error}"),
    }
    ExitCode::from(1)
}

/// Lists clients page by page, each as soon as it is there.
fn clients(caller: &Caller, limit: u64, json: bool) -> anyhow::Result<()> {
    let (mut listed, mut cursor) = (0, String::new());
    let mut cursors = HashSet::new();
    while listed < limit && weir_say::is_read() {
        let page = (limit - listed).min(PAGE_CLIENTS);
        let reply = caller.get(&format!("/api/v1/clients?limit={page}{cursor}"))?;
        let mut page = granted(&reply)?;
        if !json && cursor.is_empty() {
            sayln!("{}", text::CLIENT_HEAD);
        }
        let clients = page["clients"].as_array_mut().context("the broker sent no list")?;
        for client in clients.drain(..) {
            listed += 1;
            if json {
                sayln!("{client}");
            } else {
                sayln!("{}", text::client_line(&serde_json::from_value::<Client>(client)?));
            }
        }
        match page["cursor"].as_str() {
            Some(next) => {
                let is_new = cursors.insert(next.to_owned());
                anyhow::ensure!(is_new, "the broker sent the same part of the list twice");
                cursor = format!("&cursor={next}");
            }
            None => break,
        }
    }
    if !json {
        let plural = if listed == 1 { "" } else { "s" };
        sayln!("{listed} client{plural}");
    }
    Ok(())
}

/// What the reply holds, if the broker did not refuse.
fn granted(reply: &Reply) -> anyhow::Result<Value> {
    anyhow::ensure!(reply.status == 200, "{}", refused(reply));
    serde_json::from_slice(&reply.body).context("the broker sent no JSON")
}

/// What was asked for is done, if the broker did not refuse: it has nothing else to say.
fn done(reply: &Reply) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(reply.status == 204, "{}", refused(reply));
    Ok(ExitCode::SUCCESS)
}

/// Says what is not there.
fn not_found(reply: &Reply) -> anyhow::Result<ExitCode> {
    noteln!("weir: {}", refused(reply));
    Ok(ExitCode::from(1))
}

fn refused(reply: &Reply) -> String {
    let body: Option<Value> = serde_json::from_slice(&reply.body).ok();
    match body.as_ref().and_then(|body| body["error"].as_str()) {
        Some(error) => text::error(error),
        None => format!("the broker answered with status {} of HTTP", reply.status),
    }
}
