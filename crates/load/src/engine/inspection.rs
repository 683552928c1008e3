//! Whether a delivery is the message that was published, in every part that a subscriber sees.

use crate::outcome::Altered;
use crate::payload::blank_of;
use crate::plan::{Group, Plan};
use crate::publisher::Publisher;
use crate::schedule::{Schedule, Stream};
use crate::stamp::{STAMP_BYTES, Stamp, TEXT_BEGIN, TEXT_BYTES};
use crate::template::expand;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use weir_wire::packet::Publish;
use weir_wire::topic::TopicFilter;
use weir_wire::{PacketId, QoS};

/// The QoS that the clients of a group subscribe with.
#[derive(Debug)]
enum Asked {
    /// All their subscriptions have this one.
    One(QoS),
    /// They differ: filter templates, each with its own.
    Several(Vec<(String, QoS)>),
}

impl Asked {
    fn of(group: &Group) -> Self {
        let qos_of = |qos: u8| QoS::from_u8(qos).unwrap_or_default();
        let all = || group.subscriptions.iter().map(|one| qos_of(one.qos));
        match all().next() {
            Some(first) if all().any(|qos| qos != first) => {
                let each = group.subscriptions.iter();
                Self::Several(each.map(|one| (one.filter.clone(), qos_of(one.qos))).collect())
            }
            first => Self::One(first.unwrap_or_default()),
        }
    }
}

/// Who a delivery came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listener {
    /// Its group, and its index there.
    pub(super) group: u16,
    pub(super) index: u32,
    /// When it last asked for its subscriptions, and when they were granted.
    pub(super) asked_us: u64,
    pub(super) subscribed_us: u64,
    /// Whether it subscribed anew while no message of QoS 1 or 2 was open: all that had been sent
    /// was with the broker.
    pub(super) was_quiet: bool,
}

/// What every delivery and every SUBACK is compared with.
#[derive(Debug)]
pub(crate) struct Inspection {
    run: u16,
    /// By schedule: a payload, whose beginning is where each message has its stamp.
    payloads: Vec<Vec<u8>>,
    /// Empty until publishing begins.
    schedules: Vec<Schedule>,
    /// By group.
    asked: Vec<Asked>,
    /// SUBSCRIBEs under way of clients whose subscriptions differ in QoS.
    requests: HashMap<(u32, PacketId), QoS, FixedState>,
}

