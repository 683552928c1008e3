//! Weir's own stack: the engine of `weir flow`, or Weir's client, behind the line protocol of
//! `adapter`, on standard input and output.
//!
//! `start` begins the workflows that publish or connect, `counts` is answered by a line of
//! counters, `stop` and the end of input end it. Errors go to standard error. To the runner it is a
//! program like every other stack's: nothing else in this crate knows it.

mod connects;
mod feed;
mod paced;
mod publishes;
mod work;

use crate::catalog::Workflow;
use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use connects::Connects;
use feed::Feed;
use paced::Pace;
use publishes::Publishes;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use weir_client::Url;
use weir_flowrun::{Embedded, EmbeddedHandle, EmbeddedOptions};
use weir_say::noteln;
use weir_wire::QoS;
use weir_wire::topic::is_valid_name;
use work::{Count, Fields, Tree};

/// Be Weir's own stack, controlled over standard input and output
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub struct WeirStackArgs {
    #[arg(long, default_value = "localhost")]
    host: String,
    #[arg(long, default_value_t = Url::PORT)]
    port: u16,
    #[arg(long)]
    workflow: Workflow,
    /// Filter to subscribe to
    #[arg(long = "in", default_value = "ud/#")]
    from: String,
    /// Topic to publish to
    #[arg(long = "out", default_value = "cells")]
    to: String,
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    qos: u8,
    /// Operations per second of publish and connect
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// As in `weir flow run`
    #[arg(long, default_value_t = EmbeddedOptions::GATHER_US)]
    gather_us: u32,
    /// What looks into the JSON: the conditions of `weir flow`, or a tree of serde_json
    #[arg(long, default_value = "flow")]
    json: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Json {
    Flow,
    #[value(name = "serde_json", alias = "serde-json")]
    SerdeJson,
}

/// Serves one runner, until it says `stop` or is gone.
///
/// # Errors
/// Arguments that cannot be used, no connection, a refusal.
pub fn run(args: &WeirStackArgs) -> anyhow::Result<()> {
    ensure!(is_valid_name(&args.to), "--out: it must be a topic name");
    let qos = if args.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce };
    let client_id = format!("stack-{}", std::process::id());
    if args.workflow.is_played() {
        return played(args, qos, client_id);
    }
    let is_usable = args.rate > 0.0 && args.rate <= 1e9;
    ensure!(is_usable, "--rate: this workflow needs one above 0");
    let address = resolve(&args.host, args.port)?;
    let pace = Arc::new(Pace::new(args.workflow)?);
    obey_lines(Arc::clone(&pace))?;
    let ready = || say(&ready_line(args.json));
    match args.workflow {
        Workflow::Connect => Connects::new(address, client_id, args.rate, &pace).run(ready)?,
        _ => {
            let feed = Feed::new(args.to.clone(), qos, args.rate);
            Publishes::new(address, client_id, feed, &pace).run(ready)?;
        }
    }
    say(&pace.counts_line());
    Ok(())
}

fn played(args: &WeirStackArgs, qos: QoS, client_id: String) -> anyhow::Result<()> {
    let (host, port, filter) = (args.host.clone(), args.port, args.from.clone());
    let gather_us = args.gather_us;
    let options = EmbeddedOptions { host, port, client_id, filter, qos, gather_us };
    let flow = Embedded::new(options)?;
    let handle = Arc::new(flow.handle());
    obey_lines(Arc::clone(&handle))?;
    let ready = || say(&ready_line(args.json));
    let to = args.to.clone();
    match (args.workflow, args.json) {
        (Workflow::Workflow, Json::SerdeJson) => flow.run(Tree { to }, ready)?,
        (Workflow::Workflow, Json::Flow) => flow.run(Fields::new(to)?, ready)?,
        _ => flow.run(Count, ready)?,
    }
    say(&handle.counts_line());
    Ok(())
}

fn resolve(host: &str, port: u16) -> anyhow::Result<SocketAddr> {
    let mut found = (host, port).to_socket_addrs().with_context(|| format!("{host}:{port}"))?;
    found.next().with_context(|| format!("{host} has no address"))
}

/// `ready NAME LIBRARY RUNTIME JSON`: words, each with its version.
fn ready_line(json: Json) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (name, json) = match json {
        Json::Flow => ("weir-flow", format!("weir-flow-{version}")),
        Json::SerdeJson => ("weir-client", "serde_json-1".into()),
    };
    format!("ready {name} {version} native {json}")
}

/// What the lines on standard input are for.
trait Obey {
    fn start(&self);
    fn stop(&self);
    fn counts_line(&self) -> String;
}

impl Obey for EmbeddedHandle {
    /// It is played to: the replay server begins.
    fn start(&self) {}

    fn stop(&self) {
        Self::stop(self);
    }

    fn counts_line(&self) -> String {
        let counts = self.counts();
        let (received, matched) = (counts.received, counts.matched);
        let (published, failed) = (counts.published, counts.failed);
        format!(
            "counts received={received} matched={matched} published={published} failed={failed}"
        )
    }
}

/// Obeys standard input on a thread of its own, which ends with the process.
fn obey_lines(of: Arc<impl Obey + Send + Sync + 'static>) -> std::io::Result<()> {
    std::thread::Builder::new().name("lines".into()).spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.trim() {
                "start" => of.start(),
                "counts" => say(&of.counts_line()),
                "stop" => break,
                other => noteln!("weir: no such line: {other}"),
            }
        }
        of.stop();
    })?;
    Ok(())
}

/// One line, at once. A runner that is gone has closed standard input too, which ends us.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
