//! `weir pub`: publish one message, some times, or every line of standard input.

use crate::Error;
use crate::options::{ConnectionArgs, NOT_A_NAME, Settings, parse_qos};
use crate::property::{Place, help};
use crate::runner::{OUTPUT_BYTES_MAX, Port, Task, reason_string, run};
use clap::Args;
use std::io::{BufRead, Read};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;
use weir_client::Event;
use weir_connection::named;
use weir_reactor::{Reactor, Waker};
use weir_say::noteln;
use weir_wire::topic::is_valid_name;
use weir_wire::{Packet, Properties, Property, QoS, REMAINING_LENGTH_MAX, ReasonCode};

/// Lines read ahead of the broker.
const LINES_MAX: usize = 64;

/// Publish messages, with mosquitto_pub's options
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true, args_override_self = true, after_help = after_help())]
pub struct PubArgs {
    /// Topic to publish to
    #[arg(
        short,
        long,
        value_name = "TOPIC",
        required_unless_present = "url",
        allow_hyphen_values = true
    )]
    topic: Option<String>,
    #[command(flatten)]
    what: What,
    /// Quality of service: 0, 1 or 2
    #[arg(short, long, value_name = "QOS", default_value = "0", value_parser = parse_qos)]
    qos: QoS,
    /// Ask the broker to retain the message
    #[arg(short, long)]
    retain: bool,
    /// Publish the message this many times
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "is_by_line",
        value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// Seconds between repetitions, such as 0.5
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "repeat")]
    repeat_delay: f64,
    /// QoS 1 and 2 messages that may be unacknowledged at a time
    #[arg(short = 'M', long, value_name = "COUNT", default_value_t = 20,
        value_parser = clap::value_parser!(u16).range(1..))]
    max_inflight: u16,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The message.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
struct What {
    /// Message
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    message: Option<String>,
    /// File that contains the message
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Publish every line of standard input as a message
    #[arg(short = 'l', long = "stdin-line")]
    is_by_line: bool,
    /// Publish all of standard input as one message
    #[arg(short = 's', long = "stdin-file")]
    is_stdin: bool,
    /// Publish an empty message; with -r it clears the retained one
    #[arg(short = 'n', long = "null-message")]
    is_empty: bool,
}

fn after_help() -> String {
    format!(
        "At QoS 1 and 2 it exits once the broker has acknowledged every message.\n\n{}\n\n\
         Exit codes:\n  0 published; 1 failed or refused; 2 wrong options; \
         27 no answer in time\n\nExamples:\n  \
         weir pub -t sensors/1 -m 21.5 -q 1 -r\n  \
         vmstat 1 | weir pub -t host/vmstat -l\n  \
         weir pub -t ask -m hello -D publish response-topic answers\n  \
         weir pub -L mqtts://user:secret@broker/sensors/1 -m 21.5 --cafile ca.pem",
        help()
    )
}

impl PubArgs {
    /// Whether to say nothing of an error.
    pub const fn is_quiet(&self) -> bool {
        self.connection.quiet
    }
}

/// Publishes what the options say.
///
/// # Errors
/// Options that cannot be used, no connection, a refusal.
pub fn publish(args: &PubArgs) -> Result<(), Error> {
    let settings = Settings::new(&args.connection)?;
    let url_topic = args.connection.url.as_ref().and_then(|url| url.topic.clone());
    if args.topic.is_some() && url_topic.is_some() {
        return Err(Error::option("-t", "", "the URL of -L has a topic already"));
    }
    let topic = args.topic.clone().or(url_topic).unwrap_or_default();
    if !is_valid_name(&topic) {
        return Err(Error::option("-t", topic, NOT_A_NAME));
    }
    if !(0.0..=MOST_DELAY_S).contains(&args.repeat_delay) {
        let rule = format!("it must be from 0 to {MOST_DELAY_S} seconds");
        return Err(Error::option("--repeat-delay", args.repeat_delay.to_string(), rule));
    }
    let mut reactor = Reactor::new()?;
    let mut publisher = Publisher {
        topic,
        qos: args.qos,
        retain: args.retain,
        source: Source::new(args, reactor.waker())?,
        in_flight_max: args.max_inflight,
        is_quiet: args.connection.quiet,
        properties: settings.properties.of(Place::Publish),
        is_v5: settings.version.is_v5(),
        is_aliased: false,
        takes: Takes::default(),
        is_exhausted: false,
        due_us: None,
        published: 0,
        in_flight: 0,
        answers: 0,
        refused: 0,
        first_refusal: None,
        why: None,
    };
    run(&mut reactor, &settings, &mut publisher, None, &AtomicBool::new(false))?;
    publisher.verdict()
}

