//! What each connection sends and gets, counted while somebody asks who does most.
//!
//! The counts are exact, in a list by connection that is as long as it has to be: a sum for each
//! packet costs less than a table of the largest would, which has to throw out the smallest again
//! and again where many clients talk alike.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use weir_control::{TALKERS_MAX, Talker, Tally, Traffic};
use weir_core::ConnKey;
use weir_wire::{Frame, PacketKind};

/// Clients that have left meanwhile and are told of; what others have sent is in the total alone.
const GONE_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Top {
    by_conn: Vec<Traffic>,
    /// Of clients that have left, by client identifier.
    gone: HashMap<Box<str>, Traffic>,
    /// Of connections that nobody can name any more.
    nameless: Traffic,
}

/// How many of these packets are PUBLISH, and how many bytes they all have.
fn counted(mut bytes: &[u8]) -> (u64, u64) {
    let (mut messages, mut all) = (0, 0);
    while let Ok(Some(frame)) = Frame::check(bytes, u32::MAX) {
        messages += u64::from(frame.kind == PacketKind::Publish);
        all += frame.bytes as u64;
        bytes = &bytes[frame.bytes..];
    }
    (messages, all)
}

impl Top {
    fn of(&mut self, conn: ConnKey) -> &mut Traffic {
        let at = conn.0 as usize;
        if self.by_conn.len() <= at {
            self.by_conn.resize(at + 1, Traffic::default());
        }
        &mut self.by_conn[at]
    }

    /// The whole packets at the start of what came.
    pub(crate) fn came(&mut self, conn: ConnKey, bytes: &[u8]) {
        let (messages, bytes) = counted(bytes);
        let of = self.of(conn);
        of.messages_in += messages;
        of.bytes_in += bytes;
    }

    /// These were not taken, and come again.
    pub(crate) fn came_in_vain(&mut self, conn: ConnKey, bytes: &[u8]) {
        let (messages, bytes) = counted(bytes);
        let of = self.of(conn);
        of.messages_in = of.messages_in.saturating_sub(messages);
        of.bytes_in = of.bytes_in.saturating_sub(bytes);
    }

    /// A packet for a client, or several.
    pub(crate) fn sent(&mut self, conn: ConnKey, bytes: &[u8]) {
        let (messages, bytes) = counted(bytes);
        let of = self.of(conn);
        of.messages_out += messages;
        of.bytes_out += bytes;
    }

    /// A PUBLISH for a client.
    pub(crate) fn sent_publish(&mut self, conn: ConnKey, bytes: usize) {
        let of = self.of(conn);
        of.messages_out += 1;
        of.bytes_out += bytes as u64;
    }

    /// The client of this connection leaves.
    pub(crate) fn left(&mut self, conn: ConnKey, client_id: &str) {
        let is_known = self.gone.contains_key(client_id);
        if client_id.is_empty() || (!is_known && self.gone.len() >= GONE_MAX) {
            return;
        }
        let traffic = std::mem::take(self.of(conn));
        *self.gone.entry(client_id.into()).or_default() += traffic;
    }

    /// The connection is over, or another shard's.
    pub(crate) fn forget(&mut self, conn: ConnKey) {
        if let Some(of) = self.by_conn.get_mut(conn.0 as usize) {
            self.nameless += std::mem::take(of);
        }
    }

    /// What was counted; `who` says the client identifier and the user of a connection.
    pub(crate) fn tally<'a>(
        &self,
        who: impl Fn(ConnKey) -> Option<(&'a str, Option<&'a str>)>,
    ) -> Tally {
        let mut total = self.nameless;
        let gone: Vec<_> = self.gone.iter().collect();
        let all = || self.by_conn.iter().chain(gone.iter().map(|(_, traffic)| *traffic));
        all().for_each(|traffic| total += *traffic);
        let keys: [fn(&Traffic) -> u64; 6] = [
            |of| of.messages_in,
            |of| of.messages_out,
            |of| of.messages_in + of.messages_out,
            |of| of.bytes_in,
            |of| of.bytes_out,
            |of| of.bytes_in + of.bytes_out,
        ];
        let mut first: Vec<usize> = keys.iter().flat_map(|key| most(all().map(key))).collect();
        first.sort_unstable();
        first.dedup();
        let talker = |at: usize| match self.by_conn.get(at) {
            Some(&traffic) => {
                let (client_id, user) = who(ConnKey(at as u32))?;
                let user = user.map(str::to_owned);
                Some(Talker { client_id: client_id.to_owned(), user, traffic })
            }
            None => {
                let (client_id, &traffic) = *gone.get(at - self.by_conn.len())?;
                Some(Talker { client_id: client_id.to_string(), user: None, traffic })
            }
        };
        Tally { total, talkers: first.into_iter().filter_map(talker).collect() }
    }
}

