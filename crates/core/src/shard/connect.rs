//! CONNECT: who it is, which session, and what was agreed.

use super::asked::{Asked, Proof};
use super::connection::{AwaitAuth, Connection, Live, Phase, Refusal};
use super::publish::check_payload_format;
use super::{Next, Shard};
use crate::auth::{AuthRequest, AuthStep, Terms};
use crate::bounds::{CEILING, LEAN_WILL_BYTES_MAX};
use crate::keys::{ConnKey, Micros, Origin, SessionKey};
use crate::message::passed_on;
use crate::parcel::Admitted;
use crate::session::{Attachment, Will};
use crate::sink::{Notice, Sink};
use weir_wire::packet::{self as wire, Connect};
use weir_wire::{Property, ReasonCode, Version};

/// Client identifiers that begin like this are the process' own: nobody else takes over, or makes,
/// such a session.
pub const OWN_CLIENT_IDS: &str = "$weir/";

impl Shard {
    pub(super) fn on_connect(
        &mut self,
        conn: ConnKey,
        connect: &Connect<'_>,
        body: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        let asked = Asked::of(connect);
        let is_own = sink.is_own(conn);
        if let Err(refusal) = self.check_connect(conn, connect, &asked, is_own) {
            self.refuse_connect(conn, connect.version, Some(connect), refusal, sink);
            return Ok(Next::Continue);
        }
        if !connect.client_id.is_empty() {
            let owner = self.place.owner(connect.client_id);
            if owner != self.place.id {
                self.keeps(body.len(), sink);
                if !self.bounds.allows_partial(body.len()) {
                    let refusal = Refusal::new(ReasonCode::QuotaExceeded, CEILING);
                    self.refuse_connect(conn, connect.version, Some(connect), refusal, sink);
                    return Ok(Next::Continue);
                }
                self.drop_connection(conn);
                sink.hand_over(conn, owner);
                return Ok(Next::HandedOver);
            }
        }
        if !self.bounds.features.authentication && !sink.is_named(conn) {
            if self.is_claimed(connect.client_id) {
                let (method, terms, data) = (None, Terms::default(), Vec::new());
                let connect = body.into();
                let admitted = Admitted { connect, method, terms, data, is_proven: false };
                self.claim(conn, Box::new(admitted), 0, now, sink);
                return Ok(Next::Continue);
            }
            self.admit(conn, connect, &asked, None, now, sink);
            return Ok(Next::Continue);
        }
        let ticket = self.answers.ask_verdict(conn, now);
        let Some(connection) = self.connections.get_mut(conn) else { return Ok(Next::Continue) };
        connection.phase = Phase::AwaitAuth(Box::new(AwaitAuth {
            connect: body.into(),
            version: connect.version,
            method: asked.auth_method.map(Into::into),
            asked: Some(ticket),
        }));
        sink.authenticate(AuthRequest {
            conn,
            ticket,
            step: AuthStep::Begin,
            client_id: connect.client_id,
            user_name: connect.user_name,
            password: connect.password,
            method: asked.auth_method,
            data: asked.auth_data,
        });
        Ok(Next::Continue)
    }

