//! CONNECT: who it is, which session, and what was agreed.

use super::connection::{Live, Phase, Refusal};
use super::{Next, Shard};
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::message::passed_on;
use crate::session::{Link, Session, Will};
use crate::sink::{Notice, Sink};
use crate::timers::Timer;
use std::hash::BuildHasher;
use weir_wire::packet::{ConnAck, Connect};
use weir_wire::{PropertiesBuf, Property, ReasonCode, Version};

/// What the properties of CONNECT ask for, or their defaults.
struct Asked {
    session_expiry_s: u32,
    receive_maximum: u16,
    packet_bytes_max: u32,
}

impl Asked {
    fn of(connect: &Connect<'_>) -> Self {
        // Before 5.0, a session without Clean Session is kept for ever.
        let is_kept = !connect.version.is_v5() && !connect.clean_start;
        let mut asked = Self {
            session_expiry_s: if is_kept { u32::MAX } else { 0 },
            receive_maximum: u16::MAX,
            packet_bytes_max: u32::MAX,
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => asked.session_expiry_s = seconds,
                Property::ReceiveMaximum(maximum) => asked.receive_maximum = maximum,
                Property::MaximumPacketSize(bytes) => asked.packet_bytes_max = bytes,
                _ => {}
            }
        }
        asked
    }
}

impl Shard {
    pub(super) fn on_connect(
        &mut self,
        conn: ConnKey,
        connect: &Connect<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        if let Err(refusal) = self.check_connect(connect) {
            self.refuse_connect(conn, connect.version, refusal, sink);
            return Ok(Next::Continue);
        }
        let assigned = connect.client_id.is_empty().then(|| self.assign_client_id());
        let client_id = assigned.as_deref().unwrap_or(connect.client_id);
        let owner = self.owner(client_id);
        if owner != self.id {
            self.drop_connection(conn);
            sink.hand_over(conn, owner);
            return Ok(Next::HandedOver);
        }
        self.end_predecessor(client_id, connect.clean_start, now, sink);
        let (session, session_present) = self.session_for(client_id, connect.clean_start, sink);
        let asked = Asked::of(connect);
        self.attach(conn, session, connect, &asked, now);
        self.accept(conn, session_present, connect, &asked, assigned.as_deref(), sink);
        let client_id = &self.sessions[session.0 as usize].client_id;
        sink.notice(Notice::Connected { conn, client_id, session_present });
        self.send_owed(session, now, sink);
        self.pump(session, now, sink);
        Ok(Next::Continue)
    }

    fn check_connect(&self, connect: &Connect<'_>) -> Result<(), Refusal> {
        let client_id = connect.client_id;
        let may_assign = match connect.version {
            Version::V5 => true,
            // [MQTT-3.1.3-7], [MQTT-3.1.3-8]
            Version::V311 => connect.clean_start,
            Version::V31 => false,
        };
        if client_id.is_empty() && !may_assign {
            let detail = "an empty client identifier needs a clean session";
            return Err(Refusal::new(ReasonCode::ClientIdentifierNotValid, detail));
        }
        if client_id.len() > usize::from(self.limits.client_id_bytes_max) {
            let detail = "the client identifier is too long";
            return Err(Refusal::new(ReasonCode::ClientIdentifierNotValid, detail));
        }
        let method = connect.properties.find(|property| match property {
            Property::AuthenticationMethod(_) => Some(()),
            _ => None,
        });
        if method.is_some() {
            let detail = "no enhanced authentication here";
            return Err(Refusal::new(ReasonCode::BadAuthenticationMethod, detail));
        }
        Ok(())
    }

    /// CONNACK with a reason, then the end. No session, no will.
    pub(super) fn refuse_connect(
        &mut self,
        conn: ConnKey,
        version: Version,
        refusal: Refusal,
        sink: &mut impl Sink,
    ) {
        let mut bytes = Vec::new();
        let properties = weir_wire::Properties::EMPTY;
        ConnAck { session_present: false, reason: refusal.reason, properties }
            .encode(version, &mut bytes);
        sink.write(conn, &bytes);
        self.stats.connections_refused += 1;
        self.drop_connection(conn);
        sink.close(conn);
        let Refusal { reason, detail } = refusal;
        sink.notice(Notice::Ended { conn, client_id: "", reason, detail });
    }

    /// A client identifier nobody has, of this shard's own clients.
    fn assign_client_id(&mut self) -> Box<str> {
        loop {
            self.assigned_ids += 1;
            let id = format!("weir-{}-{}", self.id.0, self.assigned_ids).into_boxed_str();
            if self.owner(&id) == self.id && self.find_session(&id).is_none() {
                return id;
            }
        }
    }

