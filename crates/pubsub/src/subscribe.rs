//! `weir sub`: subscribe and print what arrives.

use crate::format::{Format, Target};
use crate::options::{ConnectionArgs, Settings, parse_qos};
use crate::property::{self, Place};
use crate::runner::{OUTPUT_BYTES_MAX, Port, Task, reason_string, run};
use crate::{Error, format};
use clap::Args;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_chance::Chance;
use weir_client::Event;
use weir_connection::{named, obey_signals};
use weir_reactor::Reactor;
use weir_say::noteln;
use weir_wire::packet::{
    Publish, RetainHandling, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf,
};
use weir_wire::topic::TopicFilter;
use weir_wire::{Packet, Properties, QoS, ReasonCode, Version};

/// Subscribe and print messages, with mosquitto_sub's options
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true, args_override_self = true, after_help = after_help())]
pub struct SubArgs {
    /// Topic filter to subscribe to; may be given several times
    #[arg(short, long = "topic", value_name = "FILTER",
        required_unless_present_any = ["url", "unsubscribe"],
        allow_hyphen_values = true)]
    topics: Vec<String>,
    /// Quality of service to ask for: 0, 1 or 2
    #[arg(short, long, value_name = "QOS", default_value = "0", value_parser = parse_qos)]
    qos: QoS,
    /// Exit after this many messages
    #[arg(short = 'C', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Exit after this many seconds, with exit code 27
    #[arg(short = 'W', value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// Exit when the broker has answered all subscriptions
    #[arg(short = 'E')]
    ends_subscribed: bool,
    /// Print the topic before the payload, unless there is a format (-F)
    #[arg(short, long)]
    verbose: bool,
    /// Print no newline after a message
    #[arg(short = 'N')]
    has_no_line_end: bool,
    /// Print each message in this format, such as '%I %t %p'
    #[arg(short = 'F', value_name = "FORMAT", allow_hyphen_values = true)]
    format: Option<Format>,
    /// Print JSON of -F over several lines
    #[arg(long)]
    pretty: bool,
    /// Print only this percentage of the messages, chosen at random: 0.1 to 100; -C counts them all
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = parse_percentage)]
    random_filter: f64,
    /// Skip retained messages
    #[arg(short = 'R')]
    is_without_retained: bool,
    /// Print only retained messages, and exit at the first that is not
    #[arg(long, conflicts_with = "is_without_retained")]
    retained_only: bool,
    /// Have the broker clear each retained message that comes, but for those of -T
    #[arg(long, conflicts_with = "is_without_retained")]
    remove_retained: bool,
    /// Keep the RETAIN flag as published (5.0)
    #[arg(long)]
    retain_as_published: bool,
    /// Skip messages whose topic matches this filter; may be given several times
    #[arg(short = 'T', long = "filter-out", value_name = "FILTER", allow_hyphen_values = true)]
    filters_out: Vec<String>,
    /// Topic filter to unsubscribe from; may be given several times
    #[arg(short = 'U', long, value_name = "FILTER", allow_hyphen_values = true)]
    unsubscribe: Vec<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

fn parse_percentage(text: &str) -> Result<f64, &'static str> {
    let percentage = text.parse().ok().filter(|percentage| (0.1..=100.0).contains(percentage));
    percentage.ok_or("it must be a percentage from 0.1 to 100")
}

fn after_help() -> String {
    format!(
        "It runs until Ctrl-C, -C or -W, and reconnects if the connection is lost.\n\n\
         {}\n\n{}\n\nExit codes:\n  0 ended as asked; 1 failed or refused; 2 wrong options; \
         27 the time of -W is up, or no\n  answer in time\n\nExamples:\n  \
         weir sub -t 'sensors/#' -v\n  weir sub -t jobs -q 1 -c -i worker-1\n  \
         weir sub -t ask -C 1 -W 10 -F '%R %P %p'",
        format::help(),
        property::help()
    )
}

impl SubArgs {
    /// Whether to say nothing of an error.
    pub const fn is_quiet(&self) -> bool {
        self.connection.quiet
    }
}

/// Subscribes as the options say and prints to standard output.
///
/// # Errors
/// Options that cannot be used, no connection, a refusal, the time of `-W`.
pub fn subscribe(args: &SubArgs) -> Result<(), Error> {
    let settings = Settings::new(&args.connection)?;
    let mut reactor = Reactor::new()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, waker) = (Arc::clone(&stop), reactor.waker());
    obey_signals(move || {
        let was_asked = flag.swap(true, Ordering::Release);
        waker.wake();
        was_asked
    })?;
    let mut subscriber = Subscriber::new(args, &settings)?;
    let result = run(&mut reactor, &settings, &mut subscriber, args.timeout, &stop);
    // What is known by now matters more than that it could not be printed.
    result.and(subscriber.flush()).and(subscriber.verdict())
}

