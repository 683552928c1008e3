//! The ledger: what publishers know to be acknowledged, what subscribers know to have come, and
//! what follows from both. It is a value: threads write parts of it, and it is read at the end.

use crate::names::Stream;
use serde::{Deserialize, Serialize};
use weir_wire::QoS;

/// What a publisher knows of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sending {
    is_acknowledged: bool,
    is_refused: bool,
    /// Its packet identifier was lost with the session and it was published anew, so nobody can
    /// say whether the broker had it already.
    is_in_doubt: bool,
}

/// The messages of one stream, as their publisher knows them; each has its number from 0 on.
#[derive(Clone, Debug, Default)]
pub struct Sent(Vec<Sending>);

impl Sent {
    /// One message more. Returns its number.
    pub fn publish(&mut self) -> u32 {
        self.0.push(Sending::default());
        self.0.len() as u32 - 1
    }

    /// The broker has taken responsibility: PUBACK or PUBREC. Says whether that is news.
    pub fn acknowledge(&mut self, number: u32) -> bool {
        let of = &mut self.0[number as usize];
        !std::mem::replace(&mut of.is_acknowledged, true)
    }

    /// The broker has said that it will not have it.
    pub fn refuse(&mut self, number: u32) {
        self.0[number as usize].is_refused = true;
    }

    /// It was published anew without its packet identifier.
    pub fn doubt(&mut self, number: u32) {
        self.0[number as usize].is_in_doubt = true;
    }

    /// How many were published.
    pub fn published(&self) -> u64 {
        self.0.len() as u64
    }

    /// How many of them each subscriber has to get.
    pub fn owed(&self) -> u64 {
        self.count(|of| of.is_acknowledged)
    }

    /// The highest number that was acknowledged.
    pub fn last_acknowledged(&self) -> Option<u32> {
        self.0.iter().rposition(|of| of.is_acknowledged).map(|at| at as u32)
    }

    fn count(&self, is: impl Fn(&Sending) -> bool) -> u64 {
        self.0.iter().filter(|of| is(of)).count() as u64
    }
}

/// What a subscriber has got of one stream.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// How often each number came.
    times: Vec<u8>,
    /// The highest number.
    last: Option<u32>,
    distinct: u64,
    out_of_order: u64,
}

impl Heard {
    /// A message came. Says whether it is the first time.
    pub fn deliver(&mut self, number: u32) -> bool {
        let at = number as usize;
        if self.times.len() <= at {
            self.times.resize(at + 1, 0);
        }
        self.times[at] = self.times[at].saturating_add(1);
        if self.times[at] > 1 {
            return false;
        }
        self.distinct += 1;
        // A message that comes again may be old: what counts is when each came first.
        self.out_of_order += u64::from(self.last > Some(number));
        self.last = self.last.max(Some(number));
        true
    }

    /// How many messages came, each counted once.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    fn times(&self, number: usize) -> u8 {
        self.times.get(number).copied().unwrap_or(0)
    }
}

/// A subscriber's part of the ledger.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// A row for each stream, in the order of [`Stream::all`].
    pub streams: Vec<Heard>,
    /// Deliveries that were not as they were published.
    pub altered: u64,
    /// Packet identifiers that stood for another message before its exchange was over. The
    /// receiver has to take such a message for the one before.
    pub reused_ids: u64,
}

/// What became of retained messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetainedTally {
    /// Updates that were acknowledged.
    pub acknowledged: u64,
    /// How often one was looked for after a crash.
    pub checked: u64,
    /// There was none.
    pub lost: u64,
    /// There was one from before the last that was acknowledged.
    pub old: u64,
}

impl RetainedTally {
    /// Looks at one topic: `wanted` was the last acknowledged, `found` is there.
    pub fn check(&mut self, wanted: Option<u32>, found: Option<u32>) {
        let Some(wanted) = wanted else { return };
        self.checked += 1;
        match found {
            None => self.lost += 1,
            Some(found) => self.old += u64::from(found < wanted),
        }
    }
}