/// The places of the largest, none of which is 0.
fn most(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    let mut largest = BinaryHeap::new();
    for (at, number) in numbers.enumerate().filter(|(_, number)| *number > 0) {
        if largest.len() < TALKERS_MAX.into() {
            largest.push((Reverse(number), at));
        } else if largest.peek().is_some_and(|(Reverse(least), _)| *least < number) {
            largest.pop();
            largest.push((Reverse(number), at));
        }
    }
    largest.into_iter().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::packet::Publish;
    use weir_wire::{Packet, Properties, QoS, Version};

    fn publish() -> Vec<u8> {
        let (dup, retain, properties) = (false, false, Properties::EMPTY);
        let (qos, packet_id) = (QoS::AtMostOnce, None);
        let payload = b"x";
        let mut bytes = Vec::new();
        Packet::Publish(Publish { dup, qos, retain, topic: "t", packet_id, properties, payload })
            .encode(Version::V311, &mut bytes);
        bytes
    }

    fn names(tally: &Tally) -> Vec<(&str, u64)> {
        let mut names: Vec<_> =
            tally.talkers.iter().map(|it| (&*it.client_id, it.traffic.messages_in)).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn packets_are_counted_whole_and_once() {
        let (mut top, conn) = (Top::default(), ConnKey(3));
        let ping = [0xC0, 0];
        let bytes = [&*publish(), &ping, &publish(), &publish()[..3]].concat();
        top.came(conn, &bytes);
        // All but the first packet comes again.
        top.came_in_vain(conn, &bytes[publish().len()..]);
        top.came(conn, &bytes[publish().len()..]);
        top.sent(conn, &[0xD0, 0]);
        top.sent_publish(conn, 100);
        let tally = top.tally(|_| Some(("c", Some("ann"))));
        let bytes_in = 2 * publish().len() as u64 + 2;
        let traffic = Traffic { messages_in: 2, messages_out: 1, bytes_in, bytes_out: 102 };
        assert_eq!(tally.total, traffic);
        let talker = Talker { client_id: "c".into(), user: Some("ann".into()), traffic };
        assert_eq!(tally.talkers, [talker]);
    }

    #[test]
    fn a_place_that_another_client_takes_over_is_not_its_own_before() {
        let (mut top, conn) = (Top::default(), ConnKey(0));
        for client_id in ["a", "b", "a"] {
            top.came(conn, &publish());
            top.left(conn, client_id);
            // DISCONNECT, for instance.
            top.came(conn, &[0xE0, 0]);
            top.forget(conn);
        }
        top.came(conn, &publish());
        let tally = top.tally(|_| Some(("c", None)));
        assert_eq!(names(&tally), [("a", 2), ("b", 1), ("c", 1)]);
        assert_eq!((tally.total.messages_in, tally.total.bytes_in), (4, 4 * 6 + 3 * 2));
    }

    #[test]
    fn so_many_of_each_order_are_told_and_those_that_left_are_bounded() {
        let mut top = Top::default();
        for at in 0..300 {
            (0..=at).for_each(|_| top.sent_publish(ConnKey(at), 1));
            top.came(ConnKey(at), &[0xC0, 0].repeat(300 - at as usize));
        }
        let names: Vec<String> = (0..300).map(|at| at.to_string()).collect();
        let tally = top.tally(|conn| Some((&*names[conn.0 as usize], None)));
        let told: Vec<u64> = tally.talkers.iter().map(|it| it.traffic.messages_out).collect();
        assert_eq!(told.len(), 2 * usize::from(TALKERS_MAX));
        assert!((1..=100).chain(201..=300).all(|count| told.contains(&count)), "{told:?}");
        for at in 0..2 * GONE_MAX {
            top.came(ConnKey(1), &[0xC0, 0]);
            top.left(ConnKey(1), &at.to_string());
            top.forget(ConnKey(1));
        }
        assert_eq!(top.gone.len(), GONE_MAX);
    }
}
