//! The authentication port: what a shard asks, and what it is answered.
//!
//! The core knows no method and no secret. It asks through [`crate::Sink::authenticate`] and goes
//! on when [`crate::Shard::authenticated`] answers: at once, or later from elsewhere.

use crate::{ConnKey, Micros, OwnRights, Ticket, Voucher};
use std::fmt;
use weir_wire::ReasonCode;

/// Who wants in, and with what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AuthRequest<'a> {
    /// The connection.
    pub conn: ConnKey,
    /// Names the question: the connection's key may be another's by the time of the answer.
    pub ticket: Ticket,
    /// Which step this is.
    pub step: AuthStep,
    /// The client identifier, as the client gave it.
    pub client_id: &'a str,
    /// User name of CONNECT.
    pub user_name: Option<&'a str>,
    /// Password of CONNECT.
    pub password: Option<&'a [u8]>,
    /// Authentication Method: enhanced authentication is asked for.
    pub method: Option<&'a str>,
    /// Authentication Data of CONNECT or AUTH.
    pub data: &'a [u8],
}

impl fmt::Debug for AuthRequest<'_> {
    /// Without what may be a secret: a user name may be a token.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { conn, ticket, step, client_id, method, .. } = self;
        let mut shown = out.debug_struct("AuthRequest");
        shown.field("conn", conn).field("ticket", ticket).field("step", step);
        shown.field("client_id", client_id).field("method", method).finish_non_exhaustive()
    }
}

/// Where an authentication stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStep {
    /// CONNECT.
    Begin,
    /// AUTH 0x18 after the server's own.
    Continue,
    /// AUTH 0x19 on a live connection.
    Again,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client must say more: AUTH 0x18 with this data goes out.
    Continue(Vec<u8>),
    /// The client is who it says, with the last data for it; empty is none.
    Accept(Vec<u8>),
    /// The same, and the method says whose it is, whatever user name CONNECT has.
    AcceptAs {
        /// The user.
        user: Box<str>,
        /// The last data for the client.
        data: Vec<u8>,
    },
    /// The client is who it says, on terms of whoever vouches for it.
    AcceptOn(Box<Terms>),
    /// It is not: CONNACK or DISCONNECT with this reason, and the end.
    Refuse(ReasonCode),
}

/// Why a client is ended that was let in before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwelcome {
    /// Somebody has banned it.
    Banned,
    /// Its user is not there any more, or has another password.
    UserGone,
    /// Whoever has vouched for it is not asked any more, or by other rules.
    VoucherGone,
    /// Its certificate was revoked, or is one of an authority that does not count any more.
    Certificate,
    /// It has said no user name, and such clients are not let in any more.
    Anonymous,
    /// The listener that it came by is gone.
    ListenerGone,
}

/// What whoever vouches for a client has set for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Who it is, whatever user name its CONNECT has; nothing if that name is right.
    pub user: Option<Box<str>>,
    /// What it may do, whoever else its user is.
    pub rights: OwnRights,
    /// When its connection ends.
    pub until: Option<Micros>,
    /// Who says so, if that is neither a file of the broker's nor the client's transport.
    pub voucher: Option<Voucher>,
}