    /// Ends an older connection of the same client [MQTT-3.1.4-3].
    fn end_predecessor(
        &mut self,
        client_id: &str,
        clean_start: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(key) = self.find_session(client_id) else { return };
        let session = &self.sessions[key.0 as usize];
        let Some(link) = session.link else { return };
        // A session that goes on cancels a delayed will; one that ends here does not
        // [MQTT-3.1.3-9].
        let goes_on = !clean_start && session.outlives_connection();
        if goes_on
            && let Some(connection) = self.connection_mut(link.conn)
            && let Some(live) = connection.live_mut()
            && live.will.as_ref().is_some_and(|will| will.delay_s > 0)
        {
            live.will = None;
        }
        self.stats.takeovers += 1;
        self.end(link.conn, Refusal::new(ReasonCode::SessionTakenOver, ""), now, sink);
    }

    /// The client's session, and whether it was there already.
    fn session_for(
        &mut self,
        client_id: &str,
        clean_start: bool,
        sink: &mut impl Sink,
    ) -> (SessionKey, bool) {
        if let Some(key) = self.find_session(client_id) {
            if !clean_start {
                return (key, true);
            }
            self.end_session(key, sink);
        }
        let key = SessionKey(self.sessions.insert(Session::new(client_id)) as u32);
        let hash = self.hasher.hash_one(client_id);
        let Self { clients, sessions, hasher, .. } = self;
        clients
            .insert_unique(hash, key, |key| hasher.hash_one(&*sessions[key.0 as usize].client_id));
        (key, false)
    }

    fn attach(
        &mut self,
        conn: ConnKey,
        key: SessionKey,
        connect: &Connect<'_>,
        asked: &Asked,
        now: Micros,
    ) {
        self.end_absence(key);
        let session = &mut self.sessions[key.0 as usize];
        session.expiry_s = asked.session_expiry_s.min(self.limits.session_expiry_s_max);
        session.link = Some(Link {
            conn,
            version: connect.version,
            open_max: asked.receive_maximum.min(self.limits.in_flight_max),
            packet_bytes_max: asked.packet_bytes_max,
        });
        let silence_max = Micros(u64::from(connect.keep_alive_s) * 1_500_000);
        let will = connect.will.map(|will| {
            let (properties, _) = passed_on(will.properties, now);
            Box::new(Will {
                topic: will.topic.into(),
                payload: will.payload.into(),
                properties,
                qos: will.qos,
                retain: will.retain,
                delay_s: will
                    .properties
                    .find(|property| match property {
                        Property::WillDelayInterval(seconds) => Some(seconds),
                        _ => None,
                    })
                    .unwrap_or(0),
                message_expiry_s: will.properties.find(|property| match property {
                    Property::MessageExpiryInterval(seconds) => Some(seconds),
                    _ => None,
                }),
            })
        });
        let live =
            Live { session: key, version: connect.version, silence_max, will, aliases: Vec::new() };
        self.set_deadline(conn, (silence_max.0 > 0).then_some(now + silence_max));
        if let Some(connection) = self.connection_mut(conn) {
            connection.phase = Phase::Live(live);
        }
    }

    fn accept(
        &self,
        conn: ConnKey,
        session_present: bool,
        connect: &Connect<'_>,
        asked: &Asked,
        assigned: Option<&str>,
        sink: &mut impl Sink,
    ) {
        let mut properties = PropertiesBuf::new();
        if connect.version.is_v5() {
            let limits = &self.limits;
            if asked.session_expiry_s > limits.session_expiry_s_max {
                properties.push(Property::SessionExpiryInterval(limits.session_expiry_s_max));
            }
            properties.push(Property::ReceiveMaximum(limits.receive_maximum));
            properties.push(Property::MaximumPacketSize(limits.packet_bytes_max));
            properties.push(Property::TopicAliasMaximum(limits.topic_alias_maximum));
            if let Some(client_id) = assigned {
                properties.push(Property::AssignedClientIdentifier(client_id));
            }
        }
        let mut bytes = Vec::new();
        let properties = properties.as_properties();
        ConnAck { session_present, reason: ReasonCode::Success, properties }
            .encode(connect.version, &mut bytes);
        sink.write(conn, &bytes);
    }

    /// Sets or clears the connection's one timer.
    pub(super) fn set_deadline(&mut self, conn: ConnKey, deadline: Option<Micros>) {
        let Some(connection) = self.connections.get_mut(conn.0 as usize).and_then(Option::as_mut)
        else {
            return;
        };
        if let Some(old) = std::mem::replace(&mut connection.deadline, deadline) {
            self.timers.clear(old, Timer::Connection(conn));
        }
        if let Some(deadline) = deadline {
            self.timers.set(deadline, Timer::Connection(conn));
        }
    }
}