/// A day: more is a slip of the finger.
const MOST_DELAY_S: f64 = 86_400.0;

/// Where the messages come from.
enum Source {
    /// One message, some times.
    Repeated {
        payload: Vec<u8>,
        left: u64,
        delay_us: u64,
        due_us: u64,
    },
    Lines(Receiver<std::io::Result<Vec<u8>>>),
}

enum Next {
    Message(Vec<u8>),
    /// Not before this time, in microseconds, or not before the reactor is woken.
    Wait(Option<u64>),
    End,
}

impl Source {
    fn new(args: &PubArgs, waker: Waker) -> Result<Self, Error> {
        let What { message, file, is_by_line, is_stdin, .. } = &args.what;
        let file_error = |what: String| move |error| Error::File { what, error };
        let payload = if *is_by_line {
            return Ok(Self::Lines(read_lines(waker)));
        } else if let Some(message) = message {
            message.clone().into_bytes()
        } else if let Some(path) = file {
            std::fs::read(path).map_err(file_error(path.display().to_string()))?
        } else if *is_stdin {
            let mut payload = Vec::new();
            let stdin = std::io::stdin().lock();
            // One byte more than can be sent, so that too much is noticed.
            stdin
                .take(u64::from(REMAINING_LENGTH_MAX) + 1)
                .read_to_end(&mut payload)
                .map_err(file_error("standard input".into()))?;
            payload
        } else {
            Vec::new()
        };
        let delay_us = Duration::from_secs_f64(args.repeat_delay).as_micros() as u64;
        Ok(Self::Repeated { payload, left: args.repeat, delay_us, due_us: 0 })
    }

    fn next(&mut self, now_us: u64) -> Result<Next, Error> {
        match self {
            Self::Repeated { left: 0, .. } => Ok(Next::End),
            Self::Repeated { due_us, .. } if now_us < *due_us => Ok(Next::Wait(Some(*due_us))),
            Self::Repeated { payload, left, delay_us, due_us } => {
                *left -= 1;
                *due_us = now_us + *delay_us;
                Ok(Next::Message(payload.clone()))
            }
            Self::Lines(lines) => match lines.try_recv() {
                Ok(Ok(line)) => Ok(Next::Message(line)),
                Ok(Err(error)) => Err(Error::File { what: "standard input".into(), error }),
                Err(TryRecvError::Empty) => Ok(Next::Wait(None)),
                Err(TryRecvError::Disconnected) => Ok(Next::End),
            },
        }
    }
}

/// Reads standard input on a thread of its own, a few lines ahead, and wakes the reactor.
fn read_lines(waker: Waker) -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let most = u64::from(REMAINING_LENGTH_MAX) + 1;
            let read = stdin.by_ref().take(most).read_until(b'\n', &mut line);
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            let is_last = !matches!(read, Ok(1..));
            let is_gone = match read {
                Ok(0) => false,
                read => sender.send(read.map(|_| line)).is_err(),
            };
            if is_last {
                // The end is told by the sender's: it must be gone before the reactor looks.
                drop(sender);
                return waker.wake();
            }
            if is_gone {
                return;
            }
            waker.wake();
        }
    });
    receiver
}

/// What the broker said in CONNACK that it takes.
struct Takes {
    qos: u8,
    retained: bool,
    packet_bytes: u32,
    alias: u16,
}

impl Default for Takes {
    fn default() -> Self {
        Self { qos: 2, retained: true, packet_bytes: u32::MAX, alias: 0 }
    }
}

struct Publisher<'a> {
    topic: String,
    qos: QoS,
    retain: bool,
    source: Source,
    in_flight_max: u16,
    is_quiet: bool,
    properties: Properties<'a>,
    is_v5: bool,
    /// The topic alias among the properties is known to the broker.
    is_aliased: bool,
    takes: Takes,
    is_exhausted: bool,
    /// When the next message is due, if nothing but time is in its way.
    due_us: Option<u64>,
    published: u64,
    in_flight: u16,
    /// Acknowledgements of any kind.
    answers: u64,
    refused: u64,
    first_refusal: Option<(ReasonCode, Option<String>)>,
    /// Reason string of the last packet.
    why: Option<String>,
}

