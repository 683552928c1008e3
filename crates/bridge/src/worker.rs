//! A bridge on its thread: connects, gives up, rests, and connects again. What goes through it is
//! [`Relay`]'s.

use crate::backoff::{Backoff, Turn};
use crate::counts::Shared;
use crate::relay::{Broken, Errand, News, Relay};
use crate::settings::{Dialect, Remote, Settings, Start};
use crate::side::{Port, Stale};
use crate::topics::End;
use crate::{Inlet, Prepared};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_connection::{ANSWER_MAX_US, Carried, Connection, Error, Policy, until};
use weir_reactor::{Closed, Handler, Io, Moved, Reactor, Token, Transport, Waker, now_us};
use weir_wire::ReasonCode;

/// How often the first place is tried while another is in use.
const FIRST_AGAIN_US: u64 = 30_000_000;

/// What a bridge is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// To relay, until the end is asked for.
    Relay,
    /// To take its subscriptions in the local broker back, once, as far as that is possible now.
    Leave,
}

/// What a bridge does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Its session is made in the local broker.
    Prepare,
    /// It waits for messages there.
    Watch,
    /// It connects to the remote broker, and then to the local one again.
    Connect,
    /// It relays, since then.
    Relay { since_us: u64 },
    /// It does nothing until then.
    Rest { until_us: u64 },
}

/// One bridge.
pub(crate) struct Worker<'a> {
    settings: &'a Settings,
    shared: &'a Shared,
    is_stopping: &'a AtomicBool,
    inlet: &'a dyn Inlet,
    job: Job,
    /// It has done its job.
    is_done: bool,
    relay: Relay,
    phase: Phase,
    /// Whether its session in the local broker has been made.
    is_prepared: bool,
    /// Until that was tried.
    prepared: Option<Arc<Prepared>>,
    local: Option<Token>,
    /// When the local broker's silence is taken for its end.
    local_due_us: Option<u64>,
    remote: Option<Connection<'a, Error>>,
    turn: Turn,
    backoff: Backoff,
    /// Of the settings' dialects.
    dialect: usize,
    /// How many of them the remote broker has refused by a word.
    refused: usize,
    /// CONNECT was written to the remote broker.
    has_greeted: bool,
    /// A look whether the first place is there again.
    probe: Option<Token>,
    probe_due_us: Option<u64>,
}

/// Where both clients' bytes go.
struct Ways<'a> {
    io: &'a mut Io,
    local: Option<Token>,
    remote: Option<Token>,
}

impl Ways<'_> {
    fn token(&self, end: End) -> Option<Token> {
        match end {
            End::Local => self.local,
            End::Remote => self.remote,
        }
    }
}

impl Port for Ways<'_> {
    #[inline]
    fn write(&mut self, end: End, bytes: &[u8]) {
        if let Some(token) = self.token(end) {
            self.io.write(token, bytes);
        }
    }

    fn pending(&self, end: End) -> usize {
        self.token(end).map_or(0, |token| self.io.pending(token))
    }
}

impl Carried for Relay {
    fn is_live(&self) -> bool {
        Self::is_live(self, End::Remote)
    }

    fn forget(&mut self) {
        Self::forget(self, End::Remote);
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        settings: &'a Arc<Settings>,
        shared: &'a Arc<Shared>,
        is_stopping: &'a AtomicBool,
        (inlet, prepared): (&'a dyn Inlet, Arc<Prepared>),
        (job, stale): (Job, Stale),
    ) -> Self {
        // A hasher of the standard library has keys that nobody knows.
        let seed = RandomState::new().hash_one(&settings.name);
        Self {
            settings,
            shared,
            is_stopping,
            inlet,
            job,
            is_done: false,
            relay: Relay::new(Arc::clone(settings), Arc::clone(shared), stale),
            phase: Phase::Prepare,
            is_prepared: false,
            prepared: Some(prepared),
            local: None,
            local_due_us: None,
            remote: None,
            turn: Turn::new(settings.remotes.len(), settings.is_round_robin),
            backoff: Backoff::new(&settings.retry, seed),
            dialect: 0,
            refused: 0,
            has_greeted: false,
            probe: None,
            probe_due_us: None,
        }
    }

    /// Runs until the end is asked for, or the job is done. Says what is still stale.
    ///
    /// # Errors
    /// What the system says of the thread's reactor.
    pub(crate) fn run(mut self, waker: Waker) -> std::io::Result<Stale> {
        let mut reactor = Reactor::with_waker(waker)?;
        self.open_local(reactor.io(), Errand::Prepare);
        while !self.is_over() {
            self.react(reactor.io());
            let wait = self.poll_timeout().map(until);
            reactor.turn(wait, &mut self)?;
        }
        self.leave(reactor.io());
        // The reactor cuts what lingers too long.
        while reactor.io().connections() > 0 {
            reactor.turn(None, &mut self)?;
        }
        Ok(self.relay.into_stale())
    }

    fn is_over(&self) -> bool {
        self.is_done || self.is_stopping.load(Ordering::Acquire)
    }

    fn place(&self) -> &'a Remote {
        &self.settings.remotes[self.turn.at()]
    }

