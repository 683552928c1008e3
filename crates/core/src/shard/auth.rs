//! AUTH, and what the authentication port answers (section 4.12).

use super::asked::{Asked, Proof};
use super::connection::{AwaitAuth, Connection, Phase, Refusal, connect_again};
use super::{Next, Shard};
use crate::auth::{AuthRequest, AuthStep, Terms, Verdict};
use crate::keys::{ConnKey, Micros, Ticket};
use crate::parcel::Admitted;
use crate::rights::{Known, User};
use crate::sink::Sink;
use weir_wire::packet::Auth;
use weir_wire::{Frame, Packet, PropertiesBuf, Property, ReasonCode, Version};

impl Shard {
    /// The answer of the authentication port to the question that `ticket` names. One that comes
    /// when its connection is gone, or has been answered, is counted and says nothing of whoever
    /// has the connection's key by now.
    pub fn authenticated(
        &mut self,
        ticket: Ticket,
        verdict: Verdict,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(verdict) = self.keep_verdict(ticket, verdict) else { return };
        self.slices.begin();
        let is_asked = self.answers.reply_mut(ticket).is_some_and(|reply| reply.is_verdict());
        let answer = is_asked.then(|| self.answers.remove(ticket)).flatten();
        let Some(conn) = answer.and_then(|answer| answer.conn) else {
            self.stats.answers_late += 1;
            return;
        };
        match self.connections.get_mut(conn).map(|connection| &mut connection.phase) {
            Some(Phase::AwaitAuth(waiting)) => {
                waiting.asked = None;
                self.answer_unknown(conn, verdict, now, sink);
                // What came meanwhile may be read.
                if self.connections.get_mut(conn).is_some() {
                    sink.resume(conn);
                }
            }
            Some(Phase::Live(_)) => self.answer_live(conn, verdict, now, sink),
            Some(Phase::AwaitConnect(_)) | None => {}
        }
        self.settle(now, sink);
    }

    /// Bytes of a client that is not yet known wait for the verdict: no more than a packet's worth.
    pub(super) fn wait_for_verdict(
        &mut self,
        conn: ConnKey,
        bytes: usize,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if bytes > self.bounds.limits.packet_bytes_max as usize {
            let refusal = Refusal::new(ReasonCode::QuotaExceeded, "too much before the verdict");
            return self.end(conn, refusal, now, sink);
        }
        sink.pause(conn);
    }

    fn answer_unknown(
        &mut self,
        conn: ConnKey,
        verdict: Verdict,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(connection) = self.connections.get_mut(conn) else { return };
        let Phase::AwaitAuth(waiting) = &mut connection.phase else { return };
        match verdict {
            Verdict::Continue(data) => {
                let method = waiting.method.as_deref();
                let bytes = auth_bytes(ReasonCode::ContinueAuthentication, method, &data);
                let asked = connect_again(&waiting.connect).map(|connect| Asked::of(&connect));
                if asked.is_some_and(|asked| bytes.len() > asked.packet_bytes_max as usize) {
                    // [MQTT-3.1.2-24]
                    let refusal = Refusal::new(ReasonCode::PacketTooLarge, "");
                    return self.refuse_unknown(conn, refusal, sink);
                }
                sink.write(conn, &bytes);
            }
            Verdict::Accept(data) => {
                self.accept_unknown(conn, Terms::default(), data, now, sink);
            }
            Verdict::AcceptAs { user, data } => {
                let terms = Terms { user: Some(user), ..Terms::default() };
                self.accept_unknown(conn, terms, data, now, sink);
            }
            Verdict::AcceptOn(terms) => {
                self.accept_unknown(conn, *terms, Vec::new(), now, sink);
            }
            Verdict::Refuse(reason) => {
                self.refuse_unknown(conn, Refusal::new(reason, "not authenticated"), sink);
            }
        }
    }

