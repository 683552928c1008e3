//! One connection on a reactor.

use crate::{Address, Error};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;
use weir_client::Client;
use weir_reactor::{Closed, Io, Token, Transport, now_us};
use weir_say::noteln;
use weir_transport::TransportError;
use weir_transport::tls::{NOT_TRUSTED, OTHER_NAME};
use weir_wire::ReasonCode;

/// How long the broker may take to accept the connection, to answer CONNECT or a PINGREQ, and to
/// read on.
pub const ANSWER_MAX_US: u64 = 20_000_000;

/// How long until `due_us`.
pub fn until(due_us: u64) -> Duration {
    Duration::from_micros(due_us.saturating_sub(now_us()))
}

/// What a connection carries: a client, and what its owner has open on it.
pub trait Carried {
    /// Whether the broker has accepted the client.
    fn is_live(&self) -> bool;

    /// A live connection was lost; [`Carried::forget`] follows.
    fn lost(&mut self) {}

    /// There is no connection any more.
    fn forget(&mut self);
}

impl Carried for Client {
    fn is_live(&self) -> bool {
        Self::is_live(self)
    }

    fn forget(&mut self) {
        self.closed();
    }
}

/// When and how to connect.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What carries MQTT.
    pub transport: Transport,
    /// Where the connection comes from, if the system is not to choose.
    pub source: Option<IpAddr>,
    /// A connection that once worked is made again.
    pub comes_back: bool,
    /// Rests between two tries to connect again, in microseconds: each is twice the one before.
    pub rests_us: RangeInclusive<u64>,
    /// Nothing is said of losses.
    pub is_quiet: bool,
    /// The options by which the user said where the broker is.
    pub options: &'static str,
    /// Those of whom to trust, and of not checking the host.
    pub tls_options: [&'static str; 2],
}

/// As `weir pub` and others have them.
pub const TLS_OPTIONS: [&str; 2] = ["--cafile", "--insecure"];

/// A connection, or the wait for the next one. `E` is its owner's error.
#[derive(Debug)]
pub struct Connection<'a, E> {
    address: &'a Address,
    policy: Policy,
    addresses: Vec<SocketAddr>,
    /// How many of the addresses were tried.
    tried: usize,
    token: Option<Token>,
    /// When the broker's silence is taken for its end.
    answer_due_us: Option<u64>,
    connect_again_us: Option<u64>,
    rest_us: u64,
    has_worked: bool,
    /// How it is over, once it is.
    pub end: Option<Result<(), E>>,
}

impl<'a, E: From<Error>> Connection<'a, E> {
    /// Not begun yet.
    pub fn new(address: &'a Address, policy: Policy) -> Self {
        Self {
            address,
            rest_us: *policy.rests_us.start(),
            policy,
            addresses: Vec::new(),
            tried: 0,
            token: None,
            answer_due_us: None,
            connect_again_us: None,
            has_worked: false,
            end: None,
        }
    }

    /// Begins to connect.
    ///
    /// # Errors
    /// The host has no address.
    pub fn begin(&mut self, io: &mut Io, carried: &mut impl Carried) -> Result<(), Error> {
        self.addresses = self.address.resolve(self.policy.source)?;
        self.connect(io, carried);
        Ok(())
    }

    /// The socket, while there is one.
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// The owner ends the socket itself, and hears no more of it.
    pub fn take_token(&mut self) -> Option<Token> {
        self.answer_due_us = None;
        self.token.take()
    }

