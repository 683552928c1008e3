//! What connections are made with.

use crate::Error;
use crate::subscriptions::Subscription;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use weir_client::ServerLimits;
use weir_connection::Address;
use weir_reactor::Transport;
use weir_wire::{QoS, Version};

/// Of all threads; checked, so that encoding it cannot fail.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    pub(crate) transport: Transport,
    pub(crate) version: Version,
    /// Of one thread; several add their numbers to it.
    pub(crate) client_id: String,
    pub(crate) threads: usize,
    /// No Clean Start, no Clean Session.
    pub(crate) is_session_kept: bool,
    /// 5.0: how long the session outlives the connection.
    pub(crate) session_expiry_s: u32,
    pub(crate) keep_alive_s: u16,
    /// 5.0: our Receive Maximum.
    pub(crate) in_flight_max: u16,
    /// Longest that messages gather, in microseconds.
    pub(crate) gather_us: u64,
    pub(crate) subscriptions: Vec<Subscription>,
    /// The highest QoS and RETAIN that results may have.
    pub(crate) publishes: (QoS, bool),
    /// A connection that was lost is made again.
    pub(crate) comes_back: bool,
    pub(crate) is_quiet: bool,
}

impl Settings {
    /// As 5.0 says it, of no use in earlier versions.
    pub(crate) const IN_FLIGHT_MAX: u16 = 1024;

    /// Microseconds.
    pub(crate) const GATHER_US: u32 = 1_000;

    /// The client identifier of one thread.
    pub(crate) fn client_id(&self, thread: usize) -> String {
        match self.threads {
            0 | 1 => self.client_id.clone(),
            _ => format!("{}-{}", self.client_id, thread + 1),
        }
    }

    /// At most 23 characters. A process id is not enough: in a container it is 1.
    pub(crate) fn random_client_id() -> String {
        format!("flow-{:014x}", RandomState::new().hash_one("client") >> 8)
    }

    /// A string of CONNECT has a length of two bytes.
    ///
    /// # Errors
    /// One of them is longer.
    pub(crate) fn check_lengths(&self) -> Result<(), Error> {
        let lengths = [
            ("--client-id", self.client_id(self.threads).len()),
            ("--broker", self.address.user_name.as_ref().map_or(0, String::len)),
            ("--broker", self.address.password.as_ref().map_or(0, String::len)),
        ];
        match lengths.into_iter().find(|(_, length)| *length > usize::from(u16::MAX)) {
            Some((option, length)) => {
                Err(Error::option(option, format!("it has {length} bytes, 65535 are allowed")))
            }
            None => Ok(()),
        }
    }

    /// What these connections need and the broker has not.
    pub(crate) fn lacking(&self, limits: &ServerLimits) -> Option<&'static str> {
        let (qos, retain) = self.publishes;
        let is_wild = |one: &Subscription| one.filter.contains(['+', '#']);
        let is_shared = |one: &Subscription| one.group.is_some();
        let needs = [
            (qos > limits.qos_max, "takes no results of QoS 1"),
            (retain && !limits.takes_retained, "takes no retained results"),
            (
                self.subscriptions.iter().any(is_wild) && !limits.takes_wildcards,
                "takes no filters with wildcards",
            ),
            (
                self.subscriptions.iter().any(is_shared) && !limits.takes_shared,
                "takes no shared subscriptions",
            ),
        ];
        needs.into_iter().find(|(is_lacking, _)| *is_lacking).map(|(_, lacks)| lacks)
    }
}

/// `5` or `311`.
pub(crate) fn parse_version(text: &str) -> Result<Version, &'static str> {
    match text.strip_prefix("mqttv").unwrap_or(text) {
        "5" => Ok(Version::V5),
        "311" => Ok(Version::V311),
        _ => Err("it must be 5 or 311"),
    }
}