    fn accept_unknown(
        &mut self,
        conn: ConnKey,
        terms: Terms,
        data: Vec<u8>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let connection = self.connections.get_mut(conn);
        let Some(waiting) = connection.and_then(Connection::take_waiting) else { return };
        let AwaitAuth { connect, method, .. } = *waiting;
        let admitted = Admitted { connect, method, terms, data, is_proven: true };
        self.admit_authenticated(conn, Box::new(admitted), now, sink);
    }

    fn answer_live(&mut self, conn: ConnKey, verdict: Verdict, now: Micros, sink: &mut impl Sink) {
        let Self { connections, clients, .. } = self;
        let connection = connections.get_mut(conn);
        let Some(live) = connection.and_then(Connection::live_mut) else { return };
        let Some(attachment) = clients[live.session].attachment else { return };
        let cold = live.cold.as_mut().filter(|cold| cold.authenticated_by.is_some());
        let Some(cold) = cold else { return };
        cold.asked = None;
        let (reason, data) = match verdict {
            Verdict::Continue(data) => (ReasonCode::ContinueAuthentication, data),
            Verdict::Accept(data) => {
                cold.authenticated_by = None;
                (ReasonCode::Success, data)
            }
            Verdict::AcceptAs { user, data } => {
                cold.authenticated_by = None;
                clients.set_user(live.session, Known::plain(User::Named(user)));
                (ReasonCode::Success, data)
            }
            // No method of AUTH has terms.
            Verdict::AcceptOn(_) => {
                cold.authenticated_by = None;
                (ReasonCode::Success, Vec::new())
            }
            // [MQTT-4.12.1-2]
            Verdict::Refuse(reason) => {
                return self.end(conn, Refusal::new(reason, "not authenticated"), now, sink);
            }
        };
        let bytes = auth_bytes(reason, cold.auth_method.as_deref(), &data);
        if bytes.len() > attachment.packet_bytes_max as usize {
            // [MQTT-3.1.2-24]
            return self.end(conn, Refusal::new(ReasonCode::PacketTooLarge, ""), now, sink);
        }
        sink.write(conn, &bytes);
    }

    /// Refuses a client that is not yet known, in a packet that it takes.
    pub(super) fn refuse_unknown(&mut self, conn: ConnKey, refusal: Refusal, sink: &mut impl Sink) {
        let Some(connection) = self.connections.get_mut(conn) else { return };
        let Some(waiting) = connection.take_waiting() else { return };
        if let Some(ticket) = waiting.asked {
            self.forget_question(ticket);
        }
        let connect = connect_again(&waiting.connect);
        self.refuse_stranger(conn, waiting.version, connect.as_ref(), refusal, sink);
    }

    /// Lets a client in that is who it says: here, or where its session is by now.
    pub(super) fn admit_authenticated(
        &mut self,
        conn: ConnKey,
        admitted: Box<Admitted>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(connect) = connect_again(&admitted.connect) else { return };
        let owner = self.place.owner(connect.client_id);
        if owner != self.place.id && !connect.client_id.is_empty() {
            return self.send_admitted(conn, admitted, owner, sink);
        }
        if self.is_claimed(connect.client_id) {
            return self.claim(conn, admitted, 0, now, sink);
        }
        self.admit_claimed(conn, &admitted, now, sink);
    }

    /// Lets a client in whose session is here, or nowhere.
    pub(super) fn admit_claimed(
        &mut self,
        conn: ConnKey,
        admitted: &Admitted,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Admitted { connect, method, terms, data, is_proven } = admitted;
        let Some(connect) = connect_again(connect) else { return };
        let proof = is_proven.then(|| Proof { method: method.as_deref(), data, terms });
        self.admit(conn, &connect, &Asked::of(&connect), proof.as_ref(), now, sink);
    }

