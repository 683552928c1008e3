//! What a session that leaves gets where it was, while it gets it where it goes as well.

use super::super::Shard;
use crate::message::Delivery;
use crate::routing::Subscriber;
use weir_wire::QoS;

impl Shard {
    /// Takes out sessions that do not get what is routed while they move.
    #[cold]
    pub(in super::super) fn leave_out_moving(
        &mut self,
        subscribers: &mut Vec<Subscriber>,
        delivery: &mut Delivery<'_>,
    ) {
        let is_behind =
            delivery.is_gathered || self.stands_behind(delivery.publisher, delivery.retain);
        let Self { claims, place, pool, bounds, .. } = self;
        subscribers.retain(|subscriber| {
            let key = subscriber.session;
            if !claims.leaves_out(key, place.id, is_behind) {
                return true;
            }
            let Some(leaving) = claims.leaving_mut(key).filter(|it| it.keeps_all) else {
                return false;
            };
            let is_queued = subscriber.qos.min(delivery.qos) > QoS::AtMostOnce;
            if is_queued && !leaving.is_sealed {
                leaving.note_twice(delivery.lent(pool), bounds.limits.queue_messages_max);
            }
            is_queued
        });
    }
}