    /// Lets a checked client in: takes over or makes its session, and says CONNACK.
    pub(super) fn admit(
        &mut self,
        conn: ConnKey,
        connect: &Connect<'_>,
        asked: &Asked<'_>,
        proof: Option<&Proof<'_>>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Self { clients, place, .. } = self;
        let assigned =
            connect.client_id.is_empty().then(|| clients.assign_id(|id| place.is_owner(id)));
        let client_id = assigned.as_deref().unwrap_or(connect.client_id);
        let found = self.clients.find(client_id);
        let checked = self.check_found(found).and_then(|()| self.check_absent(found, connect));
        if let Err(refusal) = checked {
            return self.refuse_connect(conn, connect.version, Some(connect), refusal, sink);
        }
        // A session that does not outlive its connection ends in the takeover.
        let session_present = !connect.clean_start
            && found.is_some_and(|key| self.clients[key].outlives_connection());
        let will_bytes = connect.will.map_or(0, |will| {
            will.topic.len() + will.payload.len() + will.properties.as_bytes().len()
        });
        self.keeps(will_bytes, sink);
        let address = sink.origin(conn);
        if found.is_none()
            && let Err(detail) = self.check_room_for_session(address, will_bytes)
        {
            let refusal = Refusal::new(ReasonCode::QuotaExceeded, detail);
            return self.refuse_connect(conn, connect.version, Some(connect), refusal, sink);
        }
        let connack = self.connack(session_present, connect, asked, assigned.as_deref(), proof);
        if connack.len() > asked.packet_bytes_max as usize {
            // [MQTT-3.1.2-24]: what cannot even be told what is granted cannot be served.
            let refusal = Refusal::new(ReasonCode::PacketTooLarge, "");
            return self.refuse_connect(conn, connect.version, Some(connect), refusal, sink);
        }
        self.begin_answer();
        let session = match found {
            None => self.clients.add(client_id, address),
            Some(key) => {
                self.end_predecessor(key, now, sink);
                self.session_for(client_id, address, connect.clean_start, sink)
            }
        };
        if self.claims.is_on() {
            let claim = self.claims.next(self.place.id, now);
            self.claims.hold(session, claim);
        }
        if proof.is_some() || self.clients.rights.is_some() {
            self.note_user(session, connect.user_name, proof.map(|proof| proof.terms));
        }
        let attachment = self.attach(conn, session, connect, asked, now, sink);
        let mut user_name = connect.user_name;
        if let Some(Proof { terms, .. }) = proof {
            user_name = terms.user.as_deref().or(user_name);
            if let Some(until) = terms.until {
                self.end_at(conn, until, now);
            }
        }
        sink.notice(Notice::Connected { conn, client_id, user_name, session_present });
        self.greet(session, attachment, connack, now, sink);
    }

    fn check_connect(
        &self,
        conn: ConnKey,
        connect: &Connect<'_>,
        asked: &Asked<'_>,
        is_own: bool,
    ) -> Result<(), Refusal> {
        let phase = self.connections.get(conn).map(|connection| &connection.phase);
        if let Some(Phase::AwaitConnect(Some(reason))) = phase {
            return Err(Refusal::new(*reason, "a bound on connections is reached"));
        }
        self.check_drain()?;
        self.check_minority(asked)?;
        self.check_client_id(connect, is_own)?;
        if let Some(will) = &connect.will {
            self.check_message(will.topic, will.qos, will.retain)?;
            check_payload_format(will.properties, will.payload)?;
        }
        if asked.auth_method.is_some() && !self.bounds.features.authentication {
            let detail = "no enhanced authentication here";
            return Err(Refusal::new(ReasonCode::BadAuthenticationMethod, detail));
        }
        Ok(())
    }

    /// Whether a client may begin a session, which may be on a node that is away. The broker's own
    /// clients are on this node.
    fn check_absent(
        &self,
        found: Option<SessionKey>,
        connect: &Connect<'_>,
    ) -> Result<(), Refusal> {
        let is_own = connect.client_id.is_empty() || connect.client_id.starts_with(OWN_CLIENT_IDS);
        let are_kept = self.bounds.limits.session_expiry_s_max > 0;
        let may_be_there = found.is_none() && are_kept && !connect.clean_start && !is_own;
        if self.claims.is_any_absent && may_be_there {
            let detail = "a node is away that may have the session";
            return Err(Refusal::new(ReasonCode::ServerUnavailable, detail));
        }
        Ok(())
    }

    fn check_client_id(&self, connect: &Connect<'_>, is_own: bool) -> Result<(), Refusal> {
        let may_assign = match connect.version {
            Version::V5 => true,
            // [MQTT-3.1.3-7], [MQTT-3.1.3-8]
            Version::V311 => connect.clean_start,
            Version::V31 => false,
        };
        let refuse = |detail| Err(Refusal::new(ReasonCode::ClientIdentifierNotValid, detail));
        if connect.client_id.is_empty() && !may_assign {
            return refuse("an empty client identifier needs a clean session");
        }
        if connect.client_id.len() > usize::from(self.bounds.limits.client_id_bytes_max) {
            return refuse("the client identifier is too long");
        }
        if connect.client_id.starts_with(OWN_CLIENT_IDS) && !is_own {
            return refuse("client identifiers that begin with $weir/ are the broker's own");
        }
        Ok(())
    }

    /// Ends an older connection of the same client [MQTT-3.1.4-3].
    pub(super) fn end_predecessor(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let Some(conn) = self.connection_of(key) else { return };
        self.stats.takeovers += 1;
        self.end(conn, Refusal::new(ReasonCode::SessionTakenOver, ""), now, sink);
    }