    /// A packet while the client is not yet known: only AUTH and DISCONNECT may come
    /// [MQTT-3.1.2-30].
    pub(super) fn handle_unknown(
        &mut self,
        conn: ConnKey,
        frame: Frame<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        let Self { connections, answers, .. } = self;
        let connection = connections.get_mut(conn);
        let Some(Phase::AwaitAuth(waiting)) = connection.map(|connection| &mut connection.phase)
        else {
            return Ok(Next::Continue);
        };
        match Packet::decode(waiting.version, frame)? {
            Packet::Auth(auth) => {
                let (method, data) = parts(&auth);
                let is_next = auth.reason == ReasonCode::ContinueAuthentication;
                if !is_next || method != waiting.method.as_deref() {
                    return Err(Refusal::protocol("AUTH that does not continue what was begun"));
                }
                let ticket = answers.ask_verdict(conn, now);
                waiting.asked = Some(ticket);
                let connect = connect_again(&waiting.connect);
                sink.authenticate(AuthRequest {
                    conn,
                    ticket,
                    step: AuthStep::Continue,
                    client_id: connect.map_or("", |connect| connect.client_id),
                    user_name: None,
                    password: None,
                    method,
                    data,
                });
                Ok(Next::Continue)
            }
            Packet::Disconnect(disconnect) => {
                self.tell_left(conn, Some(disconnect.reason), sink);
                self.drop_connection(conn);
                sink.close(conn);
                Ok(Next::Continue)
            }
            _ => Err(Refusal::protocol("a packet before the client is authenticated")),
        }
    }

    /// AUTH on a live connection: re-authentication, with the method of CONNECT.
    pub(super) fn on_auth(
        &mut self,
        conn: ConnKey,
        auth: &Auth<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let Self { connections, clients, answers, .. } = self;
        let live = connections.get_mut(conn).and_then(Connection::live_mut);
        let Some(live) = live else { return Ok(()) };
        let client_id = &*clients[live.session].client_id;
        let (method, data) = parts(auth);
        let cold = live.cold.as_mut();
        // [MQTT-4.12.1-1]
        let Some(cold) = cold.filter(|e| method.is_some() && e.auth_method.as_deref() == method)
        else {
            return Err(Refusal::protocol("AUTH without the method of CONNECT"));
        };
        let step = match (auth.reason, cold.authenticated_by.is_some()) {
            (ReasonCode::ReAuthenticate, false) => AuthStep::Again,
            (ReasonCode::ContinueAuthentication, true) if cold.asked.is_none() => {
                AuthStep::Continue
            }
            _ => return Err(Refusal::protocol("AUTH out of turn")),
        };
        let ticket = answers.ask_verdict(conn, now);
        cold.asked = Some(ticket);
        if step == AuthStep::Again {
            let timeout_s = self.bounds.limits.connect_timeout_s;
            cold.authenticated_by = Some(now + Micros::from_secs(timeout_s));
        }
        let (user_name, password) = (None, None);
        sink.authenticate(AuthRequest {
            conn,
            ticket,
            step,
            client_id,
            user_name,
            password,
            method,
            data,
        });
        if step == AuthStep::Again {
            self.set_deadline(conn, now);
        }
        Ok(())
    }
}

fn parts<'a>(auth: &Auth<'a>) -> (Option<&'a str>, &'a [u8]) {
    let (mut method, mut data) = (None, &[][..]);
    for property in auth.properties.iter() {
        match property {
            Property::AuthenticationMethod(text) => method = Some(text),
            Property::AuthenticationData(bytes) => data = bytes,
            _ => {}
        }
    }
    (method, data)
}

fn auth_bytes(reason: ReasonCode, method: Option<&str>, data: &[u8]) -> Vec<u8> {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::AuthenticationMethod(method.unwrap_or_default()));
    if !data.is_empty() {
        properties.push(Property::AuthenticationData(data));
    }
    let mut bytes = Vec::new();
    Auth { reason, properties: properties.as_properties() }.encode(Version::V5, &mut bytes);
    bytes
}
