//! Clients that come and go, said below `$SYS/brokers/NODE/clients` as EMQX says it.
//!
//! A notice of the core is kept until the end of the turn, when the shard can publish. How many
//! are said in a second is bounded; the others are counted.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::net::SocketAddr;
use weir_core::{ClientState, ConnKey, Micros, Notice};
use weir_reactor::UNIX_PEER;
use weir_wire::{ReasonCode, Version};

const SECOND: Micros = Micros(1_000_000);

/// Those that wait, and how many may still come in this second.
#[derive(Debug)]
pub(crate) struct Events {
    /// What topics begin with.
    root: String,
    per_s_max: u32,
    second_began: Micros,
    in_second: u32,
    waiting: VecDeque<Event>,
    /// Users of clients that are connected, where they have one: it is said again when they go.
    users: HashMap<ConnKey, Box<str>>,
    pub(crate) dropped: u64,
}

/// A client has come or gone.
#[derive(Debug)]
pub(crate) struct Event {
    at: Timestamp,
    client_id: Box<str>,
    user: Option<Box<str>>,
    peer: Option<SocketAddr>,
    /// Why it has gone; nothing if it has come.
    reason: Option<&'static str>,
}

impl Events {
    /// Of the broker on this host; so many in a second at most.
    pub(crate) fn new(host: &str, per_s_max: u32) -> Self {
        Self {
            root: format!("$SYS/brokers/weir@{}/clients/", level(host)),
            per_s_max,
            second_began: Micros(0),
            in_second: 0,
            waiting: VecDeque::new(),
            users: HashMap::new(),
            dropped: 0,
        }
    }

    /// So many in a second from now on; 0 is none.
    pub(crate) fn set_max(&mut self, per_s_max: u32) {
        self.per_s_max = per_s_max;
    }

    /// Keeps what a notice tells, if it is of a client that has come or gone.
    pub(crate) fn note(
        &mut self,
        notice: &Notice<'_>,
        user: Option<&str>,
        peer: impl FnOnce() -> Option<SocketAddr>,
        now: Micros,
    ) {
        // There are none now, as a reload has said.
        if self.per_s_max == 0 {
            return;
        }
        let Some((conn, client_id, user, reason)) = told(notice, user) else { return };
        let known = self.users.remove(&conn);
        let user = if reason.is_some() { known } else { user.map(Into::into) };
        if reason.is_none()
            && let Some(user) = &user
        {
            self.users.insert(conn, user.clone());
        }
        if now >= self.second_began + SECOND {
            (self.second_began, self.in_second) = (now, 0);
        }
        let has_room = self.waiting.len() < self.per_s_max as usize;
        if self.in_second >= self.per_s_max || !has_room {
            self.dropped += 1;
            return;
        }
        self.in_second += 1;
        let (at, client_id) = (Timestamp::now(), client_id.into());
        self.waiting.push_back(Event { at, client_id, user, peer: peer(), reason });
    }

    /// The connection of a user has come from another shard.
    pub(crate) fn arrived(&mut self, conn: ConnKey, user: Box<str>) {
        self.users.insert(conn, user);
    }

    /// The connection goes to another shard, or is over: whose it was.
    pub(crate) fn forget(&mut self, conn: ConnKey) -> Option<Box<str>> {
        self.users.remove(&conn)
    }

    pub(crate) fn take(&mut self) -> Option<Event> {
        self.waiting.pop_front()
    }

    /// It could not be published now.
    pub(crate) fn put_back(&mut self, event: Event) {
        self.waiting.push_front(event);
    }

    /// It could not be published at all: its topic is too long.
    pub(crate) fn drop_one(&mut self) {
        self.dropped += 1;
    }

    /// Where an event is published.
    pub(crate) fn topic(&self, event: &Event) -> String {
        let what = if event.reason.is_some() { "disconnected" } else { "connected" };
        format!("{}{}/{what}", self.root, level(&event.client_id))
    }
}

impl Event {
    pub(crate) fn client_id(&self) -> &str {
        &self.client_id
    }

    /// What is published, by the names that EMQX has for it; `client` is the client as it is now.
    pub(crate) fn payload(&self, client: Option<&ClientState>) -> String {
        let at = self.at.as_millisecond();
        let address = self.peer.filter(|peer| *peer != UNIX_PEER);
        let mut fields = Map::new();
        let mut add = |name: &str, value: Value| _ = fields.insert(name.to_owned(), value);
        add("clientid", (*self.client_id).into());
        add("username", json!(self.user));
        add("ipaddress", json!(address.map(|peer| peer.ip().to_canonical().to_string())));
        add("ts", at.into());
        match self.reason {
            Some(reason) => {
                add("reason", reason.into());
                add("disconnected_at", at.into());
            }
            None => {
                add("connected_at", at.into());
                if let Some(client) = client
                    && let Some(connection) = &client.connection
                {
                    let name = if connection.version == Version::V31 { "MQIsdp" } else { "MQTT" };
                    add("proto_name", name.into());
                    add("proto_ver", (connection.version as u8).into());
                    add("keepalive", connection.keep_alive_s.into());
                    add("expiry_interval", client.session_expiry_s.into());
                }
            }
        }
        Value::Object(fields).to_string()
    }
}