/// What became of the messages of one QoS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QosTally {
    /// 1 or 2.
    pub qos: u8,
    /// Messages published.
    pub published: u64,
    /// Messages that the broker has refused by a reason code.
    pub refused: u64,
    /// Messages acknowledged: PUBACK at QoS 1, PUBREC at QoS 2.
    pub acknowledged: u64,
    /// Acknowledged messages that at least one subscriber never got.
    pub lost: u64,
    /// Deliveries of acknowledged messages: one for each subscriber.
    pub owed: u64,
    /// Those that never came.
    pub deliveries_lost: u64,
    /// Deliveries beyond the first of a message. QoS 1 permits them, QoS 2 does not.
    pub duplicated: u64,
    /// Deliveries at QoS 2 beyond the first of a message that was published anew after its
    /// publisher's session was lost.
    pub duplicated_in_doubt: u64,
    /// First deliveries that came behind a later message of the same publisher.
    pub out_of_order: u64,
    /// Subscribers that got none of the last messages, although the broker had granted the
    /// subscription and never said that it lost the session with it.
    pub subscriptions_lost: u64,
}

/// The whole ledger, read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// One for each QoS.
    pub qos: Vec<QosTally>,
    /// Of retained messages.
    pub retained: RetainedTally,
    /// Sessions of publishers that the broker no longer knew.
    pub publisher_sessions_lost: u64,
    /// Sessions of subscribers that the broker no longer knew.
    pub subscriber_sessions_lost: u64,
    /// Deliveries that were not as they were published.
    pub altered: u64,
    /// Packet identifiers that stood for another message before its exchange was over.
    pub reused_ids: u64,
    /// Connections that ended although the broker ran.
    pub dropped: u64,
}

impl Tally {
    /// Of what was sent and received; `streams` says which stream each row of both is.
    pub fn of(streams: &[Stream], sent: &[Sent], received: &[Received]) -> Self {
        let mut tally = Self::default();
        for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
            let rows: Vec<usize> =
                (0..streams.len()).filter(|&at| streams[at].qos == qos).collect();
            if !rows.is_empty() {
                tally.qos.push(of_qos(qos, &rows, sent, received));
            }
        }
        tally.altered = received.iter().map(|of| of.altered).sum();
        tally.reused_ids = received.iter().map(|of| of.reused_ids).sum();
        tally
    }

    /// Whether everything that was acknowledged is there.
    pub fn has_lost_nothing(&self) -> bool {
        let qos = self.qos.iter().all(|of| of.lost == 0 && of.subscriptions_lost == 0);
        let sessions = self.publisher_sessions_lost + self.subscriber_sessions_lost;
        qos && sessions == 0 && self.retained.lost == 0 && self.retained.old == 0
    }

    /// Whether QoS 2 was exact, order was kept, and nothing was altered, too.
    pub fn is_clean(&self) -> bool {
        let is_exact = |of: &QosTally| of.qos != 2 || of.duplicated == 0;
        let is_good = |of: &QosTally| is_exact(of) && of.out_of_order == 0;
        self.has_lost_nothing() && self.qos.iter().all(is_good) && self.altered == 0
    }
}

fn of_qos(qos: QoS, rows: &[usize], sent: &[Sent], received: &[Received]) -> QosTally {
    let mut tally = QosTally { qos: qos as u8, ..QosTally::default() };
    for &row in rows {
        let Sent(messages) = &sent[row];
        tally.published += messages.len() as u64;
        tally.refused += sent[row].count(|of| of.is_refused);
        tally.acknowledged += sent[row].owed();
        tally.owed += sent[row].owed() * received.len() as u64;
        for (number, message) in messages.iter().enumerate() {
            let mut lost = 0;
            for of in received {
                let times = of.streams[row].times(number);
                lost += u64::from(times == 0 && message.is_acknowledged);
                let again = u64::from(times.saturating_sub(1));
                if message.is_in_doubt && qos == QoS::ExactlyOnce {
                    tally.duplicated_in_doubt += again;
                } else {
                    tally.duplicated += again;
                }
            }
            tally.deliveries_lost += lost;
            tally.lost += u64::from(lost > 0);
        }
        tally.out_of_order += received.iter().map(|of| of.streams[row].out_of_order).sum::<u64>();
    }
    let is_deaf = |of: &&Received| {
        let mut last = rows.iter().filter_map(|&row| Some((row, sent[row].last_acknowledged()?)));
        let is_empty = last.clone().next().is_none();
        !is_empty && last.all(|(row, number)| of.streams[row].times(number as usize) == 0)
    };
    tally.subscriptions_lost = received.iter().filter(is_deaf).count() as u64;
    tally
}

#[cfg(test)]
mod tests;
