//! `weir ctl`: questions to a running broker over its control socket.

mod cluster;
mod kept;
mod text;
mod top;
mod trace;

use anyhow::Context;
use clap::Subcommand;
use serde_json::Value;
use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use weir_control::{Ban, Caller, Client, Reloaded, Reply, Reread};
use weir_say::{noteln, say, sayln};

/// Ask a running broker: who is connected, end a connection, ban somebody, counters
///
/// The broker serves a unix socket where its configuration has [control] socket = "PATH"; the
/// user it runs as, and root, may use it. Exit code 0: done; 1: no such client, or it is not
/// connected; 2: the broker cannot be asked. docs/control.md has the same as an HTTP API.
#[derive(Debug, clap::Args)]
pub(crate) struct CtlArgs {
    /// The broker's socket, as [control] socket in its configuration
    #[arg(long, value_name = "PATH", default_value = "/run/weir/ctl")]
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
    /// Keep somebody out from now on, and end who is connected (DISCONNECT 0x98)
    Ban {
        #[command(flatten)]
        whom: Whom,
        /// How long, such as 10m or 12h; for ever, if not given
        #[arg(long = "for", value_name = "TIME", value_parser = crate::bench::parse_length)]
        length_s: Option<f64>,
        /// What for; the list shows it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Take a ban back: one that was added here, or one for wrong passwords or flapping
    Unban {
        #[command(flatten)]
        whom: Whom,
    },
    /// List the bans in force, those of the file and for wrong passwords or flapping too
    Bans {
        /// A JSON object on a line for each
        #[arg(long)]
        json: bool,
    },
    /// List the bridges to other brokers, and what waits for each
    Bridges {
        /// A JSON object on a line for each
        #[arg(long)]
        json: bool,
    },
    /// Show the nodes of the cluster, or forget one that will not come back
    Cluster(cluster::ClusterArgs),
    /// Have the configuration, users, rights, bans and certificates read again, as SIGHUP does
    Reload,
    /// Print the configuration that runs, or replace its file and have everything go by it
    Config {
        /// A file whose text is to be in the place of the configuration file's
        #[arg(long, value_name = "FILE")]
        put: Option<PathBuf>,
        /// Only say what would change
        #[arg(long, requires = "put")]
        dry_run: bool,
    },
    /// Refuse new clients and send those that are here to another server, some at a time
    Drain {
        /// The server that clients of MQTT 5.0 are told to use (Server Reference)
        #[arg(long, value_name = "REF")]
        server: Option<String>,
        /// They are never to come back (0x9D), and not only for now (0x9C)
        #[arg(long)]
        moved: bool,
        /// Clients that are sent away in a second
        #[arg(long, value_name = "N", default_value_t = 500,
            value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        rate: u32,
        /// Only say how far it is
        #[arg(long, conflicts_with_all = ["server", "moved", "rate", "stop"])]
        state: bool,
        /// Let clients in again
        #[arg(long, conflicts_with_all = ["server", "moved", "rate"])]
        stop: bool,
    },
    /// List the users of the file of passwords
    Users,
    /// Give a user this password, which is read from standard input, one line; or take the user out
    User {
        /// The user name
        #[arg(value_name = "NAME")]
        name: String,
        /// Take the user out instead
        #[arg(short = 'D', long)]
        delete: bool,
    },
    /// Print the file of access rights or the rules of one user, or put others in their place
    Rights {
        /// Only those of this user, which are lines that begin with topic
        #[arg(value_name = "USER")]
        user: Option<String>,
        /// A file whose text is to be in their place
        #[arg(long, value_name = "FILE")]
        put: Option<PathBuf>,
    },
    /// List where clients come in
    Listeners {
        /// A JSON object on a line for each
        #[arg(long)]
        json: bool,
    },
    /// List messages that were dropped lately, and what was refused, the newest first
    Drops {
        /// Only those of this client
        #[arg(long, value_name = "ID")]
        client: Option<String>,
        /// Only those of this topic, or of topics that match this filter
        #[arg(long, value_name = "FILTER")]
        topic: Option<String>,
        /// So many at most
        #[arg(long, value_name = "N", default_value_t = 100,
            value_parser = clap::value_parser!(u64).range(1..=PAGE))]
        limit: u64,
        /// A JSON object on a line for each
        #[arg(long)]
        json: bool,
    },
    /// Say whether a message would get to a client now, and what is in the way
    Why {
        /// Its client identifier
        #[arg(value_name = "CLIENT")]
        client: String,
        /// The message's topic
        #[arg(value_name = "TOPIC")]
        topic: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what a client and the broker say to each other, as JSON lines, as it comes
    ///
    /// Payloads are cut at 256 bytes, and passwords are hidden. It ends by its time or size, or
    /// when nobody reads.
    Trace {
        #[command(flatten)]
        of: trace::TraceOf,
        /// How long, at most an hour
        #[arg(long = "for", value_name = "TIME", default_value = "60s",
            value_parser = crate::bench::parse_length)]
        length_s: f64,
        /// How much, at most 16MB
        #[arg(long = "max", value_name = "SIZE", default_value = "10MB",
            value_parser = trace::parse_bytes)]
        bytes_max: u64,
    },
    /// Count for some seconds which clients send and get most, and list them
    Top(top::TopArgs),
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