    /// The client's session: the one there is, or a new one.
    fn session_for(
        &mut self,
        client_id: &str,
        address: Option<Origin>,
        clean_start: bool,
        sink: &mut impl Sink,
    ) -> SessionKey {
        if let Some(key) = self.clients.find(client_id) {
            if !clean_start {
                self.clients.set_address(key, address);
                return key;
            }
            self.end_session(key, sink);
        }
        self.clients.add(client_id, address)
    }

    fn check_room_for_session(
        &mut self,
        address: Option<Origin>,
        will_bytes: usize,
    ) -> Result<(), &'static str> {
        if self.bounds.is_pressed {
            return Err(CEILING);
        }
        if self.bounds.is_lean && will_bytes > LEAN_WILL_BYTES_MAX {
            return Err("memory is about to be short, and the will is long");
        }
        let room = self.clients.check_room(address, &self.bounds);
        self.stats.sessions_refused += u64::from(room.is_err());
        room
    }

    /// The session is the connection's from now on. Returns what there is to know of its client
    /// once that was greeted.
    fn attach(
        &mut self,
        conn: ConnKey,
        key: SessionKey,
        connect: &Connect<'_>,
        asked: &Asked<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Attachment {
        // A will that waited is not due any more [MQTT-3.1.3-9].
        self.end_absence(key);
        self.tell_will_over(key, sink);
        let session = &mut self.clients[key];
        session.expiry_s = asked.session_expiry_s.min(self.bounds.limits.session_expiry_s_max);
        session.window.resume();
        session.note_absence();
        let attachment = Attachment {
            conn,
            version: connect.version,
            open_max: asked.receive_maximum.min(self.bounds.limits.in_flight_max),
            packet_bytes_max: asked.packet_bytes_max,
            aliases_max: asked.aliases_max.min(self.bounds.limits.topic_alias_out_max),
            wants_problems: connect.version.is_v5() && asked.wants_problems,
        };
        let keep_alive_s = match self.bounds.features.server_keep_alive_s {
            // [MQTT-3.2.2-21]
            keep_alive_s if keep_alive_s > 0 && connect.version.is_v5() => keep_alive_s,
            _ => connect.keep_alive_s,
        };
        let mut live = Live { session: key, version: connect.version, keep_alive_s, cold: None };
        let will = connect.will.as_ref();
        if let Some(will) = will.filter(|will| self.allows_will(conn, key, will.topic, sink)) {
            live.cold().will = Some(Box::new(kept_will(will, self.clients.origin(key), now)));
        }
        if let Some(method) = asked.auth_method {
            live.cold().auth_method = Some(method.into());
        }
        self.log_connected(key, live.cold.as_ref().and_then(|cold| cold.will.as_deref()), sink);
        if let Some(connection) = self.connections.get_mut(conn) {
            connection.go_live(live, now);
            *self.stats.connected(connect.version) += 1;
        }
        self.set_deadline(conn, now);
        if will.is_some() && self.claims.watcher.is_some() {
            self.tell_will(key, Some(conn), now, sink);
        }
        attachment
    }

    /// The connection is to end then, whatever its client does.
    #[cold]
    fn end_at(&mut self, conn: ConnKey, until: Micros, now: Micros) {
        if let Some(live) = self.connections.get_mut(conn).and_then(Connection::live_mut) {
            live.cold().until = Some(until);
        }
        self.set_deadline(conn, now);
    }

    /// Sets the connection's timer to what it is due at now.
    pub(super) fn set_deadline(&mut self, conn: ConnKey, now: Micros) {
        let connection = self.connections.get(conn);
        let due =
            connection.and_then(|connection| connection.due(self.bounds.limits.connect_timeout_s));
        match due {
            Some(due) => self.timers.connections.set(conn, due, now),
            None => self.timers.connections.clear(conn),
        }
    }
}

/// The will as it is kept: its delay and expiry begin when the connection ends.
fn kept_will(will: &wire::Will<'_>, origin: Origin, now: Micros) -> Will {
    let (properties, _) = passed_on(will.properties, now);
    let mut kept = Will {
        topic: will.topic.into(),
        payload: will.payload.into(),
        properties,
        qos: will.qos,
        retain: will.retain,
        delay_s: 0,
        origin,
        message_expiry_s: None,
    };
    for property in will.properties.iter() {
        match property {
            Property::WillDelayInterval(seconds) => kept.delay_s = seconds,
            Property::MessageExpiryInterval(seconds) => kept.message_expiry_s = Some(seconds),
            _ => {}
        }
    }
    kept
}
