//! The engine of `weir flow` for another program: one connection, and work that the program brings.
//!
//! It subscribes to one filter, has no session and does not reconnect. Called by the benchmark of
//! client stacks, which measures the engine with work that no flow file can express.

use crate::Error;
use crate::control::{Control, Notice};
use crate::counts::Count;
use crate::options::Settings;
use crate::subscriptions::Subscription;
use crate::work::Work;
use crate::worker::Worker;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use weir_connection::Address;
use weir_reactor::Transport;
use weir_wire::topic::TopicFilter;
use weir_wire::{QoS, Version};

/// The connection.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The broker's host.
    pub host: String,
    /// The broker's port.
    pub port: u16,
    /// Who it is.
    pub client_id: String,
    /// What it subscribes to.
    pub filter: String,
    /// The highest QoS of messages and of results, 0 or 1.
    pub qos: QoS,
    /// As `--gather-us` of `weir flow run`.
    pub gather_us: u32,
}

impl EmbeddedOptions {
    /// `--gather-us` of `weir flow run`, unless it is given.
    pub const GATHER_US: u32 = Settings::GATHER_US;
}

/// A flow that has not begun.
#[derive(Debug)]
pub struct Embedded {
    settings: Settings,
    control: Arc<Control>,
    told: Receiver<Notice>,
}

/// Watches and ends a flow, from any thread.
#[derive(Clone, Debug)]
pub struct EmbeddedHandle(Arc<Control>);

/// What a flow has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbeddedCounts {
    /// Messages that came in.
    pub received: u64,
    /// Messages that the work matched.
    pub matched: u64,
    /// Results written to the broker.
    pub published: u64,
    /// Messages and results that something was wrong with, and lost connections.
    pub failed: u64,
}

impl Embedded {
    /// # Errors
    /// A filter that is none; what the system says of eventfd.
    pub fn new(options: EmbeddedOptions) -> Result<Self, Error> {
        let EmbeddedOptions { host, port, client_id, filter, qos, gather_us } = options;
        let parsed = TopicFilter::parse(&filter)
            .ok_or_else(|| Error::option("filter", "it must be a topic filter"))?;
        let (group, filter) = (parsed.group.map(str::to_owned), parsed.filter.to_owned());
        let settings = Settings {
            address: Address::plain(host, port),
            transport: Transport::Plain,
            version: Version::V311,
            client_id,
            threads: 1,
            is_session_kept: false,
            session_expiry_s: 0,
            keep_alive_s: 60,
            in_flight_max: Settings::IN_FLIGHT_MAX,
            gather_us: gather_us.into(),
            subscriptions: vec![Subscription { group, filter, qos }],
            publishes: (qos, false),
            comes_back: false,
            is_quiet: false,
        };
        let (control, told) = Control::new(settings.threads)?;
        Ok(Self { settings, control, told })
    }

    /// To watch and end it.
    pub fn handle(&self) -> EmbeddedHandle {
        EmbeddedHandle(Arc::clone(&self.control))
    }

    /// Runs until it is stopped; `ready` is called once it is subscribed.
    ///
    /// # Errors
    /// No connection, a refusal, a connection that was lost, results left open at the end.
    pub fn run(self, work: impl Work + Send, ready: impl FnOnce()) -> Result<(), Error> {
        let Self { settings, control, told } = &self;
        let mut ready = Some(ready);
        std::thread::scope(|scope| {
            let serve = move || {
                let (result, rules) = Worker::new(settings, control, 0, work).run();
                control.tell(Notice::Ended(result, rules));
            };
            std::thread::Builder::new().name("client".into()).spawn_scoped(scope, serve)?;
            loop {
                match told.recv() {
                    Ok(Notice::Ready) => drop(ready.take().map(|ready| ready())),
                    Ok(Notice::Ended(result, _)) => return result,
                    Err(_) => return Ok(()),
                }
            }
        })
    }
}

impl EmbeddedHandle {
    /// Ends it in good order.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// As of the end of its last turn.
    pub fn counts(&self) -> EmbeddedCounts {
        let counts = self.0.counts();
        let failures =
            [Count::Refused, Count::Invalid, Count::TooLarge, Count::Overflowed, Count::Lost];
        EmbeddedCounts {
            received: counts.of(Count::Received),
            matched: counts.of(Count::Matched),
            published: counts.of(Count::Published),
            failed: failures.into_iter().map(|count| counts.of(count)).sum(),
        }
    }
}