/// The connection, the client, its user if it has come, and why it has gone, if it has.
fn told<'a>(
    notice: &Notice<'a>,
    user: Option<&'a str>,
) -> Option<(ConnKey, &'a str, Option<&'a str>, Option<&'static str>)> {
    match *notice {
        Notice::Connected { conn, client_id, user_name, .. } => {
            Some((conn, client_id, user_name.or(user), None))
        }
        Notice::Left { conn, client_id, reason } if !client_id.is_empty() => {
            let reason = match reason {
                None => "tcp_closed",
                Some(ReasonCode::Success) => "normal",
                Some(reason) => reason.name(),
            };
            Some((conn, client_id, None, Some(reason)))
        }
        Notice::Ended { conn, client_id, was_live: true, reason, .. } => {
            let reason = match reason {
                ReasonCode::KeepAliveTimeout => "keepalive_timeout",
                ReasonCode::SessionTakenOver => "takenover",
                ReasonCode::AdministrativeAction => "kicked",
                reason => reason.name(),
            };
            Some((conn, client_id, None, Some(reason)))
        }
        _ => None,
    }
}

/// A name as one level of a topic.
fn level(name: &str) -> String {
    let mut level = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            '/' | '+' | '#' | '%' => write!(level, "%{:02X}", letter as u32).unwrap_or_default(),
            letter => level.push(letter),
        }
    }
    level
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(client_id: &str) -> Notice<'_> {
        let (conn, user_name, session_present) = (ConnKey(1), Some("ann"), false);
        Notice::Connected { conn, client_id, user_name, session_present }
    }

    #[test]
    fn so_many_are_said_in_a_second_and_the_others_are_counted() {
        let mut events = Events::new("h", 3);
        let note = |events: &mut Events, at| {
            (0..10).for_each(|_| events.note(&connected("c"), None, || None, Micros(at)));
            std::iter::from_fn(|| events.take()).count()
        };
        assert_eq!((note(&mut events, 1_000_000), events.dropped), (3, 7));
        assert_eq!((note(&mut events, 1_999_999), events.dropped), (0, 17));
        assert_eq!((note(&mut events, 2_000_000), events.dropped), (3, 24));
        (0..3).for_each(|at| {
            events.note(&connected("c"), None, || None, Micros((3 + at) * 1_000_000));
        });
        events.note(&connected("c"), None, || None, Micros(9_000_000));
        assert_eq!((events.waiting.len(), events.dropped), (3, 25), "nobody has taken them");
    }

    #[test]
    fn where_none_are_said_none_are_dropped() {
        let mut events = Events::new("h", 1);
        let mut said = |per_s_max, at| {
            events.set_max(per_s_max);
            (0..3).for_each(|_| events.note(&connected("c"), None, || None, Micros(at)));
            (std::iter::from_fn(|| events.take()).count(), events.dropped)
        };
        assert_eq!(said(1, 1_000_000), (1, 2));
        assert_eq!(said(0, 2_000_000), (0, 2));
        assert_eq!(said(9, 3_000_000), (3, 2));
    }

    #[test]
    fn a_client_identifier_is_one_level_and_whole_in_the_payload() {
        let mut events = Events::new("h/1", 9);
        let peer = || Some("192.0.2.1:7".parse().unwrap());
        events.note(&connected("a/+ä"), None, peer, Micros(1_000_000));
        let event = events.take().unwrap();
        assert_eq!(events.topic(&event), "$SYS/brokers/weir@h%2F1/clients/a%2F%2Bä/connected");
        let payload: Value = serde_json::from_str(&event.payload(None)).unwrap();
        let said = ["clientid", "username", "ipaddress"].map(|name| payload[name].clone());
        assert_eq!(said, ["a/+ä", "ann", "192.0.2.1"]);
    }

    #[test]
    fn whose_client_goes_is_said_as_it_was_when_it_came() {
        let mut events = Events::new("h", 1);
        let left = Notice::Left { conn: ConnKey(1), client_id: "c", reason: None };
        events.note(&connected("c"), None, || None, Micros(1_000_000));
        events.take().unwrap();
        // One that is not said counts as well.
        events.note(&connected("c"), None, || None, Micros(1_000_001));
        events.note(&left, None, || None, Micros(2_000_000));
        assert_eq!(events.take().unwrap().user.as_deref(), Some("ann"));
        events.note(&left, None, || None, Micros(3_000_000));
        assert_eq!(events.take().unwrap().user, None, "its key may be another's");
        events.arrived(ConnKey(1), "bob".into());
        events.note(&left, None, || None, Micros(4_000_000));
        assert_eq!(events.take().unwrap().user.as_deref(), Some("bob"));
    }

    #[test]
    fn why_a_client_has_gone_is_said_as_emqx_says_it() {
        let ended = |was_live, reason| Notice::Ended {
            conn: ConnKey(1),
            client_id: "c",
            user_name: None,
            was_live,
            reason,
            detail: "",
        };
        let left = |client_id, reason| Notice::Left { conn: ConnKey(1), client_id, reason };
        let why = |notice| told(&notice, None).map(|(.., reason)| reason.unwrap());
        for (notice, reason) in [
            (left("c", None), Some("tcp_closed")),
            (left("c", Some(ReasonCode::Success)), Some("normal")),
            (left("", None), None),
            (ended(true, ReasonCode::SessionTakenOver), Some("takenover")),
            (ended(true, ReasonCode::KeepAliveTimeout), Some("keepalive_timeout")),
            (ended(true, ReasonCode::AdministrativeAction), Some("kicked")),
            (ended(true, ReasonCode::QuotaExceeded), Some("Quota exceeded")),
            (ended(false, ReasonCode::NotAuthorized), None),
        ] {
            assert_eq!(why(notice), reason, "{notice:?}");
        }
    }
}
