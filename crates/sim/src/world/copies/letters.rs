//! What letters about sessions say, as the books follow them.

use super::super::World;
use super::super::line::{BrokerEnd, Line};
use super::wills::Watch;
use crate::message::Message;
use crate::names::{ClientNo, MessageNo};
use weir_core::{Claim, Mail, SessionMail};

impl World {
    /// A shard may claim a session for no client.
    pub(in super::super) fn note_adoption(&mut self, shard: usize, mail: &Mail) {
        if let Mail::Session(SessionMail::Claim { client_id, claim, is_clean, .. }) = mail
            && let Some(client) = ClientNo::of(client_id)
        {
            if self.copies.is_told || self.is_adopting(shard, client) {
                self.copies.adoptions.insert((shard, client), *claim);
            } else {
                self.copies.adoptions.remove(&(shard, client));
                self.copies.came((shard, client), (*claim, shard), *is_clean);
            }
        }
    }

    /// Whether a shard claims a session anew that it has claimed for no client, who has not come
    /// since.
    pub(in super::super) fn is_adopting(&self, shard: usize, client: ClientNo) -> bool {
        let asks = |line: &Line| {
            line.client == client
                && matches!(line.end, BrokerEnd::At(at, _) if at == shard)
                && self.model.conns[line.number.0].asking.is_some()
        };
        self.copies.adoptions.contains_key(&(shard, client)) && !self.lines.iter().any(asks)
    }

    /// What a letter of sessions says to whom it comes to.
    pub(in super::super) fn follow_letter(&mut self, from: usize, to: usize, mail: &Mail) {
        let Mail::Session(mail) = mail else { return };
        self.copies.is_told = matches!(mail, SessionMail::Held { .. });
        match mail {
            SessionMail::Will { client_id, claim, will, wait_s } => {
                let (Some(client), Some(message)) = (ClientNo::of(client_id), message_of(will))
                else {
                    return;
                };
                if *claim == Claim::NONE && self.model.has_orphan(client, to) {
                    return;
                }
                let (claim, wait_s, came) = (*claim, *wait_s, None);
                let watch = Watch { holder: from, claim, message, wait_s, came };
                self.copies.watched.insert((to, client), watch);
            }
            SessionMail::WillOver { client_id } => {
                let Some(client) = ClientNo::of(client_id) else { return };
                if self.copies.watched.get(&(to, client)).is_some_and(|it| it.holder == from) {
                    self.copies.watched.remove(&(to, client));
                }
            }
            SessionMail::Unwatch => {
                self.copies.watched.retain(|(at, _), it| *at != to || it.holder != from);
            }
            SessionMail::Claim { client_id, claim, is_clean, .. } => {
                let Some(client) = ClientNo::of(client_id) else { return };
                self.copies.came((to, client), (*claim, from), *is_clean);
            }
            SessionMail::Leaving { claim, .. } => {
                let Some(&client) = self.claims.get(claim) else { return };
                if self.copies.adoptions.get(&(to, client)) == Some(claim) {
                    self.copies.adopted.insert(client);
                } else {
                    self.copies.adopted.remove(&client);
                }
            }
            SessionMail::WillTaken { client_id, .. } => {
                let client = ClientNo::of(client_id);
                client.into_iter().for_each(|client| self.model.will_taken(client, to));
            }
            SessionMail::Stays { claim, .. } => {
                if let Some(&client) = self.claims.get(claim) {
                    self.model.stays(client, to);
                }
            }
            SessionMail::Taken { claim } => {
                // Else it has stayed meanwhile, and leaves by another claim.
                if let Some(&client) = self.claims.get(claim)
                    && self.copies.leaving.get(&client) == Some(claim)
                {
                    self.model.taken(client, to);
                }
            }
            _ => {}
        }
    }
}

/// The message of a will in a letter: behind its flags and topic, whose lengths take a byte each.
fn message_of(will: &[u8]) -> Option<MessageNo> {
    let topic = usize::from(*will.get(1)?);
    let payload = usize::from(*will.get(2 + topic)?);
    Message::number(will.get(3 + topic..3 + topic + payload)?)
}
