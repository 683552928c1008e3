//! `[[kafka]]` against a Kafka, which scripts/setup --all installs: what comes to its topics, while
//! it and the broker are killed and come back. `make test-long` runs these.

use crate::support::Broker;
use crate::support::asked::{Asked, ctl, said};
use crate::support::blocking::Blocking;
use crate::support::certificates::Authority;
use crate::support::live::free;
use crate::support::mqtt::Peer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_wire::packet::{Ack, Publish};
use weir_wire::{Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

/// How long anything of these tests may take on a slow host.
const PATIENCE: Duration = Duration::from_secs(120);

/// One node of Kafka; killed with the value.
struct Kafka {
    folder: PathBuf,
    jars: String,
    /// Without TLS, for anybody.
    address: String,
    /// With TLS and users.
    secure: String,
    /// The file of the authority that has signed it there.
    ca: String,
    server: Option<Child>,
}

/// A record as Kafka's own consumer shows it.
#[derive(Debug)]
struct Record {
    partition: u32,
    headers: BTreeMap<String, String>,
    key: String,
    value: String,
}

impl Kafka {
    /// One that is formatted and not started; nothing if it is not installed.
    fn new(folder: &Path) -> Option<Self> {
        let jars = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kafka/target/lib");
        if !jars.is_dir() {
            assert!(std::env::var_os("CI").is_none(), "no Kafka; run scripts/setup --all");
            eprintln!("skipped: Kafka is not installed; scripts/setup --all installs it");
            return None;
        }
        let [plain, secure, controller] = std::array::from_fn(|_| free());
        let [address, secure] = [plain, secure].map(|port| format!("127.0.0.1:{port}"));
        let authority = Authority::new("a", folder);
        let pair = authority.valid("kafka");
        let identity = folder.join("kafka.pem");
        let [key, chain] = [pair.key, pair.certificate].map(|it| std::fs::read(it).unwrap());
        std::fs::write(&identity, [key, chain].concat()).unwrap();
        let login = "org.apache.kafka.common.security";
        let properties = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://{address},SASL_SSL://{secure},\
             CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://{address},SASL_SSL://{secure}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=\
             PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\nauto.create.topics.enable=false\n\
             ssl.keystore.type=PEM\nssl.keystore.location={}\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config=\
             {login}.plain.PlainLoginModule required user_weir=\"secret\";\n\
             listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config=\
             {login}.scram.ScramLoginModule required;\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
             {login}.scram.ScramLoginModule required;\n",
            folder.join("kafka").display(),
            identity.display(),
        );
        std::fs::write(folder.join("kafka.properties"), properties).unwrap();
        let kafka = Self {
            folder: folder.to_owned(),
            jars: format!("{}/*", jars.display()),
            address,
            secure,
            ca: authority.file(),
            server: None,
        };
        kafka.tool(
            "kafka.tools.StorageTool",
            &[
                "format",
                "--cluster-id",
                "4L6g3nShT-eMCtK--X86sw",
                "--config",
                kafka.folder.join("kafka.properties").to_str().unwrap(),
                "--add-scram",
                "SCRAM-SHA-256=[name=weir,password=secret]",
                "--add-scram",
                "SCRAM-SHA-512=[name=weir,password=secret]",
            ],
        );
        Some(kafka)
    }

    fn java(&self) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xmx256m", "-XX:+UseSerialGC", "-cp", &self.jars]);
        java
    }

    /// Starts it, and waits until it answers.
    fn start(&mut self) {
        let log = std::fs::File::create(self.folder.join("kafka.log")).unwrap();
        let mut java = self.java();
        java.arg("kafka.Kafka").arg(self.folder.join("kafka.properties"));
        java.stdout(log.try_clone().unwrap()).stderr(log);
        self.server = Some(java.spawn().unwrap());
        // It waits for the server itself, up to a minute.
        self.tool("org.apache.kafka.tools.TopicCommand", &["--list"]);
    }

    /// SIGKILL.
    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// What one of its programs prints.
    fn tool(&self, class: &str, arguments: &[&str]) -> String {
        let mut java = self.java();
        java.arg(class).args(arguments);
        if class != "kafka.tools.StorageTool" {
            java.args(["--bootstrap-server", &self.address]);
        }
        let output = java.output().unwrap();
        assert!(output.status.success(), "{class} {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn create(&self, topic: &str, more: &[&str]) {
        let arguments = ["--create", "--topic", topic, "--partitions", "3"];
        self.tool("org.apache.kafka.tools.TopicCommand", &[&arguments, more].concat());
    }

    /// So many records of a topic, in the order of each partition.
    fn records(&self, topic: &str, count: usize) -> Vec<Record> {
        let (count, patience) = (count.to_string(), PATIENCE.as_millis().to_string());
        let shown = ["key", "headers", "partition"];
        let shown = shown.map(|part| format!("print.{part}=true"));
        let mut arguments = vec!["--topic", topic, "--from-beginning"];
        arguments.extend(["--max-messages", &count, "--timeout-ms", &patience]);
        shown.iter().for_each(|it| arguments.extend(["--formatter-property", it]));
        let text = self.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments);
        text.lines().map(Record::of).collect()
    }

    /// How many records a topic has.
    fn count(&self, topic: &str) -> usize {
        let text = self.tool("org.apache.kafka.tools.GetOffsetShell", &["--topic", topic]);
        let count = |line: &str| line.rsplit(':').next().unwrap().parse::<usize>().unwrap();
        text.lines().map(count).sum()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Record {
    fn of(line: &str) -> Self {
        let parts: Vec<&str> = line.split('\t').collect();
        let [partition, headers, key, value] = parts[..] else { panic!("{line}") };
        let header = |text: &str| {
            let (name, value) = text.split_once(':').unwrap();
            (name.to_owned(), value.to_owned())
        };
        Self {
            partition: partition.strip_prefix("Partition:").unwrap().parse().unwrap(),
            headers: headers.split(',').map(header).collect(),
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }
}

fn sink(brokers: &str, more: &str) -> String {
    format!(
        "[[kafka]]\nname = \"lake\"\nbrokers = [\"127.0.0.1:1\", {brokers:?}]\n\
         topics = [\n  {{ filter = \"plant/#\", topic = \"plant\" }},\n  \
         {{ filter = \"bare/+\", topic = \"bare\", key = \"none\" }},\n]\n\
         retry_ms_min = 50\nretry_ms_max = 200\n{more}\n"
    )
}

/// The counters of the sink once this holds of how it is.
fn once(ctl: impl Fn() -> String, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let state: Value = serde_json::from_str(&ctl()).unwrap();
        if holds(&state) {
            return state;
        }
        assert!(Instant::now() < deadline, "never {what}: {state}");
        sleep(Duration::from_millis(50));
    }
}

fn state_of(asked: &Asked) -> impl Fn() -> String {
    || said(&asked.ctl(&["bridges", "--json"]))
}

fn out(state: &Value) -> u64 {
    state["counters"]["messages_out"].as_u64().unwrap()
}

#[test]
#[ignore = "needs a Kafka: make test-long"]
fn messages_become_records_and_each_topic_keeps_its_order() {
    const COUNT: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut kafka) = Kafka::new(folder.path()) else { return };
    kafka.start();
    kafka.create("plant", &["--config", "max.message.bytes=20000"]);
    let asked = Asked::start(|_| sink(&kafka.address, ""));
    // A topic that is not there is waited for: nothing is lost by it.
    let waiting = once(state_of(&asked), "an error", |state| state["last_error"].is_string());
    assert!(waiting["last_error"].as_str().unwrap().contains("the topic bare is not in Kafka"));
    let mut publisher = Peer::client(&asked.broker.address, "publisher");
    for number in 0..COUNT {
        publisher.publish(&format!("plant/{}", number % 7), &number.to_string(), Some(7), false);
        assert_eq!(publisher.acknowledged(), 7);
    }
    // Among others, in the middle of a batch.
    publisher.publish("plant/0", &"x".repeat(30_000), Some(7), false);
    assert_eq!(publisher.acknowledged(), 7);
    let mut with_properties = Blocking::connect(&*asked.broker.address, Version::V5).unwrap();
    with_properties.join("v5", None, &[]).unwrap();
    assert_eq!(with_properties.connack(), Some(ReasonCode::Success));
    let mut properties = PropertiesBuf::new();
    properties.push(Property::ContentType("text/plain"));
    properties.push(Property::UserProperty("traceparent", "00-1"));
    let last = |qos, topic, payload| Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: (qos != QoS::AtMostOnce).then_some(PacketId::FIRST),
        properties: properties.as_properties(),
        payload,
    };
    let exactly = Packet::Publish(last(QoS::ExactlyOnce, "bare/2", b"last"));
    with_properties.send(&exactly).unwrap();
    assert!(with_properties.next().is_some(), "PUBREC");
    let release = Ack::success(PacketId::FIRST);
    with_properties.send(&Packet::PubRel(release)).unwrap();
    assert!(with_properties.next().is_some(), "PUBCOMP");

    kafka.create("bare", &[]);
    let done = once(state_of(&asked), "relayed", |state| out(state) == COUNT as u64 + 1);
    assert_eq!(done["client_id"], "$weir/kafka/lake");
    assert_eq!(done["counters"]["dropped_too_large"], 1);
    assert_eq!(done["queued_messages"], 0);
    let mut broker = asked.broker;
    let line = broker.says("is dropped, and more may be");
    assert!(line.contains("plant/0") && line.contains("raise max.message.bytes"), "{line}");
    // At QoS 0 when it is there.
    with_properties.send(&Packet::Publish(last(QoS::AtMostOnce, "bare/2", b"late"))).unwrap();

    let mut of_topic: BTreeMap<String, Vec<(u32, usize)>> = BTreeMap::new();
    for Record { partition, headers, key, value } in kafka.records("plant", COUNT) {
        assert_eq!((&headers["mqtt.topic"], &*headers["mqtt.qos"]), (&key, "1"));
        of_topic.entry(key).or_default().push((partition, value.parse().unwrap()));
    }
    assert_eq!(of_topic.len(), 7);
    for records in of_topic.values() {
        assert!(records.is_sorted_by(|a, b| a.0 == b.0 && a.1 < b.1), "{records:?}");
    }
    let bare = kafka.records("bare", 2);
    let [first, second] = &bare[..] else { panic!("{bare:?}") };
    assert_eq!((&*first.key, &*first.value, &*second.value), ("null", "last", "late"));
    assert_eq!(first.headers["mqtt.content_type"], "text/plain");
    assert_eq!(first.headers["traceparent"], "00-1");
    assert_eq!([first, second].map(|it| &*it.headers["mqtt.qos"]), ["1", "0"]);
}