    fn remote_token(&self) -> Option<Token> {
        self.remote.as_ref().and_then(Connection::token)
    }

    fn end_of(&self, token: Token) -> Option<End> {
        if self.local == Some(token) {
            return Some(End::Local);
        }
        (self.remote_token() == Some(token)).then_some(End::Remote)
    }

    fn parts<'b>(&'b mut self, io: &'b mut Io) -> (&'b mut Relay, Ways<'b>) {
        let (local, remote) = (self.local, self.remote_token());
        (&mut self.relay, Ways { io, local, remote })
    }

    fn poll_timeout(&self) -> Option<u64> {
        let idle_us = match (self.phase, self.settings.start) {
            (Phase::Relay { .. }, Start::Lazy { idle, .. }) => {
                Some(self.relay.used_us() + idle.as_micros() as u64)
            }
            _ => None,
        };
        let rest_us = match self.phase {
            Phase::Rest { until_us } => Some(until_us),
            _ => None,
        };
        let connection = self.remote.as_ref().and_then(Connection::poll_timeout);
        let client = self.relay.poll_timeout();
        let dues = [idle_us, rest_us, connection, client, self.local_due_us, self.probe_due_us];
        dues.into_iter().flatten().min()
    }

    fn open_local(&mut self, io: &mut Io, errand: Errand) {
        let opened = self.inlet.connect().and_then(Moved::try_from).and_then(|it| io.adopt(it));
        match opened {
            Ok(token) => {
                self.local = Some(token);
                let now_us = now_us();
                self.local_due_us = Some(now_us + ANSWER_MAX_US);
                let (relay, mut ways) = self.parts(io);
                relay.open_local(errand, now_us, &mut ways);
            }
            Err(error) => self.lost(io, &format!("no way into the own broker: {error}")),
        }
    }

    /// Connects to the remote broker.
    fn open_remote(&mut self, io: &mut Io) {
        (self.phase, self.has_greeted) = (Phase::Connect, false);
        let place = self.place();
        let policy = Policy {
            transport: place.transport.clone(),
            source: None,
            // Each try is a connection of its own.
            comes_back: false,
            rests_us: 0..=0,
            is_quiet: true,
            options: "addresses in [[bridge]]",
            tls_options: ["ca in [bridge.tls]", "insecure in [bridge.tls]"],
        };
        self.relay.speak(self.settings.dialects[self.dialect]);
        let mut remote = Connection::new(&place.address, policy);
        let begun = remote.begin(io, &mut self.relay);
        self.remote = Some(remote);
        if let Err(error) = begun {
            self.failed(io, &error.to_string());
        }
    }

    /// What has happened is followed by what it asks for.
    fn react(&mut self, io: &mut Io) {
        while let Some(news) = self.relay.take_news() {
            self.hear(io, news);
        }
        if let Some(Some(Err(error))) = self.remote.as_mut().map(|remote| remote.end.take()) {
            self.ended(io, &error);
        }
    }

    fn hear(&mut self, io: &mut Io, news: News) {
        match news {
            News::Live(End::Local) => {
                self.local_due_us = None;
                if let (Phase::Connect, Some(token)) = (self.phase, self.remote_token()) {
                    self.read_on(io, token);
                }
            }
            News::Live(End::Remote) => {
                if let Some(remote) = &mut self.remote {
                    remote.answered();
                }
                if let Some(token) = self.remote_token() {
                    io.pause(token);
                }
                self.open_local(io, Errand::Relay);
            }
            News::Ready => self.ready(io),
            News::Waits => {
                self.leave_local(io);
                self.open_remote(io);
            }
            News::NotSpoken(dialect) => {
                self.refused = self.dialect + 1;
                self.not_spoken(io, dialect);
            }
            News::Broken(End::Local, Broken::Disconnected(ReasonCode::ServerShuttingDown, _)) => {
                self.leave(io);
                self.phase = Phase::Rest { until_us: u64::MAX };
            }
            News::Broken(end, broken) => {
                let text = self.text_of(end, &broken);
                self.lost(io, &text);
            }
            News::Full => {
                tracing::debug!(bridge = self.settings.name, "connecting anew for more room");
                self.leave(io);
                self.open_remote(io);
            }
            News::Complaint(text) => tracing::warn!(bridge = self.settings.name, "{text}"),
        }
    }

    fn ready(&mut self, io: &mut Io) {
        match self.phase {
            Phase::Prepare => {
                (self.is_prepared, self.prepared) = (true, None);
                self.leave_local(io);
                match self.job {
                    Job::Relay => self.begin(io),
                    Job::Leave => self.is_done = true,
                }
            }
            Phase::Connect => {
                let now_us = now_us();
                self.phase = Phase::Relay { since_us: now_us };
                self.turn.worked();
                self.probe_due_us = self.turn.is_second_best().then_some(now_us + FIRST_AGAIN_US);
                let (remote, dialect) = (self.place().address.to_string(), self.dialect_now());
                self.shared.connected(&remote);
                tracing::info!(bridge = self.settings.name, remote, %dialect, "bridge connected");
            }
            Phase::Watch | Phase::Relay { .. } | Phase::Rest { .. } => {}
        }
    }

    fn dialect_now(&self) -> Dialect {
        self.settings.dialects[self.dialect]
    }

    /// After its session is made, or it has been idle.
    fn begin(&mut self, io: &mut Io) {
        match self.settings.start {
            Start::Automatic => self.open_remote(io),
            Start::Lazy { .. } => {
                self.phase = Phase::Watch;
                self.open_local(io, Errand::Watch);
            }
        }
    }

    /// The remote broker does not speak that: another way of saying it is tried at once.
    fn not_spoken(&mut self, io: &mut Io, dialect: Dialect) {
        let next = self.settings.dialects.get(self.dialect + 1).copied();
        self.drop_both(io);
        let Some(next) = next else {
            (self.dialect, self.refused) = (0, 0);
            return self.rest(&format!("{} does not speak {dialect}", self.place().address));
        };
        let (bridge, remote) = (&self.settings.name, self.place().address.to_string());
        tracing::warn!(bridge, remote, "the remote broker refuses {dialect}; trying {next}");
        if next == Dialect::V311 {
            let both = "messages of topics with direction \"both\" come back once";
            tracing::warn!(bridge, remote, "it sends a bridge what it has published: {both}");
        }
        self.dialect += 1;
        self.open_remote(io);
    }

    fn text_of(&self, end: End, broken: &Broken) -> String {
        let who = match end {
            End::Local => "the own broker".to_owned(),
            End::Remote => self.place().address.to_string(),
        };
        broken.said_of(&who)
    }

    /// The connection to the remote broker has ended by itself, or never came about.
    fn ended(&mut self, io: &mut Io, error: &Error) {
        let is_new = matches!(error, Error::Unreachable { .. });
        // There are brokers that end a connection at a number that they do not know.
        if is_new && self.has_greeted && self.dialect_now() == Dialect::Bridge311 {
            return self.not_spoken(io, Dialect::Bridge311);
        }
        if is_new { self.failed(io, &error.to_string()) } else { self.lost(io, &error.to_string()) }
    }

    /// A place does not answer.
    fn failed(&mut self, io: &mut Io, error: &str) {
        self.drop_both(io);
        let place = self.place().address.to_string();
        if self.turn.failed() {
            self.shared.failed(&place, error);
            tracing::warn!(bridge = self.settings.name, "{error}; trying the next address");
            return self.open_remote(io);
        }
        self.rest(error);
    }

    /// What there was is to be given up.
    fn lost(&mut self, io: &mut Io, error: &str) {
        let was = self.phase;
        self.drop_both(io);
        match was {
            Phase::Relay { since_us } => {
                self.backoff.lasted(now_us().saturating_sub(since_us));
                // It may only have seemed to refuse the others.
                self.dialect = self.refused;
                self.rest(error);
                self.turn.lost();
            }
            Phase::Connect => self.failed(io, error),
            Phase::Prepare | Phase::Watch | Phase::Rest { .. } => self.rest(error),
        }
    }

    /// Waits before it tries again.
    fn rest(&mut self, error: &str) {
        self.prepared = None;
        if self.job == Job::Leave {
            tracing::warn!(bridge = self.settings.name, "{error}; its subscriptions stay");
            self.is_done = true;
            return;
        }
        let rest = self.backoff.rest();
        self.shared.failed(&self.place().address.to_string(), error);
        let again_ms = rest.as_millis();
        tracing::warn!(bridge = self.settings.name, "{error}; trying again in {again_ms} ms");
        self.phase = Phase::Rest { until_us: now_us() + rest.as_micros() as u64 };
    }

    /// At once and without a word: so wills say that the bridge is gone.
    fn drop_both(&mut self, io: &mut Io) {
        self.shared.disconnected();
        let remote = self.remote.take().and_then(|mut remote| remote.take_token());
        for token in [self.local.take(), remote, self.probe.take()].into_iter().flatten() {
            io.abort(token);
        }
        (self.local_due_us, self.probe_due_us) = (None, None);
        self.relay.forget(End::Local);
        self.relay.forget(End::Remote);
        while self.relay.take_news().is_some() {}
    }

    fn leave_local(&mut self, io: &mut Io) {
        let (relay, mut ways) = self.parts(io);
        relay.leave(End::Local, &mut ways);
        self.local_due_us = None;
        if let Some(token) = self.local.take() {
            io.close(token);
        }
    }

    /// Ends both connections in good order.
    fn leave(&mut self, io: &mut Io) {
        let (relay, mut ways) = self.parts(io);
        if relay.is_live(End::Remote) {
            relay.leave(End::Remote, &mut ways);
        }
        if let Some(token) = self.remote.take().and_then(|mut remote| remote.take_token()) {
            io.close(token);
        }
        self.drop_both(io);
    }

    fn read_on(&mut self, io: &mut Io, token: Token) {
        io.resume(token);
        let bytes = io.take_kept(token);
        if !bytes.is_empty() {
            let consumed = self.received(io, token, &bytes);
            if consumed < bytes.len() {
                io.keep(token, &bytes[consumed..]);
            }
        }
    }

    /// Does what has become due.
    fn handle_timeout(&mut self, io: &mut Io, now_us: u64) {
        let is_due = |due_us: Option<u64>| due_us.is_some_and(|due_us| due_us <= now_us);
        if let Some(remote) = &mut self.remote {
            remote.handle_timeout(io, &mut self.relay, now_us);
        }
        let (relay, mut ways) = self.parts(io);
        if relay.handle_timeout(now_us, &mut ways)
            && let Some(remote) = &mut self.remote
        {
            remote.expect_answer(now_us);
        }
        if is_due(self.local_due_us) {
            self.lost(io, "the own broker does not answer");
        }
        match (self.phase, self.settings.start) {
            (Phase::Rest { until_us }, _) if until_us <= now_us => self.try_again(io),
            (Phase::Relay { .. }, Start::Lazy { idle, .. })
                if self.relay.used_us() + idle.as_micros() as u64 <= now_us
                    && self.relay.is_settled() =>
            {
                tracing::info!(bridge = self.settings.name, "bridge idle: disconnected");
                self.leave(io);
                self.begin(io);
            }
            _ => {}
        }
        if is_due(self.probe_due_us) {
            self.probe(io, now_us);
        }
    }

    fn try_again(&mut self, io: &mut Io) {
        if self.is_prepared {
            self.open_remote(io);
        } else {
            self.phase = Phase::Prepare;
            self.open_local(io, Errand::Prepare);
        }
    }

    /// Looks whether the first place is there again.
    fn probe(&mut self, io: &mut Io, now_us: u64) {
        self.probe_due_us = Some(now_us + FIRST_AGAIN_US);
        if let Some(token) = self.probe.take() {
            io.abort(token);
        }
        let first = &self.settings.remotes[0].address;
        let place = first.resolve(None).ok().and_then(|found| found.first().copied());
        let begun = place.map(|place| io.connect(&Transport::Plain, place, None));
        self.probe = begun.and_then(Result::ok);
    }

    /// The first place is there again.
    fn go_back(&mut self, io: &mut Io) {
        tracing::info!(bridge = self.settings.name, "the first address answers: going back to it");
        self.leave(io);
        self.turn.lost();
        self.open_remote(io);
    }
}

