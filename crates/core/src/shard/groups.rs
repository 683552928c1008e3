//! Shared subscriptions: each message to one member of each group, on whichever shard.
//!
//! Every shard knows the members of every group. The shard that routes a message chooses one for
//! each group, here or there; the others choose only if the chosen one left, or cannot take it,
//! while the mail was on its way. So no message goes to two members, and none is lost while the
//! group has one.

use super::Shard;
use crate::keys::{Micros, SessionKey};
use crate::mail::{GroupPick, Mail};
use crate::message::Delivery;
use crate::routing::{FilterId, HOPS_MAX, Picked, Standing, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use smallvec::SmallVec;
use std::sync::Arc;

impl Shard {
    /// Delivers to the members chosen here, and notes those chosen on other shards for
    /// [`Shard::mail_to_shards`].
    pub(super) fn deliver_to_groups(
        &mut self,
        id: FilterId,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Self { filters, sessions, output_bytes_max, picks, .. } = self;
        let standing = |member: &Subscriber| {
            standing(&sessions[member.session.0 as usize], *output_bytes_max, sink)
        };
        let publisher = delivery.publisher.map(|key| sessions[key.0 as usize].client_id.as_bytes());
        filters.pick(id, delivery.topic, publisher, standing, picks);
        while let Some(member) = self.picks.here.pop() {
            self.deliver_to_one(&member, delivery, now, sink);
        }
    }

    /// Serves what another shard chose: [`GroupPick::member`], or who is chosen in its place.
    pub(super) fn deliver_pick(
        &mut self,
        pick: GroupPick,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Self { filters, sessions, output_bytes_max, .. } = self;
        let standing = |member: &Subscriber| {
            standing(&sessions[member.session.0 as usize], *output_bytes_max, sink)
        };
        match filters.pick_again(&pick, &delivery.content(), standing) {
            Some(Picked::Here(member)) => self.deliver_to_one(&member, delivery, now, sink),
            Some(Picked::There { shard, member }) if pick.hops < HOPS_MAX => {
                self.stats.shared_rechosen += 1;
                let pick = GroupPick { member, hops: pick.hops + 1, ..pick };
                self.picks.there.push((shard, pick));
            }
            Some(Picked::Unwanted) => {}
            _ => self.stats.dropped_no_member += 1,
        }
    }

    /// One letter to each other shard with subscribers to the `found` filters or chosen members.
    pub(super) fn mail_to_shards(
        &mut self,
        found: &[FilterId],
        delivery: &mut Delivery<'_>,
        sink: &mut impl Sink,
    ) {
        for shard in self.other_shards() {
            let to_subscribers = found.iter().any(|&id| self.filters.get(id).has_shard(shard));
            let is_for_it = |(to, _): &mut (_, _)| *to == shard;
            let picks: SmallVec<[GroupPick; 1]> =
                self.picks.there.extract_if(.., is_for_it).map(|(_, pick)| pick).collect();
            if to_subscribers || !picks.is_empty() {
                let message = Arc::clone(delivery.lent(&mut self.pool));
                let number = delivery.is_awaited.then(|| self.answers.mailed(shard));
                sink.mail(shard, Mail::Publish { message, to_subscribers, picks, number });
            }
        }
    }

    /// Tells the other shards whether the client is connected, for each group it is a member of.
    pub(super) fn tell_presence(&self, key: SessionKey, is_connected: bool, sink: &mut impl Sink) {
        if self.shards == 1 {
            return;
        }
        for &record in self.sessions[key.0 as usize].subscriptions().iter() {
            let Some((share, member)) = self.filters.membership(record) else { continue };
            for shard in self.other_shards() {
                let share = Arc::clone(&share);
                sink.mail(shard, Mail::Presence { share, member, is_connected });
            }
        }
    }
}

/// Whether a delivery would be sent at once.
pub(super) fn standing(session: &Session, output_bytes_max: usize, sink: &impl Sink) -> Standing {
    let Some(link) = session.link else { return Standing::Absent };
    let is_ready = session.queue_is_empty()
        && session.window.has_room(link.open_max)
        && sink.pending(link.conn) <= output_bytes_max;
    if is_ready { Standing::Ready } else { Standing::Busy }
}
