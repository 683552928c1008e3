//! rumqttc on one tokio thread: a task polls the event loop and handles its messages, and results
//! go into the client's bounded channel. serde_json into a typed record, or into a tree.

use rumqttc::{
    AsyncClient, ConnectionError, Event, EventLoop, Incoming, MqttOptions, Outgoing, QoS,
    SubscribeReasonCode,
};
use serde::de::IgnoredAny;
use serde::Deserialize;
use std::error::Error;
use std::io::BufRead;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// Requests that wait in the client's channel; one more is refused.
const REQUESTS_MAX: usize = 50_000;
const TICK: Duration = Duration::from_millis(1);
const WAIT: Duration = Duration::from_secs(10);
/// How long to wait for acknowledgements after `stop`.
const LEAVE: Duration = Duration::from_secs(2);
const N_FIRST: u64 = 1_000_000_000;
/// 300 bytes with the ten digits of `n` and the closing brace.
const RECORD: &str = concat!(
    r#"{"t":1521028800,"f":1073741825,"tp":"ud","pos":{"y":53.9045398,"x":27.5615244,"z":220,"#,
    r#""s":62,"c":184,"sc":11},"i":3,"o":0,"p":{"mcc":257,"mnc":2,"lac":10471,"cell_id":55023,"#,
    r#""gsm":21,"pwr_ext":13.842,"pwr_int":4.103,"odo":48213.671,"hdop":1,"temp":21.5,"#,
    r#""fuel":47.25,"rpm":1840,"ign":1},"n":"#,
);

type Failure = Box<dyn Error + Send + Sync>;

#[derive(Clone, Copy, PartialEq)]
enum Workflow {
    Subscribe,
    Entire,
    Publish,
    Connect,
}

#[derive(Clone)]
struct Options {
    host: String,
    port: u16,
    workflow: Workflow,
    filter: String,
    topic: String,
    qos: QoS,
    rate: f64,
    is_tree: bool,
}

impl Options {
    fn read() -> Result<Self, Failure> {
        let mut options = Self {
            host: "127.0.0.1".into(),
            port: 1883,
            workflow: Workflow::Subscribe,
            filter: "ud/#".into(),
            topic: "out".into(),
            qos: QoS::AtMostOnce,
            rate: 0.0,
            is_tree: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--host" => options.host = value,
                "--port" => options.port = number(&name, &value)?,
                "--workflow" => {
                    options.workflow = match value.as_str() {
                        "subscribe" => Workflow::Subscribe,
                        "workflow" => Workflow::Entire,
                        "publish" => Workflow::Publish,
                        "connect" => Workflow::Connect,
                        other => return Err(format!("no such workflow: {other}").into()),
                    }
                }
                "--in" => options.filter = value,
                "--out" => options.topic = value,
                "--qos" => {
                    options.qos = match value.as_str() {
                        "0" => QoS::AtMostOnce,
                        "1" => QoS::AtLeastOnce,
                        _ => return Err("--qos is 0 or 1".into()),
                    }
                }
                "--rate" => options.rate = number(&name, &value)?,
                "--json" => {
                    options.is_tree = match value.as_str() {
                        "serde_json" => false,
                        "serde_json-value" => true,
                        other => return Err(format!("no such JSON library: {other}").into()),
                    }
                }
                other => return Err(format!("no such option: {other}").into()),
            }
        }
        let is_paced = matches!(options.workflow, Workflow::Publish | Workflow::Connect);
        if is_paced && options.rate <= 0.0 {
            return Err("--rate must be above 0 for the workflows publish and connect".into());
        }
        Ok(options)
    }

    fn client(&self) -> (AsyncClient, EventLoop) {
        let id = format!("stack-{}", std::process::id());
        let mut options = MqttOptions::new(id, &self.host, self.port);
        options.set_keep_alive(Duration::from_secs(60)).set_clean_session(true);
        AsyncClient::new(options, REQUESTS_MAX)
    }
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, Failure> {
    value.parse().map_err(|_| format!("{name}: not a number: {value}").into())
}

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    matched: AtomicU64,
    published: AtomicU64,
    acknowledged: AtomicU64,
    failed: AtomicU64,
    connects: AtomicU64,
}

