//! Wills of a lost node's clients: who knows of them.

use super::super::World;
use super::super::journal::Logged;
use super::Copies;
use crate::message::Message;
use crate::model::Orphan;
use crate::names::{ClientNo, MessageNo};
use std::ops::Range;
use weir_core::{Claim, Lsn, Micros, Record};

/// How long a will from a log waits for other nodes, as the core has it.
pub(super) const WILL_WAITS: Micros = Micros(8_000_000);

/// A will that a shard knows of, of another node's client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    pub(super) holder: usize,
    pub(super) claim: Claim,
    pub(super) message: MessageNo,
    pub(super) wait_s: u32,
    /// The client has come to another node, with a clean start or not.
    pub(super) came: Option<bool>,
}

impl World {
    /// The wills that a shard knows of a lost node's clients are to be published by it.
    pub(super) fn orphan_wills(&mut self, shard: usize, lost: &Range<usize>) {
        let now = self.now();
        let is_its =
            |&(at, _): &(usize, ClientNo), it: &mut Watch| at == shard && lost.contains(&it.holder);
        let wills: Vec<_> = self.copies.watched.extract_if(.., is_its).collect();
        for ((_, client), Watch { message, wait_s, came, .. }) in wills {
            let due = match came {
                Some(false) if wait_s > 0 => continue,
                Some(true) => now,
                _ => now + Micros::from_secs(wait_s),
            };
            self.model.orphan(Orphan { client, message, due, shard });
        }
    }
}

impl Copies {
    /// A shard hears that a client has come to another than whose will it knows of.
    pub(super) fn came(
        &mut self,
        whose: (usize, ClientNo),
        (claim, from): (Claim, usize),
        is_clean: bool,
    ) {
        let is_elsewhere = |it: &Watch| it.claim < claim && it.holder != from;
        if let Some(it) = self.watched.get_mut(&whose).filter(|it| is_elsewhere(it)) {
            it.came = Some(it.came.unwrap_or_default() | is_clean);
        }
    }
}

/// Which will of this client the logs of a node have, whose session they have, and by which claim
/// that had come; nothing if they do not have it.
pub(super) fn logged_of(
    logs: &[Vec<Logged>],
    client: ClientNo,
) -> Option<(Option<MessageNo>, Claim)> {
    let (mut last, mut has, mut claimed) = (None, None, Claim::NONE);
    for logged in logs.iter().flatten() {
        match logged.record() {
            Record::Session { session, client_id, will, .. }
                if ClientNo::of(client_id) == Some(client) =>
            {
                has = will.and_then(|will| Message::number(will.payload));
                if session == Lsn::NONE {
                    (last, claimed) = (Some(logged.lsn), Claim::NONE);
                }
            }
            Record::Claimed { session, claim } if last == Some(session) => claimed = claim,
            Record::Gone { session } if last == Some(session) => last = None,
            _ => {}
        }
    }
    last.map(|_| (has, claimed))
}