/// Whom a ban is of.
#[derive(Debug, clap::Args)]
struct Whom {
    /// What NAME is
    #[arg(value_name = "KIND", value_parser = ["address", "client", "user"])]
    kind: String,
    /// An address or a network such as 192.0.2.0/24, a client identifier, or a user name
    #[arg(value_name = "NAME")]
    name: String,
}

impl Whom {
    fn query(&self) -> Vec<(&str, &str)> {
        vec![("kind", &self.kind), ("name", &self.name)]
    }
}

/// Clients or bans of one request; more are asked for in turn.
const PAGE: u64 = 1_000;

pub(crate) fn run(args: &CtlArgs) -> anyhow::Result<ExitCode> {
    let caller = Caller::new(&args.socket).context("cannot ask")?;
    match &args.command {
        Command::Clients { limit, json } => CLIENTS.show(&caller, limit.unwrap_or(u64::MAX), *json),
        Command::Client { id, json } => {
            let reply = caller.get(&Caller::client_path(id))?;
            if reply.status == 404 {
                return not_found(&reply);
            }
            show(granted(&reply)?, *json, |it| Ok(text::client(&serde_json::from_value(it)?)))
        }
        Command::Kick { id } => removed(&caller.delete(&Caller::client_path(id))?),
        Command::Ban { whom, length_s, reason } => ban(&caller, whom, *length_s, reason.as_deref()),
        Command::Unban { whom } => removed(&caller.delete(&Caller::bans_path(&whom.query()))?),
        Command::Bans { json } => BANS.show(&caller, u64::MAX, *json),
        Command::Bridges { json } => bridges(&caller, *json),
        Command::Cluster(args) => cluster::run(&caller, args),
        Command::Reload => reloaded(&caller.post("/api/v1/reload")?),
        Command::Config { put, dry_run } => kept::config(&caller, put.as_deref(), *dry_run),
        Command::Drain { state: true, .. } => kept::drained(&caller.get(kept::DRAIN)?),
        Command::Drain { stop: true, .. } => kept::drained(&caller.delete(kept::DRAIN)?),
        Command::Drain { server, moved, rate, .. } => {
            kept::drain(&caller, server.as_deref(), *moved, *rate)
        }
        Command::Users => kept::users(&caller),
        Command::User { name, delete } => kept::user(&caller, name, *delete),
        Command::Rights { user, put } => kept::rights(&caller, user.as_deref(), put.as_deref()),
        Command::Listeners { json } => kept::listeners(&caller, *json),
        Command::Drops { client, topic, limit, json } => {
            drops(&caller, (client.as_deref(), topic.as_deref()), *limit, *json)
        }
        Command::Why { client, topic, json } => {
            let path = Caller::path("/api/v1/why", &[("client", client), ("topic", topic)]);
            show(granted(&caller.get(&path)?)?, *json, |it| {
                Ok(text::why(&serde_json::from_value(it)?))
            })
        }
        Command::Trace { of, length_s, bytes_max } => {
            trace::run(&caller, of, *length_s, *bytes_max)
        }
        Command::Top(args) => top::run(&caller, args),
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
            show(granted(&caller.get("/api/v1/counters")?)?, *json, |it| Ok(text::counters(&it)))
        }
    }
}