impl Publisher<'_> {
    /// How all went, once it is over.
    fn verdict(self) -> Result<(), Error> {
        let Self { refused, published, .. } = self;
        match self.first_refusal {
            None => Ok(()),
            Some((reason, why)) => Err(Error::NotPublished { refused, published, reason, why }),
        }
    }

    fn alias(&self) -> Option<u16> {
        self.properties.find(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        })
    }

    /// Whether the broker, and MQTT, take this message.
    fn check(&self, topic: &str, payload: &[u8]) -> Result<(), Error> {
        let unsupported = |what: String| Err(Error::Unsupported(what));
        if self.qos as u8 > self.takes.qos {
            return unsupported(format!("no QoS above {}", self.takes.qos));
        }
        if self.retain && !self.takes.retained {
            return unsupported("no retained messages".into());
        }
        if let Some(alias) = self.alias().filter(|alias| *alias > self.takes.alias) {
            return unsupported(format!("no topic alias above {}, not {alias}", self.takes.alias));
        }
        let identifier_bytes = if self.qos == QoS::AtMostOnce { 0 } else { 2 };
        let property_bytes =
            if self.is_v5 { prefixed(self.properties.as_bytes().len()) } else { 0 };
        let body_bytes = 2 + topic.len() + identifier_bytes + property_bytes + payload.len();
        if body_bytes > REMAINING_LENGTH_MAX as usize {
            return Err(Error::TooLong { bytes: body_bytes });
        }
        let bytes = 1 + prefixed(body_bytes);
        if bytes > self.takes.packet_bytes as usize {
            let most = self.takes.packet_bytes;
            return unsupported(format!("no packet of {bytes} bytes, but of {most} at most"));
        }
        Ok(())
    }

    fn publish(&mut self, payload: &[u8], port: &mut Port<'_>) -> Result<(), Error> {
        let topic = if self.is_aliased { "" } else { &self.topic };
        self.check(topic, payload)?;
        self.published += 1;
        let message = (topic, payload, self.qos, self.retain);
        port.publish(message, self.properties, self.published)
            .expect("there is room in the window");
        self.is_aliased = self.alias().is_some();
        self.in_flight += u16::from(self.qos != QoS::AtMostOnce);
        Ok(())
    }

    fn refused(&mut self, number: u64, reason: ReasonCode) {
        let why = self.why.take();
        self.refused += 1;
        // Who types line after line should not learn it at the end.
        if matches!(self.source, Source::Lines(_)) && !self.is_quiet {
            let reason = named(reason, why.as_deref());
            noteln!("weir: message {number} was refused: {reason}");
        }
        self.first_refusal.get_or_insert((reason, why));
    }
}

/// Length of a part of this many bytes with its length before it, as a variable byte integer.
const fn prefixed(bytes: usize) -> usize {
    bytes
        + match bytes {
            0..0x80 => 1,
            0x80..0x4000 => 2,
            0x4000..0x20_0000 => 3,
            _ => 4,
        }
}

impl Task for Publisher<'_> {
    const CONNECTS_AGAIN: bool = false;

    fn packet(&mut self, packet: &Packet<'_>) {
        self.why = reason_string(packet);
        let connack = match packet {
            Packet::ConnAck(connack) => connack,
            Packet::PubAck(_) | Packet::PubRec(_) | Packet::PubComp(_) => {
                self.answers += 1;
                return;
            }
            _ => return,
        };
        for property in connack.properties.iter() {
            match property {
                Property::MaximumQoS(qos) => self.takes.qos = qos,
                Property::RetainAvailable(is_available) => self.takes.retained = is_available == 1,
                Property::MaximumPacketSize(bytes) => self.takes.packet_bytes = bytes,
                Property::TopicAliasMaximum(maximum) => self.takes.alias = maximum,
                _ => {}
            }
        }
    }

    fn event(&mut self, event: Event<'_>) {
        if let Event::Acknowledged { tag, reason } = event {
            self.in_flight -= 1;
            if reason.is_error() {
                self.refused(tag, reason);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.is_exhausted && self.in_flight == 0
    }

    fn owed(&self) -> Option<u64> {
        (self.in_flight > 0).then_some(self.answers)
    }

    fn unanswered(&self) -> String {
        let plural = if self.published == 1 { "" } else { "s" };
        format!("{} of {} message{plural} not acknowledged", self.in_flight, self.published)
    }

    fn act(&mut self, port: &mut Port<'_>) -> Result<(), Error> {
        self.due_us = None;
        while !self.is_exhausted
            && port.pending() < OUTPUT_BYTES_MAX
            && self.in_flight < self.in_flight_max
            && port.can_publish(self.qos)
        {
            match self.source.next(port.now_us)? {
                Next::Message(payload) => self.publish(&payload, port)?,
                Next::Wait(due_us) => {
                    self.due_us = due_us;
                    break;
                }
                Next::End => self.is_exhausted = true,
            }
        }
        Ok(())
    }

    fn turn_end(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn poll_timeout(&self) -> Option<u64> {
        self.due_us
    }
}
