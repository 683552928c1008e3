//! Questions of whoever runs the broker: which clients there are, and the end of one of them.

use super::Shard;
use super::connection::Refusal;
use crate::ask::{ClientPage, ClientState, ConnectionState, Kicked};
use crate::keys::{Micros, SessionKey};
use crate::queue::Queue;
use crate::sink::Sink;
use weir_wire::ReasonCode;

/// Places of sessions, or empty pages of such places, that one call looks at. So a page of clients
/// takes a bounded time in a table that was once much larger.
const PLACES_MAX: usize = 4096;

impl Shard {
    /// Clients of this shard, at most `clients_max`, from a place that [`ClientPage::next`] said;
    /// the first page is from 0. A page may be short of clients, and even empty, with more behind
    /// it. A session that is there all the time is on exactly one page.
    pub fn clients(&self, from: u32, clients_max: usize) -> ClientPage {
        let mut page = ClientPage::default();
        let mut at = from as usize;
        for _ in 0..PLACES_MAX {
            if at >= self.clients.end() {
                return page;
            }
            if page.clients.len() == clients_max {
                break;
            }
            at = match self.clients.at(at) {
                Ok(_) => {
                    page.clients.push(self.state_of(SessionKey(at as u32)));
                    at + 1
                }
                Err(next) => next,
            };
        }
        page.next = (at < self.clients.end()).then_some(at as u32);
        page
    }

    /// The client of this identifier, if this shard has it.
    pub fn client(&self, client_id: &str) -> Option<ClientState> {
        let key = self.clients.find(client_id)?;
        Some(self.state_of(key))
    }

    /// Ends the connection of a client because a person wants it: DISCONNECT 0x98 where the
    /// protocol has it. Its will is sent, and its session is kept if it outlives the connection.
    pub fn kick(&mut self, client_id: &str, now: Micros, sink: &mut impl Sink) -> Kicked {
        let Some(key) = self.clients.find(client_id) else { return Kicked::Unknown };
        let Some(conn) = self.connection_of(key) else { return Kicked::Absent };
        self.end(conn, Refusal::new(ReasonCode::AdministrativeAction, ""), now, sink);
        self.settle(now, sink);
        self.come_to_rest(now, sink);
        Kicked::Ended
    }

    fn state_of(&self, key: SessionKey) -> ClientState {
        let session = &self.clients[key];
        let user = self.clients.rights.as_ref().and_then(|rights| rights.user(key)?.name());
        let connection = session.attachment.and_then(|attachment| {
            let live = self.connections.live(attachment.conn)?;
            Some(ConnectionState { version: attachment.version, keep_alive_s: live.keep_alive_s })
        });
        let (queued_messages, queued_bytes) = session.queue().map_or((0, 0), Queue::total);
        ClientState {
            client_id: (*session.client_id).into(),
            user: user.map(Into::into),
            connection,
            session_expiry_s: session.expiry_s,
            subscriptions: session.subscriptions().len() as u32,
            queued_messages,
            queued_bytes,
            in_flight: session.window.open(),
        }
    }
}