impl Inspection {
    pub(super) fn new(plan: &Plan, streams: &[Stream<'_>]) -> Self {
        let payloads = streams.iter().map(|stream| blank_of(stream.publish));
        Self {
            run: plan.run,
            payloads: payloads.collect(),
            schedules: Vec::new(),
            asked: plan.groups.iter().map(Asked::of).collect(),
            requests: HashMap::default(),
        }
    }

    /// Publishing begins by these schedules.
    pub(super) fn begin(&mut self, schedules: &[Schedule]) {
        self.schedules = schedules.to_vec();
    }

    /// A client asked for this QoS.
    pub(super) fn note_request(&mut self, client: u32, group: u16, packet_id: PacketId, qos: QoS) {
        if matches!(self.asked[usize::from(group)], Asked::Several(_)) {
            self.requests.insert((client, packet_id), qos);
        }
    }

    /// The QoS that a SUBACK has to grant, if that is known.
    pub(super) fn take_request(
        &mut self,
        client: u32,
        group: u16,
        packet_id: PacketId,
    ) -> Option<QoS> {
        match self.asked[usize::from(group)] {
            Asked::One(qos) => Some(qos),
            Asked::Several(_) => self.requests.remove(&(client, packet_id)),
        }
    }

    /// What of a delivery is not as it was published.
    #[inline]
    pub(super) fn altered(
        &self,
        publisher: &Publisher,
        to: Listener,
        stamp: Stamp,
        publish: &Publish<'_>,
    ) -> Altered {
        let wrong = |is_wrong: bool| u64::from(is_wrong);
        Altered {
            topic: wrong(publish.topic != &*publisher.topic),
            length: wrong(publish.payload.len() != publisher.payload_bytes as usize),
            content: wrong(!self.is_content(publisher, stamp, publish.payload)),
            qos: wrong(!self.is_qos(publisher, to, publish)),
            retain: wrong(!is_retain(publisher, to, stamp, publish.retain)),
        }
    }

    /// Whether what there is of the payload is what was published, the time in the stamp too.
    #[inline]
    fn is_content(&self, publisher: &Publisher, stamp: Stamp, payload: &[u8]) -> bool {
        let at = publisher.schedule as usize;
        let from = if publisher.is_json { TEXT_BYTES } else { STAMP_BYTES };
        let to = payload.len().min(publisher.payload_bytes as usize);
        let (Some(came), Some(went)) = (payload.get(from..to), self.payloads[at].get(from..to))
        else {
            return false;
        };
        // An agent elsewhere may have begun by another clock.
        let is_timed = !publisher.is_here() || {
            let due_us = self.schedules.get(at).map(|schedule| {
                if publisher.is_will {
                    0
                } else {
                    schedule.intended_of(publisher.place, stamp.sequence)
                }
            });
            due_us == Some(stamp.intended_us)
        };
        came == went && is_timed && payload.starts_with(TEXT_BEGIN) == publisher.is_json
    }

    /// At the lower of the QoS it was published and subscribed to with.
    #[inline]
    fn is_qos(&self, publisher: &Publisher, to: Listener, publish: &Publish<'_>) -> bool {
        match &self.asked[usize::from(to.group)] {
            Asked::One(qos) => publish.qos == publisher.qos.min(*qos),
            Asked::Several(each) => self.is_qos_of_any(each, publisher, to, publish),
        }
    }

    /// Where filters overlap, a broker may deliver by any of them.
    #[cold]
    fn is_qos_of_any(
        &self,
        each: &[(String, QoS)],
        publisher: &Publisher,
        to: Listener,
        publish: &Publish<'_>,
    ) -> bool {
        each.iter().any(|(template, qos)| {
            let filter = expand(template, to.index, self.run);
            publish.qos == publisher.qos.min(*qos)
                && TopicFilter::parse(&filter).is_some_and(|f| f.matches(&publisher.topic))
        })
    }
}

/// Whether the RETAIN flag can be: set of a stored message that a subscription brings, clear of
/// one that is published to it [MQTT-3.3.1-8, MQTT-3.3.1-9 of 3.1.1]. In between, where a message
/// and a SUBSCRIBE pass each other, it may be either.
#[inline]
fn is_retain(publisher: &Publisher, to: Listener, stamp: Stamp, is_retained: bool) -> bool {
    match (is_retained, publisher.retain) {
        (false, false) => true,
        (true, false) => false,
        (true, true) => {
            publisher.is_will || !publisher.is_clocked || stamp.intended_us <= to.subscribed_us
        }
        (false, true) => {
            let is_known = publisher.is_here() && !publisher.is_will && to.was_quiet;
            let sent_us = publisher.delay_us(stamp.sequence).map(|us| stamp.intended_us + us);
            let is_stored = sent_us.is_some_and(|sent_us| sent_us < to.asked_us);
            publisher.qos == QoS::AtMostOnce || !is_known || !is_stored
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Subscription;
    use crate::schedule::streams;
    use weir_wire::Properties;

    const LISTENER: Listener =
        Listener { group: 0, index: 3, asked_us: 1_000, subscribed_us: 2_000, was_quiet: true };

    /// Publishes to `t/3` with retain at QoS 2; sent up to sequence 2, one second after each was
    /// due.
    fn publisher(retain: bool) -> Publisher {
        let publish = crate::plan::Publish {
            qos: 2,
            rate_per_s: 1.0,
            payload_bytes: 20,
            retain,
            ..Default::default()
        };
        let mut publisher = Publisher::new(0, "t/3".into(), &publish, 0, (0, 1));
        (0..3).for_each(|_| publisher.note_send(100));
        publisher
    }

    fn stamp(intended_us: u64) -> Stamp {
        Stamp { run: 1, publisher: 0, sequence: 1, intended_us }
    }

    #[test]
    fn what_is_published_to_a_subscription_is_not_retained_and_what_is_stored_is() {
        let (plain, retains) = (publisher(false), publisher(true));
        let is = |publisher: &Publisher, due_us, flag| {
            is_retain(publisher, LISTENER, stamp(due_us), flag)
        };
        assert!(is(&plain, 500, false) && !is(&plain, 500, true));
        // Sent before SUBSCRIBE, between it and SUBACK, and after both.
        assert!(is(&retains, 500, true) && !is(&retains, 500, false));
        assert!(is(&retains, 899, true) && !is(&retains, 899, false));
        assert!(is(&retains, 900, true) && is(&retains, 900, false));
        assert!(is(&retains, 2_000, true) && is(&retains, 2_000, false));
        assert!(!is(&retains, 2_001, true) && is(&retains, 2_001, false));
    }

    #[test]
    fn where_nobody_can_know_either_retain_flag_is_right() {
        let either = |publisher: &Publisher, to, due_us| {
            [true, false].map(|flag| is_retain(publisher, to, stamp(due_us), flag))
        };
        let busy = Listener { was_quiet: false, ..LISTENER };
        assert_eq!(either(&publisher(true), busy, 500), [true, true]);
        let elsewhere = publisher(true).elsewhere(3, true);
        assert_eq!(either(&elsewhere, LISTENER, 500), [true, true]);
        assert_eq!(either(&elsewhere, LISTENER, 3_000), [false, true], "they share a clock");
        let unclocked = publisher(true).elsewhere(3, false);
        assert_eq!(either(&unclocked, LISTENER, 3_000), [true, true]);
        let mut will = publisher(true);
        will.is_will = true;
        assert_eq!(either(&will, LISTENER, 500), [true, true]);
        assert_eq!(either(&will, LISTENER, 3_000), [true, true]);
        let mut at_most_once = publisher(true);
        at_most_once.qos = QoS::AtMostOnce;
        assert_eq!(either(&at_most_once, LISTENER, 500), [true, true]);
    }

    /// A plan of one group that subscribes so, and publishes 20 bytes to `t/{i}`.
    fn plan(subscriptions: &[(&str, u8)]) -> Plan {
        let mut plan = crate::plan::slice::tests::plan(&[(4, false)]);
        let group = &mut plan.groups[0];
        group.subscriptions =
            subscriptions.iter().map(|&(filter, qos)| Subscription::plain(filter, qos)).collect();
        group.publish = Some(crate::plan::Publish {
            topic: "t/{i}".into(),
            rate_per_s: 1.0,
            payload_bytes: 20,
            ..Default::default()
        });
        plan
    }

    #[test]
    fn where_filters_differ_in_qos_those_that_match_may_decide() {
        let plan = plan(&[("t/{i}", 1), ("t/#", 0), ("u", 2)]);
        let mut inspection = Inspection::new(&plan, &streams(&plan, 0));
        let of = |qos| {
            let publish = Publish {
                dup: false,
                qos,
                retain: false,
                topic: "t/3",
                packet_id: None,
                properties: Properties::EMPTY,
                payload: &[],
            };
            inspection.is_qos(&publisher(false), LISTENER, &publish)
        };
        assert_eq!(
            [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce].map(of),
            [true, true, false]
        );
        let first = PacketId::FIRST;
        inspection.note_request(7, 0, first, QoS::AtLeastOnce);
        inspection.note_request(7, 0, first.next(), QoS::AtMostOnce);
        assert_eq!(inspection.take_request(7, 0, first.next()), Some(QoS::AtMostOnce));
        assert_eq!(inspection.take_request(7, 0, first), Some(QoS::AtLeastOnce));
        assert_eq!(inspection.take_request(7, 0, first), None);
    }

    #[test]
    fn content_is_the_template_and_the_time_that_the_message_was_due() {
        let plan = plan(&[("t/#", 1)]);
        let all = streams(&plan, 5_000_000);
        let mut inspection = Inspection::new(&plan, &all);
        let schedules: Vec<Schedule> = all.iter().map(|stream| stream.schedule).collect();
        inspection.begin(&schedules);
        let mut here = publisher(false);
        let due_us = schedules[0].intended_of(0, 1);
        let mut payload = vec![b'.'; 20];
        stamp(due_us).write(&mut payload);
        let is = |publisher: &Publisher, due_us, payload: &[u8]| {
            inspection.is_content(publisher, stamp(due_us), payload)
        };
        assert!(is(&here, due_us, &payload) && !is(&here, due_us + 1, &payload));
        assert!(is(&here, due_us, &payload[..16]), "what is there is right; the length is told");
        assert!(!is(&here, due_us, b"{\"w\":\".............."), "text where bytes were sent");
        payload[19] ^= 1;
        assert!(!is(&here, due_us, &payload));
        payload[19] ^= 1;
        assert!(is(&publisher(false).elsewhere(3, true), due_us + 1, &payload), "its own clock");
        here.is_will = true;
        assert!(is(&here, 0, &payload) && !is(&here, due_us, &payload));
        here.is_json = true;
        assert!(!is(&here, 0, &payload), "shorter than its stamp");
    }
}