struct Subscriber<'a> {
    filters: Vec<String>,
    options: SubscriptionOptions,
    unsubscribe: &'a [String],
    filters_out: &'a [String],
    subscribe_properties: Properties<'a>,
    unsubscribe_properties: Properties<'a>,
    format: Format,
    target: Target,
    /// Chooses what is printed, and how much of it is.
    chance: (Chance, f64),
    /// Messages still to be printed, if they are counted.
    left: Option<u64>,
    ends_subscribed: bool,
    is_quiet: bool,
    retained_only: bool,
    /// Older versions cannot ask the broker to leave retained messages out.
    skips_retained: bool,
    /// What is done with retained messages that came, if anything.
    clearing: Option<Clearing>,
    /// CONNACK came, and nothing is subscribed yet.
    is_due: bool,
    /// Answers that have not come.
    awaited: u8,
    /// Answers that have come.
    answers: u64,
    is_done: bool,
    error: Option<Error>,
    /// Reason string of the last packet.
    why: Option<String>,
    out: BufWriter<StdoutLock<'static>>,
}

impl<'a> Subscriber<'a> {
    fn new(args: &'a SubArgs, settings: &'a Settings) -> Result<Self, Error> {
        let url_topic = args.connection.url.as_ref().and_then(|url| url.topic.clone());
        let filters: Vec<_> = url_topic.into_iter().chain(args.topics.iter().cloned()).collect();
        if filters.is_empty() && args.unsubscribe.is_empty() {
            return Err(Error::option("-t", "", "a topic is needed, here or in the URL"));
        }
        let named = [("-t", &filters[..]), ("-U", &args.unsubscribe), ("-T", &args.filters_out)];
        for (option, filters) in named {
            if let Some(bad) = filters.iter().find(|filter| TopicFilter::parse(filter).is_none()) {
                return Err(Error::option(option, bad, NOT_A_FILTER));
            }
        }
        let is_v5 = settings.version == Version::V5;
        if args.retain_as_published && !is_v5 {
            return Err(Error::option("--retain-as-published", "", "it needs MQTT 5.0: -V 5"));
        }
        let format = match &args.format {
            Some(format) => format.clone(),
            None if args.verbose => Format::Verbose,
            None => Format::Payload,
        };
        let retain_handling =
            if args.is_without_retained { RetainHandling::DontSend } else { RetainHandling::Send };
        Ok(Self {
            filters,
            options: SubscriptionOptions {
                qos: args.qos,
                no_local: false,
                retain_as_published: args.retain_as_published,
                retain_handling,
            },
            unsubscribe: &args.unsubscribe,
            filters_out: &args.filters_out,
            subscribe_properties: settings.properties.of(Place::Subscribe),
            unsubscribe_properties: settings.properties.of(Place::Unsubscribe),
            format,
            target: Target {
                is_terminal: io::stdout().is_terminal(),
                is_pretty: args.pretty,
                has_no_line_end: args.has_no_line_end,
            },
            chance: (Chance::new(RandomState::new().hash_one("random")), args.random_filter),
            left: args.count,
            ends_subscribed: args.ends_subscribed,
            is_quiet: args.connection.quiet,
            retained_only: args.retained_only,
            skips_retained: args.is_without_retained && !is_v5,
            clearing: args.remove_retained.then(Clearing::default),
            is_due: false,
            awaited: 0,
            answers: 0,
            is_done: false,
            error: None,
            why: None,
            out: BufWriter::new(io::stdout().lock()),
        })
    }

    fn message(&mut self, message: &Publish<'_>) {
        // It came while the broker still has retained messages to clear.
        if self.is_done {
            return;
        }
        if self.retained_only && !message.retain {
            self.is_done = true;
            return;
        }
        let is_filtered = |filter: &String| {
            TopicFilter::parse(filter).is_some_and(|filter| filter.matches(message.topic))
        };
        if self.skips_retained && message.retain || self.filters_out.iter().any(is_filtered) {
            return;
        }
        if let Some(clearing) = self.clearing.as_mut().filter(|_| message.retain) {
            clearing.due.push_back(message.topic.into());
        }
        let (chance, percentage) = &mut self.chance;
        if *percentage == 100.0 || 100.0 * chance.unit() < *percentage {
            let printed = self.format.print(message, Timestamp::now(), self.target, &mut self.out);
            self.printed(printed);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
            self.is_done |= *left == 0;
        }
    }

    fn printed(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => {}
            // Who reads has seen enough, as `head` does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_done = true,
            Err(error) => {
                self.error = Some(Error::File { what: "standard output".into(), error });
            }
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.out.flush();
        self.printed(flushed);
        self.error.take().map_or(Ok(()), Err)
    }

    /// What has to be said at the end of retained messages that could not be cleared.
    fn verdict(&mut self) -> Result<(), Error> {
        let Some(Clearing { refused, sent: published, first_refusal, .. }) = self.clearing.take()
        else {
            return Ok(());
        };
        match first_refusal {
            Some((reason, why)) => Err(Error::NotPublished { refused, published, reason, why }),
            None => Ok(()),
        }
    }

