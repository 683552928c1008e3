//! Sessions that a client could go on with.

#![expect(
    clippy::disallowed_types,
    reason = "rustls shares it; taken in handshakes, by one thread"
)]

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of one server, whose name is not looked at: a bounded number, which rustls' own store has as
/// well, but at 8 for a server. That is too few for thousands of clients that connect at once.
pub(super) struct Tickets {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    group: Option<NamedGroup>,
    /// Those of TLS 1.3 are used once.
    once: VecDeque<Tls13ClientSessionValue>,
    /// That of TLS 1.2 may be used by many.
    shared: Option<Tls12ClientSessionValue>,
}

impl Tickets {
    pub(super) fn new(most: usize) -> Self {
        Self { most, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Tickets {
    fn set_kx_hint(&self, _server: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _server: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept().shared = Some(value);
    }

    fn tls12_session(&self, _server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().shared.clone()
    }

    fn remove_tls12_session(&self, _server: &ServerName<'static>) {
        self.kept().shared = None;
    }

    fn insert_tls13_ticket(&self, _server: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        if kept.once.len() == self.most {
            kept.once.pop_front();
        }
        kept.once.push_back(value);
    }

    fn take_tls13_ticket(&self, _server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().once.pop_back()
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Tickets").field("most", &self.most).finish_non_exhaustive()
    }
}
