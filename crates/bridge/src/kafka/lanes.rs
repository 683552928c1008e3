//! What waits for each partition, and what of it goes there next.
//!
//! Of each partition one batch is on its way, so that what fails cannot be overtaken.

use super::settings::Batch;
use rskafka::record::Record;
use std::collections::{BTreeSet, VecDeque};

/// A record on its way.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) record: Record,
    /// What it takes in a batch.
    pub(crate) bytes: usize,
    /// The message that is acknowledged when the record is; none at QoS 0.
    pub(crate) source: Option<u64>,
}

/// Those of one partition.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Item>,
    waiting_bytes: usize,
    /// When the first of them came.
    since_us: u64,
    /// A batch is on its way.
    is_busy: bool,
}

/// Those of all partitions, each named by its index.
#[derive(Debug)]
pub(crate) struct Lanes {
    all: Vec<Lane>,
    /// Those that something waits in and nothing is on its way of.
    idle: BTreeSet<usize>,
    /// Of all that waits and is on its way.
    bytes: usize,
    batch: Batch,
}

impl Lanes {
    pub(crate) fn new(count: usize, batch: Batch) -> Self {
        let all = (0..count).map(|_| Lane::default()).collect();
        Self { all, idle: BTreeSet::new(), bytes: 0, batch }
    }

    /// Bytes that wait or are on their way.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, at: usize, item: Item, now_us: u64) {
        let lane = &mut self.all[at];
        if lane.waiting.is_empty() {
            lane.since_us = now_us;
        }
        self.bytes += item.bytes;
        lane.waiting_bytes += item.bytes;
        lane.waiting.push_back(item);
        if !lane.is_busy {
            self.idle.insert(at);
        }
    }

    /// When [`Lanes::take`] has something, if it is not full before.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        self.idle.iter().map(|&at| self.due_us(&self.all[at])).min()
    }

    fn due_us(&self, lane: &Lane) -> u64 {
        let Batch { messages_max, bytes_max, linger } = self.batch;
        let is_full = lane.waiting.len() >= messages_max || lane.waiting_bytes >= bytes_max;
        if is_full { 0 } else { lane.since_us + linger.as_micros() as u64 }
    }

    /// A batch that is to go now, and its partition.
    pub(crate) fn take(&mut self, now_us: u64) -> Option<(usize, Vec<Item>)> {
        let is_due = |at: &&usize| self.due_us(&self.all[**at]) <= now_us;
        let at = *self.idle.iter().find(is_due)?;
        self.idle.remove(&at);
        let Batch { messages_max, bytes_max, .. } = self.batch;
        let lane = &mut self.all[at];
        let (mut items, mut bytes) = (Vec::new(), 0);
        while items.len() < messages_max
            && let Some(item) = lane
                .waiting
                .pop_front_if(|next| items.is_empty() || bytes + next.bytes <= bytes_max)
        {
            bytes += item.bytes;
            items.push(item);
        }
        lane.waiting_bytes -= bytes;
        (lane.is_busy, lane.since_us) = (true, now_us);
        Some((at, items))
    }

    /// A batch of so many bytes is settled.
    pub(crate) fn settled(&mut self, at: usize, bytes: usize) {
        self.bytes -= bytes;
        let lane = &mut self.all[at];
        lane.is_busy = false;
        if !lane.waiting.is_empty() {
            self.idle.insert(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const BATCH: Batch =
        Batch { messages_max: 3, bytes_max: 100, linger: Duration::from_micros(10) };

    fn item(number: u64, bytes: usize) -> Item {
        let record = Record {
            key: None,
            value: None,
            headers: Default::default(),
            timestamp: Default::default(),
        };
        Item { record, bytes, source: Some(number) }
    }

    fn taken(lanes: &mut Lanes, now_us: u64) -> Option<(usize, Vec<u64>)> {
        let (at, items) = lanes.take(now_us)?;
        Some((at, items.iter().filter_map(|item| item.source).collect()))
    }

    #[test]
    fn a_batch_goes_when_it_is_full_or_old() {
        let mut lanes = Lanes::new(2, BATCH);
        lanes.push(0, item(1, 10), 100);
        assert_eq!((lanes.poll_timeout(), taken(&mut lanes, 109)), (Some(110), None));
        assert_eq!(taken(&mut lanes, 110), Some((0, vec![1])), "it has waited");
        for number in 2..6 {
            lanes.push(0, item(number, 10), 111);
            lanes.push(1, item(10 + number, 60), 111);
        }
        assert_eq!(taken(&mut lanes, 111), Some((1, vec![12])), "two are too many bytes");
        assert_eq!(taken(&mut lanes, 111), None, "each has one on its way");
        assert_eq!(lanes.poll_timeout(), None);
        lanes.settled(0, 10);
        assert_eq!(taken(&mut lanes, 111), Some((0, vec![2, 3, 4])), "three are many enough");
        lanes.settled(0, 30);
        assert_eq!(taken(&mut lanes, 120), None);
        assert_eq!(taken(&mut lanes, 121), Some((0, vec![5])));
        assert_eq!(lanes.bytes(), 10 + 240);
    }

    #[test]
    fn what_is_longer_than_a_batch_goes_alone() {
        let mut lanes = Lanes::new(1, BATCH);
        lanes.push(0, item(1, 5_000), 0);
        lanes.push(0, item(2, 1), 0);
        assert_eq!(taken(&mut lanes, 0), Some((0, vec![1])));
    }

    proptest! {
        /// Whatever comes and is settled when: each partition gets what is its own, once, in order,
        /// one batch at a time within the bounds.
        #[test]
        fn each_partition_gets_its_records_in_order(
            steps in prop::collection::vec((0_usize..3, 1_usize..60, any::<bool>()), 1..200),
        ) {
            let mut lanes = Lanes::new(3, BATCH);
            let (mut sent, mut had) = (vec![Vec::new(); 3], vec![Vec::new(); 3]);
            let mut away = Vec::new();
            let mut now_us = 0;
            for (number, (at, bytes, is_settled)) in steps.into_iter().enumerate() {
                now_us += 1;
                lanes.push(at, item(number as u64, bytes), now_us);
                sent[at].push(number as u64);
                while let Some((at, items)) = lanes.take(now_us) {
                    let bytes: usize = items.iter().map(|item| item.bytes).sum();
                    prop_assert!(items.len() <= 3 && bytes <= 100);
                    prop_assert!(away.iter().all(|(other, _)| *other != at));
                    away.push((at, bytes));
                    had[at].extend(items.iter().filter_map(|item| item.source));
                }
                if is_settled && let Some((at, bytes)) = away.pop() {
                    lanes.settled(at, bytes);
                }
            }
            loop {
                for (at, bytes) in away.drain(..) {
                    lanes.settled(at, bytes);
                }
                now_us += 10;
                let Some((at, items)) = lanes.take(now_us) else { break };
                away.push((at, items.iter().map(|item| item.bytes).sum()));
                had[at].extend(items.iter().filter_map(|item| item.source));
            }
            prop_assert_eq!(sent, had);
            prop_assert_eq!(lanes.bytes(), 0);
        }
    }
}
