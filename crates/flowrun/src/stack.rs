//! `weir flow stack`: the line protocol of `weir bench clients`, on standard input and output.
//!
//! `start` begins the workflows that publish or connect, `counts` is answered by a line of
//! counters, `stop` and the end of input end it. Errors go to standard error.

mod connects;

use crate::Error;
use crate::control::{Control, Notice};
use crate::counts::{Count, Counts};
use crate::feed::Feed;
use crate::options::Settings;
use crate::subscriptions::Subscription;
use crate::work::{FIELDS, Work};
use crate::worker::Worker;
use clap::{Args, ValueEnum};
use connects::Connects;
use std::io::{BufRead, Write};
use std::sync::Arc;
use weir_client::Url;
use weir_connection::Address;
use weir_flow::Condition;
use weir_wire::topic::{TopicFilter, is_valid_name};
use weir_wire::{QoS, Version};

/// Be one of the stacks of `weir bench clients`
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub struct StackArgs {
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
    #[arg(long, default_value_t = Settings::GATHER_US)]
    gather_us: u32,
    /// What looks into the JSON: the rules of `weir flow`, or a tree of serde_json
    #[arg(long, default_value = "flow")]
    json: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workflow {
    /// Count messages.
    Subscribe,
    /// Publish back those whose `p` has the four fields.
    #[value(name = "workflow")]
    Entire,
    /// Publish at a rate.
    Publish,
    /// Connect and disconnect at a rate.
    Connect,
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
pub fn stack(args: &StackArgs) -> Result<(), Error> {
    let settings = settings(args)?;
    let (control, told) = Control::new(1)?;
    let work = work(args)?;
    obey_lines(&control, args.workflow)?;
    let qos = settings.publishes.0;
    let result = std::thread::scope(|scope| {
        let (settings, shared) = (&settings, &control);
        let serve = move || match args.workflow {
            Workflow::Connect => {
                let result = Connects::new(settings, shared, args.rate).run();
                shared.tell(Notice::Ended(result, Vec::new()));
            }
            workflow => {
                let publishes = workflow == Workflow::Publish;
                let feed = publishes.then(|| Feed::new(args.to.clone(), qos, args.rate));
                let (result, rules) = Worker::new(settings, shared, 0, work, feed).run();
                shared.tell(Notice::Ended(result, rules));
            }
        };
        std::thread::Builder::new().name("client".into()).spawn_scoped(scope, serve)?;
        loop {
            match told.recv() {
                Ok(Notice::Ready) => say(&ready_line(args)),
                Ok(Notice::Ended(result, _)) => return result,
                Err(_) => return Ok(()),
            }
        }
    });
    say(&counts_line(&control.counts(), args.workflow));
    result
}

fn settings(args: &StackArgs) -> Result<Settings, Error> {
    if !is_valid_name(&args.to) {
        return Err(Error::option("--out", "it must be a topic name"));
    }
    let filter = TopicFilter::parse(&args.from)
        .ok_or_else(|| Error::option("--in", "it must be a topic filter"))?;
    let takes_rate = matches!(args.workflow, Workflow::Publish | Workflow::Connect);
    if takes_rate && !(args.rate > 0.0 && args.rate <= 1e9) {
        return Err(Error::option("--rate", "this workflow needs one above 0"));
    }
    let qos = if args.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce };
    let subscription = Subscription {
        group: filter.group.map(str::to_owned),
        filter: filter.filter.to_owned(),
        qos,
    };
    let address =
        Address { host: args.host.clone(), port: args.port, user_name: None, password: None };
    Ok(Settings {
        address,
        version: Version::V311,
        client_id: format!("stack-{}", std::process::id()),
        threads: 1,
        is_session_kept: false,
        session_expiry_s: 0,
        keep_alive_s: 60,
        in_flight_max: Settings::IN_FLIGHT_MAX,
        gather_us: args.gather_us.into(),
        subscriptions: if takes_rate { Vec::new() } else { vec![subscription] },
        publishes: (qos, false),
        comes_back: false,
        is_quiet: false,
    })
}

fn work(args: &StackArgs) -> Result<Work, Error> {
    match (args.workflow, args.json) {
        (Workflow::Entire, Json::SerdeJson) => Ok(Work::Tree { to: args.to.clone() }),
        (Workflow::Entire, Json::Flow) => {
            let text = FIELDS.map(|field| format!("has(payload.p.{field})")).join(" && ");
            let condition = Condition::parse(&text);
            let condition =
                condition.map_err(|error| Error::option("--json", error.to_string()))?;
            Ok(Work::Condition {
                condition: Box::new(condition),
                scratch: Box::default(),
                to: args.to.clone(),
            })
        }
        _ => Ok(Work::Count),
    }
}

/// `ready NAME LIBRARY RUNTIME JSON`: words, each with its version.
fn ready_line(args: &StackArgs) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (name, json) = match args.json {
        Json::Flow => ("weir-flow", format!("weir-flow-{version}")),
        Json::SerdeJson => ("weir-client", "serde_json-1".into()),
    };
    format!("ready {name} {version} native {json}")
}

fn counts_line(counts: &Counts, workflow: Workflow) -> String {
    if workflow == Workflow::Connect {
        return format!("counts connects={}", counts.of(Count::Connects));
    }
    let [received, matched, published] =
        [Count::Received, Count::Matched, Count::Published].map(|count| counts.of(count));
    let faults = [Count::Refused, Count::Invalid, Count::TooLarge, Count::Overflowed, Count::Lost];
    let failed: u64 = faults.into_iter().map(|count| counts.of(count)).sum();
    format!("counts received={received} matched={matched} published={published} failed={failed}")
}

/// Obeys standard input on a thread of its own, which ends with the process.
fn obey_lines(control: &Arc<Control>, workflow: Workflow) -> std::io::Result<()> {
    let control = Arc::clone(control);
    std::thread::Builder::new().name("lines".into()).spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            match line.trim() {
                "start" => control.start(),
                "counts" => say(&counts_line(&control.counts(), workflow)),
                "stop" => break,
                other => eprintln!("weir: no such line: {other}"),
            }
        }
        control.stop();
    })?;
    Ok(())
}

/// One line, at once. A runner that is gone has closed standard input too, which ends us.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