impl Handler for Worker<'_> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        if self.probe == Some(token) {
            return self.go_back(io);
        }
        self.has_greeted = true;
        let now_us = now_us();
        let (relay, mut ways) = self.parts(io);
        relay.open_remote(now_us, &mut ways);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let Some(end) = self.end_of(token) else { return bytes.len() };
        if let (End::Remote, true, Some(remote)) =
            (end, self.relay.is_live(End::Remote), &mut self.remote)
        {
            // Part of a long packet is an answer too.
            remote.answered();
        }
        let now_us = io.turn_us();
        let (relay, mut ways) = self.parts(io);
        let consumed = relay.received(end, bytes, now_us, &mut ways);
        self.react(io);
        if self.end_of(token).is_some() { consumed } else { bytes.len() }
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        if self.probe == Some(token) {
            self.probe = None;
            return;
        }
        match self.end_of(token) {
            Some(End::Local) => {
                self.local = None;
                self.lost(io, &format!("the own broker has closed the connection ({cause:?})"));
            }
            Some(End::Remote) => {
                if let Some(remote) = &mut self.remote {
                    remote.closed(io, &mut self.relay, token, cause);
                }
            }
            None => {}
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        if self.is_over() {
            return;
        }
        self.react(io);
        self.handle_timeout(io, io.turn_us());
        self.react(io);
    }
}