#[test]
#[ignore = "needs a Kafka: make test-long"]
fn a_sink_speaks_tls_and_says_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut kafka) = Kafka::new(folder.path()) else { return };
    kafka.start();
    kafka.create("plant", &[]);
    kafka.create("bare", &[]);
    let ca = &kafka.ca;
    let mut count = 0;
    for mechanism in ["plain", "scram-sha-256", "scram-sha-512"] {
        for (password, is_right) in [("secret", true), ("other", false)] {
            let tls = format!(
                "sasl = {mechanism:?}\nuser_name = \"weir\"\npassword = {password:?}\n\
                 [kafka.tls]\nca = {ca:?}\n"
            );
            let mut asked = Asked::start(|_| sink(&kafka.secure, &tls));
            if !is_right {
                let line = asked.broker.says("trying again");
                assert!(line.contains("Sasl"), "{line}");
                continue;
            }
            let mut publisher = Peer::client(&asked.broker.address, "publisher");
            publisher.publish("plant/a", mechanism, Some(7), false);
            assert_eq!(publisher.acknowledged(), 7);
            once(state_of(&asked), "relayed", |state| out(state) == 1);
            count += 1;
            assert_eq!(kafka.records("plant", count)[count - 1].value, mechanism);
        }
    }
    let other = Authority::new("others", folder.path());
    let file = other.file();
    let mut asked = Asked::start(|_| sink(&kafka.secure, &format!("[kafka.tls]\nca = {file:?}\n")));
    let line = asked.broker.says("trying again");
    assert!(line.contains("certificate"), "{line}");
}