    /// When [`Connection::handle_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<u64> {
        [self.answer_due_us, self.connect_again_us].into_iter().flatten().min()
    }

    /// Does what has become due.
    pub fn handle_timeout(&mut self, io: &mut Io, carried: &mut impl Carried, now_us: u64) {
        let is_due = |due_us: Option<u64>| due_us.is_some_and(|due_us| due_us <= now_us);
        if is_due(self.answer_due_us) {
            let cause = format!("no answer within {} s", ANSWER_MAX_US / 1_000_000);
            if carried.is_live() {
                self.lost(io, carried, cause);
            } else {
                self.failed(io, carried, cause);
            }
        }
        if is_due(self.connect_again_us) {
            self.connect(io, carried);
        }
    }

    /// The broker owes an answer from now on.
    pub fn expect_answer(&mut self, now_us: u64) {
        self.answer_due_us.get_or_insert(now_us + ANSWER_MAX_US);
    }

    /// The broker owes nothing.
    pub fn answered(&mut self) {
        self.answer_due_us = None;
    }

    /// The connection does what it is for. Says whether it is the first that does.
    pub fn works(&mut self) -> bool {
        self.rest_us = *self.policy.rests_us.start();
        !std::mem::replace(&mut self.has_worked, true)
    }

    /// From now on a connection that is lost is not made again.
    pub fn stay_away(&mut self) {
        self.policy.comes_back = false;
    }

    /// Begins to connect to the next address.
    fn connect(&mut self, io: &mut Io, carried: &mut impl Carried) {
        self.connect_again_us = None;
        let begun = match &self.address.socket {
            Some(path) => io.connect_unix(&self.policy.transport, path),
            None => {
                let address = self.addresses[self.tried];
                io.connect(&self.policy.transport, address, self.policy.source)
            }
        };
        self.tried += 1;
        match begun {
            Ok(token) => {
                self.token = Some(token);
                self.expect_answer(now_us());
            }
            Err(error) => self.failed(io, carried, error.to_string()),
        }
    }

    /// No connection came about.
    fn failed(&mut self, io: &mut Io, carried: &mut impl Carried, cause: String) {
        self.try_next(io, carried, self.address.unreachable(cause));
    }

    fn try_next(&mut self, io: &mut Io, carried: &mut impl Carried, error: Error) {
        self.drop_socket(io, carried);
        if self.tried < self.addresses.len() {
            return self.connect(io, carried);
        }
        self.give_up(error, false);
    }

    /// The connection, which was there, is gone or is to be given up.
    pub fn lost(&mut self, io: &mut Io, carried: &mut impl Carried, cause: String) {
        let address = self.address.to_string();
        self.lost_by(io, carried, Error::Lost { address, cause });
    }

    /// There is no room for what the broker sends. The connection is ended in good order, after
    /// what was written, and made again: the broker that keeps the session sends the rest there.
    pub fn renew(&mut self, io: &mut Io, carried: &mut impl Carried) {
        if let Some(token) = self.token.take() {
            io.close(token);
        }
        self.drop_socket(io, carried);
        self.give_up(Error::Full { address: self.address.to_string() }, true);
    }

    fn lost_by(&mut self, io: &mut Io, carried: &mut impl Carried, error: Error) {
        carried.lost();
        self.drop_socket(io, carried);
        self.give_up(error, true);
    }

    /// Ends for good.
    pub fn fail(&mut self, io: &mut Io, carried: &mut impl Carried, error: impl Into<E>) {
        self.drop_socket(io, carried);
        self.end = Some(Err(error.into()));
    }

    /// CONNACK refused the client.
    pub fn refused(
        &mut self,
        io: &mut Io,
        carried: &mut impl Carried,
        reason: ReasonCode,
        why: Option<String>,
    ) {
        let address = self.address.to_string();
        let error = Error::Refused { address, reason, why };
        if self.has_worked && passes(reason) {
            self.try_next(io, carried, error);
        } else {
            self.fail(io, carried, error);
        }
    }

    /// DISCONNECT came from the broker.
    pub fn disconnected(
        &mut self,
        io: &mut Io,
        carried: &mut impl Carried,
        reason: ReasonCode,
        why: Option<String>,
    ) {
        let address = self.address.to_string();
        let error = Error::Disconnected { address, reason, why };
        if passes(reason) {
            self.lost_by(io, carried, error);
        } else {
            self.fail(io, carried, error);
        }
    }

    /// The reactor says that a socket has ended.
    pub fn closed(&mut self, io: &mut Io, carried: &mut impl Carried, token: Token, cause: Closed) {
        if self.token != Some(token) {
            return;
        }
        self.token = None;
        if self.end.is_some() {
            return;
        }
        let is_live = carried.is_live();
        let hint = if is_live { "" } else { crate::tls::hint(self.address.scheme) };
        let cause = match cause {
            Closed::ByPeer if is_live => "it closed the connection".into(),
            Closed::ByPeer => {
                format!("it closed the connection without an answer to CONNECT{hint}")
            }
            Closed::Transport(error) => shown(error, self.policy.tls_options),
            Closed::Error(errno) => match std::io::Error::from(errno) {
                error if error.kind() == ErrorKind::ConnectionRefused && !is_live => {
                    format!("nothing listens there (see {})", self.policy.options)
                }
                error => format!("{error}{hint}"),
            },
        };
        if is_live {
            self.lost(io, carried, cause);
        } else {
            self.failed(io, carried, cause);
        }
    }

    /// Ends, or waits and tries again if it once worked.
    fn give_up(&mut self, error: Error, was_live: bool) {
        if !self.has_worked || !self.policy.comes_back {
            self.end = Some(Err(error.into()));
            return;
        }
        // A rest that does not grow is not worth a line each time.
        let is_news = was_live || self.rest_us > *self.policy.rests_us.start();
        if is_news && !self.policy.is_quiet {
            noteln!("weir: {error}; connecting again in {} ms", self.rest_us / 1000);
        }
        self.tried = 0;
        self.connect_again_us = Some(now_us() + self.rest_us);
        self.rest_us = (2 * self.rest_us).min(*self.policy.rests_us.end());
    }

    fn drop_socket(&mut self, io: &mut Io, carried: &mut impl Carried) {
        self.answer_due_us = None;
        carried.forget();
        if let Some(token) = self.token.take() {
            io.abort(token);
        }
    }
}

/// With what to do about it.
fn shown(error: TransportError, [trust, host]: [&str; 2]) -> String {
    match error {
        TransportError::Refused(NOT_TRUSTED) => format!("{error} (see {trust})"),
        TransportError::Refused(OTHER_NAME) => format!("{error} (see {host})"),
        error => error.to_string(),
    }
}

/// Whether a refusal or an end may pass, so that another try is worth it.
const fn passes(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::ServerUnavailable
            | ReasonCode::ServerBusy
            | ReasonCode::ServerShuttingDown
            | ReasonCode::KeepAliveTimeout
            | ReasonCode::MessageRateTooHigh
            | ReasonCode::QuotaExceeded
            | ReasonCode::ConnectionRateExceeded
            | ReasonCode::MaximumConnectTime
    )
}