    fn subscribed(&mut self, codes: &[u8]) {
        let reason = |code: u8| ReasonCode::from_u8(code).unwrap_or(ReasonCode::UnspecifiedError);
        let answered = self.filters.iter().zip(codes.iter().map(|&code| reason(code)));
        let refused: Vec<_> = answered.filter(|(_, reason)| reason.is_error()).collect();
        if refused.len() == self.filters.len()
            && let Some(&(filter, reason)) = refused.first()
        {
            let (filter, why) = (filter.clone(), self.why.take());
            self.error = Some(Error::NotSubscribed { filter, reason, why });
        } else if !self.is_quiet {
            for (filter, reason) in refused {
                let reason = named(reason, self.why.as_deref());
                noteln!("weir: the broker refused to subscribe to {filter}: {reason}");
            }
        }
    }

    fn answered(&mut self) {
        self.awaited = self.awaited.saturating_sub(1);
        self.answers += 1;
        self.is_done |= self.ends_subscribed && self.awaited == 0;
    }
}

const NOT_A_FILTER: &str = "no topic filter: + and # stand alone in their level, # last";

impl Task for Subscriber<'_> {
    const CONNECTS_AGAIN: bool = true;

    fn packet(&mut self, packet: &Packet<'_>) {
        self.why = reason_string(packet);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Connected { .. } => {
                self.is_due = true;
                // What is still retained comes again.
                if let Some(clearing) = &mut self.clearing {
                    clearing.due.clear();
                    clearing.in_flight = 0;
                }
            }
            Event::Acknowledged { reason, .. } => {
                self.answers += 1;
                let why = self.why.take();
                if let Some(clearing) = &mut self.clearing {
                    clearing.acknowledged(reason, why);
                }
            }
            Event::Message(message) => self.message(&message),
            Event::Subscribed { codes, .. } => {
                self.subscribed(codes);
                self.answered();
            }
            Event::Unsubscribed { .. } => self.answered(),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.is_done && self.clearing.as_ref().is_none_or(Clearing::is_done) || self.error.is_some()
    }

    fn owed(&self) -> Option<u64> {
        let is_clearing = self.clearing.as_ref().is_some_and(|clearing| clearing.in_flight > 0);
        (self.awaited > 0 || is_clearing).then_some(self.answers)
    }

    fn unanswered(&self) -> String {
        let what = match self.clearing.as_ref().filter(|_| self.awaited == 0) {
            Some(_) => "that retained messages are cleared",
            None => "the subscription",
        };
        format!("{what} is not acknowledged")
    }

    fn act(&mut self, port: &mut Port<'_>) -> Result<(), Error> {
        if std::mem::take(&mut self.is_due) {
            self.subscribe(port);
        }
        if let Some(clearing) = &mut self.clearing {
            clearing.send(port);
        }
        Ok(())
    }

    fn turn_end(&mut self) -> Result<(), Error> {
        self.flush()
    }

    fn poll_timeout(&self) -> Option<u64> {
        None
    }
}

impl Subscriber<'_> {
    fn subscribe(&mut self, port: &mut Port<'_>) {
        self.awaited = 0;
        if !self.filters.is_empty() {
            let mut filters = SubscribeBuf::new();
            self.filters.iter().for_each(|filter| filters.push(filter, self.options));
            port.subscribe(&filters, self.subscribe_properties);
            self.awaited += 1;
        }
        if !self.unsubscribe.is_empty() {
            let mut filters = UnsubscribeBuf::new();
            self.unsubscribe.iter().for_each(|filter| filters.push(filter));
            port.unsubscribe(&filters, self.unsubscribe_properties);
            self.awaited += 1;
        }
    }
}

/// Retained messages that the broker is asked to clear.
#[derive(Debug, Default)]
struct Clearing {
    /// Topics; as many as the broker has sent messages that it keeps.
    due: VecDeque<String>,
    in_flight: u64,
    sent: u64,
    refused: u64,
    first_refusal: Option<(ReasonCode, Option<String>)>,
}

impl Clearing {
    fn is_done(&self) -> bool {
        self.due.is_empty() && self.in_flight == 0
    }

    fn send(&mut self, port: &mut Port<'_>) {
        while port.pending() < OUTPUT_BYTES_MAX
            && port.can_publish(QoS::AtLeastOnce)
            && let Some(topic) = self.due.pop_front()
        {
            self.sent += 1;
            self.in_flight += 1;
            port.publish((&topic, b"", QoS::AtLeastOnce, true), Properties::EMPTY, self.sent)
                .expect("there is room in the window");
        }
    }

    fn acknowledged(&mut self, reason: ReasonCode, why: Option<String>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if reason.is_error() {
            self.refused += 1;
            self.first_refusal.get_or_insert((reason, why));
        }
    }
}