/// Publishes these numbers at QoS 1, 20 at a time and 1,000 each second, whatever becomes of the
/// broker; all were acknowledged at the end. Returns how many it had to publish again.
fn publish_all(address: &str, numbers: std::ops::Range<usize>) -> usize {
    const AT_ONCE: usize = 20;
    let connect = || {
        let mut client = Blocking::connect(address, Version::V311).ok()?;
        client.join("publisher", None, &[]).ok()?;
        (client.connack() == Some(ReasonCode::Success)).then_some(client)
    };
    let (mut client, mut again) = (None, 0);
    let begun = Instant::now();
    for (round, first) in numbers.step_by(AT_ONCE).enumerate() {
        let due = begun + Duration::from_millis(20 * round as u64);
        sleep(due.saturating_duration_since(Instant::now()));
        loop {
            let Some(open) = &mut client else {
                client = connect();
                sleep(Duration::from_millis(20));
                continue;
            };
            if round_trip(open, first..first + AT_ONCE).is_some() {
                break;
            }
            client = None;
            again += AT_ONCE;
        }
    }
    again
}

/// Nothing if the broker is lost.
fn round_trip(client: &mut Blocking, numbers: std::ops::Range<usize>) -> Option<()> {
    for number in numbers.clone() {
        let (topic, text) = (format!("plant/{}", number % 10), number.to_string());
        let packet = Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: &topic,
            packet_id: PacketId::new((number % 1_000) as u16 + 1),
            properties: Properties::EMPTY,
            payload: text.as_bytes(),
        });
        client.send(&packet).ok()?;
    }
    numbers.map(|_| client.next().map(drop)).collect()
}