/// Prints what was answered: as it is, or for people.
fn show(
    answer: Value,
    json: bool,
    text: impl Fn(Value) -> serde_json::Result<String>,
) -> anyhow::Result<ExitCode> {
    if json {
        sayln!("{}", text::json(&answer));
    } else {
        say!("{}", text(answer)?);
    }
    Ok(ExitCode::SUCCESS)
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

/// Says what was read again and what has changed, or why everything stays as it was.
fn reloaded(reply: &Reply) -> anyhow::Result<ExitCode> {
    let said: Value = serde_json::from_slice(&reply.body).context("the answer is no JSON")?;
    let reloaded: Reloaded =
        serde_json::from_value(said).map_err(|_| anyhow::anyhow!("{}", refused(reply)))?;
    let Reloaded { read, changes } = &reloaded;
    if read.is_empty() && changes.is_empty() {
        sayln!("nothing has changed");
    }
    let is_whole = reloaded.fault().is_none();
    for Reread { what, error } in read {
        match error {
            None if is_whole => sayln!("read again: {what}"),
            None => {}
            Some(error) => noteln!("weir: as it was: {what}: {}", text::error(error)),
        }
    }
    for change in changes {
        let takes = if change.is_live { "live" } else { "restart" };
        sayln!("{takes:8} {}", text::change(change));
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

/// Bans somebody, and says what that has done beyond.
fn ban(
    caller: &Caller,
    whom: &Whom,
    length_s: Option<f64>,
    reason: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let for_s = length_s.map(|length_s| (length_s.ceil() as u32).to_string());
    let mut query = whom.query();
    query.extend(for_s.as_deref().map(|for_s| ("for_s", for_s)));
    query.extend(reason.map(|reason| ("reason", reason)));
    let banned = granted(&caller.post(&Caller::bans_path(&query))?)?;
    let ended = banned["ended"].as_u64().unwrap_or(0);
    if ended > 0 {
        let plural = if ended == 1 { "" } else { "s" };
        sayln!("{ended} connection{plural} ended");
    }
    if let Some(why) = banned["not_kept"].as_str() {
        noteln!("weir: a restart of the broker will forget it: {}", text::error(why));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what was dropped lately, of this client and this topic if they are given.
fn drops(
    caller: &Caller,
    (client, topic): (Option<&str>, Option<&str>),
    limit: u64,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let limit = limit.to_string();
    let mut query = vec![("limit", &*limit)];
    query.extend(client.map(|client| ("client", client)));
    query.extend(topic.map(|topic| ("topic", topic)));
    let mut answer = granted(&caller.get(&Caller::path("/api/v1/drops", &query))?)?;
    let drops = answer["drops"].as_array_mut().context("the broker sent no list")?;
    if !json {
        sayln!("{}", text::DROP_HEAD);
    }
    for drop in drops.drain(..) {
        if json {
            sayln!("{}", text::json(&drop));
        } else {
            sayln!("{}", text::drop_line(&serde_json::from_value(drop)?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows every bridge, and what was wrong with it last.
fn bridges(caller: &Caller, json: bool) -> anyhow::Result<ExitCode> {
    let mut answer = granted(&caller.get("/api/v1/bridges")?)?;
    let bridges = answer["bridges"].as_array_mut().context("the broker sent no list")?;
    if !json {
        sayln!("{}", text::BRIDGE_HEAD);
    }
    for bridge in bridges.drain(..) {
        if json {
            sayln!("{}", text::json(&bridge));
        } else {
            say!("{}", text::bridge(&serde_json::from_value(bridge)?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A list that the broker gives page by page.
struct List {
    path: &'static str,
    /// Of one.
    name: &'static str,
    head: &'static str,
    line: fn(Value) -> anyhow::Result<String>,
}

const CLIENTS: List = List {
    path: "/api/v1/clients",
    name: "client",
    head: text::CLIENT_HEAD,
    line: |client| Ok(text::client_line(&serde_json::from_value::<Client>(client)?)),
};

const BANS: List = List {
    path: "/api/v1/bans",
    name: "ban",
    head: text::BAN_HEAD,
    line: |ban| Ok(text::ban_line(&serde_json::from_value::<Ban>(ban)?)),
};

impl List {
    /// Shows the pages, each as soon as it is there.
    fn show(&self, caller: &Caller, limit: u64, json: bool) -> anyhow::Result<ExitCode> {
        let Self { path, name, head, line } = self;
        let (mut listed, mut cursor) = (0, String::new());
        let mut cursors = HashSet::new();
        while listed < limit && weir_say::is_read() {
            let page = (limit - listed).min(PAGE);
            let reply = caller.get(&format!("{path}?limit={page}{cursor}"))?;
            let mut page = granted(&reply)?;
            if !json && cursor.is_empty() {
                sayln!("{head}");
            }
            let of_page = page[format!("{name}s")].as_array_mut();
            for item in of_page.context("the broker sent no list")?.drain(..) {
                listed += 1;
                if json {
                    sayln!("{}", text::json(&item));
                } else {
                    sayln!("{}", line(item)?);
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
            sayln!("{listed} {name}{plural}");
        }
        Ok(ExitCode::SUCCESS)
    }
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

/// The same of something that may not be there.
fn removed(reply: &Reply) -> anyhow::Result<ExitCode> {
    if reply.status == 404 { not_found(reply) } else { done(reply) }
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