impl Counts {
    fn say(&self, workflow: Workflow) {
        let connects = match workflow {
            Workflow::Connect => format!(" connects={}", self.connects.load(Relaxed)),
            _ => String::new(),
        };
        println!(
            "counts received={} matched={} published={} failed={}{connects}",
            self.received.load(Relaxed),
            self.matched.load(Relaxed),
            self.published.load(Relaxed),
            self.failed.load(Relaxed),
        );
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// The needed fields; serde_json skips the others.
#[derive(Deserialize)]
struct Record {
    #[serde(default)]
    p: Cell,
}

#[derive(Default, Deserialize)]
struct Cell {
    mcc: Option<IgnoredAny>,
    mnc: Option<IgnoredAny>,
    lac: Option<IgnoredAny>,
    cell_id: Option<IgnoredAny>,
}

fn has_cell(payload: &[u8]) -> serde_json::Result<bool> {
    let Record { p } = serde_json::from_slice(payload)?;
    Ok(p.mcc.is_some() && p.mnc.is_some() && p.lac.is_some() && p.cell_id.is_some())
}

fn has_cell_in_tree(payload: &[u8]) -> serde_json::Result<bool> {
    let record: serde_json::Value = serde_json::from_slice(payload)?;
    let names = ["mcc", "mnc", "lac", "cell_id"];
    Ok(names.iter().all(|name| record["p"].get(name).is_some()))
}

struct Stack {
    options: Options,
    counts: Counts,
    leaving: AtomicBool,
}

impl Stack {
    /// Polls until the connection ends. `ready` is told when the broker has answered.
    async fn turn(
        self: Arc<Self>,
        client: AsyncClient,
        mut events: EventLoop,
        ready: oneshot::Sender<()>,
    ) -> Result<(), Failure> {
        let is_reader = matches!(self.options.workflow, Workflow::Subscribe | Workflow::Entire);
        let mut ready = Some(ready);
        loop {
            match events.poll().await {
                Ok(Event::Incoming(Incoming::Publish(message))) => {
                    self.received(&client, message.payload);
                }
                Ok(Event::Incoming(Incoming::PubAck(_))) => add(&self.counts.acknowledged),
                Ok(Event::Incoming(Incoming::ConnAck(_))) if is_reader => {
                    client.try_subscribe(&self.options.filter, self.options.qos)?;
                }
                Ok(Event::Incoming(Incoming::SubAck(granted))) => {
                    if granted.return_codes.contains(&SubscribeReasonCode::Failure) {
                        return Err("subscription refused".into());
                    }
                    ready.take().map(|ready| ready.send(()));
                }
                Ok(Event::Incoming(Incoming::ConnAck(_))) => {
                    ready.take().map(|ready| ready.send(()));
                }
                Ok(Event::Outgoing(Outgoing::Disconnect)) => return Ok(()),
                Ok(_) => {}
                Err(_) if self.leaving.load(Relaxed) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn received(&self, client: &AsyncClient, payload: impl AsRef<[u8]> + Into<Vec<u8>>) {
        add(&self.counts.received);
        if self.options.workflow != Workflow::Entire {
            return;
        }
        let has_cell = if self.options.is_tree { has_cell_in_tree } else { has_cell };
        match has_cell(payload.as_ref()) {
            Ok(true) => {
                add(&self.counts.matched);
                // Waiting here would stop the event loop that makes room.
                match client.try_publish(&self.options.topic, self.options.qos, false, payload) {
                    Ok(()) => add(&self.counts.published),
                    Err(_) => add(&self.counts.failed),
                }
            }
            // JSON of another shape is not a failure.
            Err(error) if error.is_data() => {}
            Err(_) => add(&self.counts.failed),
            Ok(false) => {}
        }
    }

    /// Open loop: publishes what is due; late ones are published at once.
    async fn publish_records(self: Arc<Self>, client: AsyncClient) {
        let (begin, mut number) = (Instant::now(), 0);
        loop {
            while number < self.due(begin) {
                let payload = format!("{RECORD}{}}}", N_FIRST + number);
                let Options { topic, qos, .. } = &self.options;
                match client.publish(topic, *qos, false, payload).await {
                    Ok(()) => add(&self.counts.published),
                    Err(_) => add(&self.counts.failed),
                }
                number += 1;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// Open loop: connects and disconnects, one after the other.
    async fn churn(self: Arc<Self>) {
        let (begin, mut number) = (Instant::now(), 0);
        loop {
            while number < self.due(begin) {
                match tokio::time::timeout(WAIT, self.connect_once()).await {
                    Ok(Ok(())) => add(&self.counts.connects),
                    _ => add(&self.counts.failed),
                }
                number += 1;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    fn due(&self, begin: Instant) -> u64 {
        (begin.elapsed().as_secs_f64() * self.options.rate) as u64 + 1
    }

    async fn connect_once(&self) -> Result<(), ConnectionError> {
        let (client, mut events) = self.options.client();
        loop {
            match events.poll().await? {
                Event::Incoming(Incoming::ConnAck(_)) => {
                    // There is room: it is the first request.
                    let _ = client.try_disconnect();
                }
                Event::Outgoing(Outgoing::Disconnect) => return Ok(()),
                _ => {}
            }
        }
    }

    /// Waits for the acknowledgements of what was published.
    async fn drain(&self) {
        let end = Instant::now() + LEAVE;
        let counts = &self.counts;
        while self.options.qos == QoS::AtLeastOnce && Instant::now() < end {
            if counts.acknowledged.load(Relaxed) >= counts.published.load(Relaxed) {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

/// The lines of stdin, read by a thread; the channel ends with stdin.
fn commands() -> mpsc::Receiver<String> {
    let (lines, commands) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    commands
}

fn say_ready(options: &Options) {
    let json = if options.is_tree { "serde_json-value" } else { "serde_json" };
    println!(
        "ready rust-rumqttc rumqttc-{} {} {json}-{}",
        env!("VERSION_RUMQTTC"),
        env!("VERSION_RUSTC"),
        env!("VERSION_SERDE_JSON"),
    );
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let options = Options::read()?;
    let workflow = options.workflow;
    let stack =
        Arc::new(Stack { options, counts: Counts::default(), leaving: AtomicBool::new(false) });
    let mut connection = None;
    if workflow != Workflow::Connect {
        let (client, events) = stack.options.client();
        let (ready, answered) = oneshot::channel();
        let mut turning = tokio::spawn(Arc::clone(&stack).turn(client.clone(), events, ready));
        tokio::select! {
            _ = answered => {}
            ended = &mut turning => return ended?.and(Err("disconnected".into())),
            () = tokio::time::sleep(WAIT) => return Err("no answer from the broker".into()),
        }
        connection = Some((client, turning));
    }
    say_ready(&stack.options);

    let mut commands = commands();
    let mut pacing = None;
    loop {
        let command = match &mut connection {
            None => commands.recv().await,
            Some((_, turning)) => tokio::select! {
                command = commands.recv() => command,
                ended = turning => return ended?.and(Err("disconnected".into())),
            },
        };
        match command.as_deref().map(str::trim) {
            None | Some("stop") => break,
            Some("counts") => stack.counts.say(workflow),
            Some("start") if pacing.is_none() => match (workflow, &connection) {
                (Workflow::Publish, Some((client, _))) => {
                    let publishing = Arc::clone(&stack).publish_records(client.clone());
                    pacing = Some(tokio::spawn(publishing));
                }
                (Workflow::Connect, _) => {
                    pacing = Some(tokio::spawn(Arc::clone(&stack).churn()));
                }
                _ => {}
            },
            Some("" | "start") => {}
            Some(other) => eprintln!("no such command: {other}"),
        }
    }
    if let Some(pacing) = pacing {
        pacing.abort();
    }
    if let Some((client, turning)) = connection {
        stack.drain().await;
        stack.leaving.store(true, Relaxed);
        let _ = client.try_disconnect();
        let _ = tokio::time::timeout(LEAVE, turning).await;
    }
    stack.counts.say(workflow);
    Ok(())
}