/// Kafka and the broker are killed while 1,000 messages come each second, and come back.
#[test]
#[ignore = "needs a Kafka: make test-long"]
fn nothing_is_lost_when_kafka_and_the_broker_are_killed() {
    let seconds = std::env::var("WEIR_KAFKA_SECONDS").map_or(30, |text| text.parse().unwrap());
    let count = 1_000 * seconds;
    let folder = tempfile::tempdir().unwrap();
    let Some(mut kafka) = Kafka::new(folder.path()) else { return };
    kafka.start();
    kafka.create("plant", &[]);
    kafka.create("bare", &[]);
    let [port] = std::array::from_fn(|_| free());
    let (address, socket) = (format!("127.0.0.1:{port}"), folder.path().join("ctl"));
    let (file, store) = (folder.path().join("weir.toml"), folder.path().join("store"));
    let text = format!(
        "listen = [{address:?}]\nshards = 2\nstore.path = {store:?}\n\
         limits.queue_messages_max = {count}\nlimits.queue_bytes_max = 1000000000\n{}\
         [control]\nsocket = {socket:?}\n",
        sink(&kafka.address, "")
    );
    std::fs::write(&file, text).unwrap();
    let start = || Broker::try_start(&["--config", file.to_str().unwrap()]).unwrap();
    let mut broker = start();
    broker.says("Kafka connected");
    let publisher = std::thread::spawn({
        let address = address.clone();
        move || publish_all(&address, 0..count)
    });
    let step = Duration::from_secs(seconds as u64) / 6;
    sleep(step);
    kafka.kill();
    sleep(step);
    kafka.start();
    sleep(step);
    // SIGKILL.
    broker.child.kill().unwrap();
    broker.child.wait().unwrap();
    broker = start();
    let again = publisher.join().unwrap();
    let state = || said(&ctl(&socket, &["bridges", "--json"]));
    once(state, "empty", |state| state["connected"] == true && state["queued_messages"] == 0);
    let records = kafka.records("plant", kafka.count("plant"));
    let mut missing: BTreeSet<usize> = (0..count).collect();
    let (mut last, mut repeats) = (BTreeMap::new(), 0);
    for Record { partition, key, value, .. } in records {
        let number: usize = value.parse().unwrap();
        if !missing.remove(&number) {
            repeats += 1;
            continue;
        }
        let before = last.insert(key, (partition, number));
        assert!(before.is_none_or(|before| before.0 == partition && before.1 < number), "{number}");
    }
    println!("{count} messages, {again} published again, {repeats} repeats in Kafka");
    assert_eq!(missing.len(), 0, "{missing:?}");
    drop(broker);
}
