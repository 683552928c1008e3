//! The ledger: what publishers know to be acknowledged, what came to whom, where sessions were, and
//! what follows from that. It is a value; `At` is the time since the run began.

use crate::plan::{NODES, name};
use std::collections::HashMap;
use std::time::Duration;
use weir_crash::names::{Stream, payload, retained};
use weir_wire::QoS;

/// Time since the run began.
pub(crate) type At = Duration;

/// Topics of a publisher: at QoS 1, at QoS 2, and those that are retained.
pub(crate) const ROWS: usize = 3;

/// The topics of a publisher that are retained.
pub(crate) const RETAINED: usize = 2;

/// One in so many messages that are retained is for the topic of all publishers.
const SHARED_EVERY: u32 = 3;

/// One in so many clears its topic.
const CLEARED_EVERY: u32 = 7;

/// The topic and payload of a message.
pub(crate) fn content(publisher: usize, row: usize, number: u32, all: usize) -> (String, String) {
    let qos = if row == 0 { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
    let topic = match row {
        RETAINED if number % SHARED_EVERY == SHARED_EVERY - 1 => retained(all),
        RETAINED => retained(publisher),
        _ => Stream { publisher, qos }.topic(),
    };
    let is_cleared = row == RETAINED && number % CLEARED_EVERY == CLEARED_EVERY - 1;
    let payload = if is_cleared { String::new() } else { payload(&topic, number) };
    (topic, payload)
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Lost,
    /// For a group, while a node was lost.
    LostInGroup,
    Twice,
    OutOfOrder,
    SessionLost,
    TwoConnections,
    Unanswered,
    Retained,
    NotServed,
    Altered,
}

impl Finding {
    pub(crate) const ALL: [Self; 10] = [
        Self::Lost,
        Self::LostInGroup,
        Self::Twice,
        Self::OutOfOrder,
        Self::SessionLost,
        Self::TwoConnections,
        Self::Unanswered,
        Self::Retained,
        Self::NotServed,
        Self::Altered,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "acknowledged and lost",
            Self::LostInGroup => "acknowledged and lost in groups, a node lost",
            Self::Twice => "QoS 2 doubled",
            Self::OutOfOrder => "out of order",
            Self::SessionLost => "sessions lost",
            Self::TwoConnections => "two connections of one client",
            Self::Unanswered => "publishers not answered",
            Self::Retained => "retained messages that differ",
            Self::NotServed => "nodes that do not serve",
            Self::Altered => "altered, or packet identifiers not free",
        }
    }
}

/// What a publisher knows of a message.
#[derive(Clone, Copy, Debug)]
struct Sending {
    published: At,
    node: usize,
    acknowledged: Option<At>,
    is_refused: bool,
    /// It may have been published anew.
    is_in_doubt: bool,
}

/// A node that others took for lost, or whose process ended, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) node: usize,
    pub(crate) from: At,
    pub(crate) until: At,
}

/// A session, and where it was since the ledger was settled.
#[derive(Debug)]
struct Session {
    name: String,
    /// The only node that its client comes to.
    pinned: Option<usize>,
    at: Option<usize>,
    visited: [bool; NODES],
    /// When it was begun anew, and whether its client was told.
    anew: Vec<(At, bool)>,
    /// When each connection was let in, and when the last left of what was answered.
    connections: Vec<(At, At)>,
}

impl Session {
    fn was_at(&self, losses: &[Loss]) -> bool {
        losses.iter().any(|loss| self.visited[loss.node])
    }
}

/// A subscriber, or the members of a group.
#[derive(Debug)]
struct Receiver {
    name: String,
    sessions: Vec<usize>,
    is_group: bool,
    /// For each stream.
    heard: Vec<Heard>,
}

#[derive(Clone, Debug, Default)]
struct Heard {
    /// How often each number came, and where and when first.
    came: HashMap<u32, (u32, usize, At)>,
    last: Option<u32>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) acknowledged: [u64; ROWS],
    pub(crate) refused: u64,
    pub(crate) deliveries: u64,
    /// At QoS 1, which permits it.
    pub(crate) repeated: u64,
    /// At QoS 2, after the publisher's session was lost, or its node killed.
    pub(crate) doubled_in_doubt: u64,
    /// At QoS 2, to another member of a group while a node was lost.
    pub(crate) doubled_in_groups: u64,
    /// Deliveries to sessions whose node was lost when the message was published, or that were
    /// begun anew elsewhere: nobody promises them.
    pub(crate) not_promised: u64,
    pub(crate) sessions_anew: u64,
    pub(crate) connections: u64,
    pub(crate) retained: u64,
}

/// All that is known.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// [`ROWS`] of each publisher.
    sent: Vec<Vec<Sending>>,
    /// How many of each are settled.
    settled: Vec<usize>,
    sessions: Vec<Session>,
    receivers: Vec<Receiver>,
    /// Whether a node may be lost.
    pub(crate) is_troubled: bool,
    /// Sessions are at another node too: none may be lost with its node.
    is_copied: bool,
    pub(crate) counts: Counts,
    findings: Vec<(Finding, String)>,
    /// How many there were of each of [`Finding::ALL`].
    pub(crate) found: [u64; Finding::ALL.len()],
}

impl Ledger {
    pub(crate) fn new(publishers: usize, is_copied: bool) -> Self {
        let rows = publishers * ROWS;
        Self {
            sent: vec![Vec::new(); rows],
            settled: vec![0; rows],
            sessions: Vec::new(),
            receivers: Vec::new(),
            is_troubled: false,
            is_copied,
            counts: Counts::default(),
            findings: Vec::new(),
            found: [0; Finding::ALL.len()],
        }
    }

    /// Whoever connects; pinned to a node, or to none. Returns its number.
    pub(crate) fn session(&mut self, name: &str, pinned: Option<usize>) -> usize {
        self.sessions.push(Session {
            name: name.into(),
            pinned,
            at: None,
            visited: [false; NODES],
            anew: Vec::new(),
            connections: Vec::new(),
        });
        self.sessions.len() - 1
    }

    /// Whoever is owed messages: a session, or all of a group. Returns its number.
    pub(crate) fn receiver(&mut self, name: &str, sessions: &[usize], is_group: bool) -> usize {
        let heard = vec![Heard::default(); self.sent.len()];
        let (name, sessions) = (name.into(), sessions.to_vec());
        self.receivers.push(Receiver { name, sessions, is_group, heard });
        self.receivers.len() - 1
    }

    /// What is wrong, once.
    pub(crate) fn find(&mut self, finding: Finding, at: At, what: &str) {
        self.found[finding as usize] += 1;
        self.findings.push((finding, format!("{:.3} s: {what}", at.as_secs_f64())));
    }

    /// What was found since this was asked before.
    pub(crate) fn findings(&mut self) -> Vec<(Finding, String)> {
        std::mem::take(&mut self.findings)
    }

    /// A message is published on a node. Returns its number.
    pub(crate) fn publish(&mut self, row: usize, node: usize, at: At) -> u32 {
        let (acknowledged, is_refused, is_in_doubt) = (None, false, false);
        self.sent[row].push(Sending { published: at, node, acknowledged, is_refused, is_in_doubt });
        self.sent[row].len() as u32 - 1
    }

    /// PUBACK or PUBREC.
    pub(crate) fn acknowledge(&mut self, row: usize, number: u32, at: At) {
        let of = &mut self.sent[row][number as usize];
        if of.acknowledged.is_none() {
            of.acknowledged = Some(at);
            self.counts.acknowledged[row % ROWS] += 1;
        }
    }

    /// Answered with a reason code that refuses.
    pub(crate) fn refuse(&mut self, row: usize, number: u32) {
        self.sent[row][number as usize].is_refused = true;
        self.counts.refused += 1;
    }

    /// It is sent again to another session, or after its node was killed. Nobody can say whether it
    /// was taken before then, unless that node's log is at another one.
    pub(crate) fn doubt(&mut self, row: usize, number: u32, is_session_lost: bool) {
        self.sent[row][number as usize].is_in_doubt |= is_session_lost || !self.is_copied;
    }

    /// How many messages wait for an answer.
    pub(crate) fn unanswered(&self) -> usize {
        let waits = |of: &&Sending| of.acknowledged.is_none() && !of.is_refused;
        let new = self.sent.iter().zip(&self.settled).flat_map(|(row, &at)| &row[at..]);
        new.filter(waits).count()
    }

    /// A client tries to connect.
    pub(crate) fn visit(&mut self, session: usize, node: usize) {
        self.sessions[session].visited[node] = true;
    }

    /// It was let in. Returns the number of the connection.
    pub(crate) fn connected(&mut self, session: usize, node: usize, at: At) -> usize {
        self.counts.connections += 1;
        let session = &mut self.sessions[session];
        (session.at, session.visited[node]) = (Some(node), true);
        session.connections.push((at, at));
        session.connections.len() - 1
    }

    /// What left on a connection at `sent` was answered.
    pub(crate) fn answered(&mut self, session: usize, connection: usize, sent: At) {
        let of = &mut self.sessions[session];
        of.connections[connection].1 = sent;
        let (own, _) = of.connections[connection];
        let all = of.connections.iter().enumerate().rev().take(10);
        let mut others = all.filter(|(at, _)| *at != connection).map(|(_, of)| *of);
        if let Some((other, alive)) =
            others.find(|&(other, alive)| sent > own.max(other) && alive > own.max(other))
        {
            let what = format!(
                "two connections of {}, let in at {own:.3?} and {other:.3?}, answer at {sent:.3?} \
                 and {alive:.3?}",
                of.name
            );
            self.find(Finding::TwoConnections, sent, &what);
        }
    }

    /// A session was begun anew: its client was told so, or cannot know.
    pub(crate) fn anew(&mut self, session: usize, at: At, is_told: bool) {
        self.sessions[session].anew.push((at, is_told));
    }

    /// A message came, on a node.
    pub(crate) fn deliver(
        &mut self,
        receiver: usize,
        (row, number): (usize, u32),
        node: usize,
        at: At,
    ) {
        self.counts.deliveries += 1;
        let of = &mut self.receivers[receiver];
        let heard = &mut of.heard[row];
        let (times, first, when) = heard.came.entry(number).or_insert((0, node, at));
        *times += 1;
        if *times == 1 {
            let last = heard.last.replace(heard.last.map_or(number, |last| last.max(number)));
            if let Some(last) = last.filter(|&last| last > number && !of.is_group) {
                let what = format!("{} got {} behind {last}", of.name, message(row, number));
                self.find(Finding::OutOfOrder, at, &what);
            }
            return;
        }
        let counts = &mut self.counts;
        if row % ROWS == 0 {
            counts.repeated += 1;
        } else if self.sent[row].get(number as usize).is_some_and(|of| of.is_in_doubt) {
            counts.doubled_in_doubt += 1;
        } else if of.is_group && self.is_troubled {
            counts.doubled_in_groups += 1;
        } else {
            let (receiver, message, first) = (&of.name, message(row, number), name(*first));
            let (node, when) = (name(node), when.as_secs_f64());
            let what =
                format!("{receiver} got {message} twice: on {first} at {when:.3} s and on {node}");
            self.find(Finding::Twice, at, &what);
        }
    }

    /// What is owed and has not come, although nothing excuses that.
    pub(crate) fn missing(&self, losses: &[Loss]) -> usize {
        let mut count = 0;
        self.each_missing(losses, |is_excused, _, _, _| count += usize::from(!is_excused));
        count
    }

    fn each_missing(&self, losses: &[Loss], mut note: impl FnMut(bool, &Receiver, usize, usize)) {
        let rows = (0..self.sent.len()).filter(|row| row % ROWS != RETAINED);
        for row in rows {
            for number in self.settled[row]..self.sent[row].len() {
                let of = &self.sent[row][number];
                let Some(acknowledged) = of.acknowledged else { continue };
                for receiver in &self.receivers {
                    if !receiver.heard[row].came.contains_key(&(number as u32)) {
                        let is_excused =
                            self.is_excused(receiver, (of.published, acknowledged), losses);
                        note(is_excused, receiver, row, number);
                    }
                }
            }
        }
    }

    /// Whether nobody promises a message to a receiver.
    fn is_excused(&self, receiver: &Receiver, life: (At, At), losses: &[Loss]) -> bool {
        let sessions = receiver.sessions.iter().filter(|_| !self.is_copied);
        sessions.map(|&at| &self.sessions[at]).any(|session| {
            let may_be_anew = session.pinned.is_none() && session.was_at(losses);
            // What a group's member would have got goes to others.
            let mut away =
                losses.iter().filter(|loss| !receiver.is_group && session.visited[loss.node]);
            away.any(|loss| life.0 <= loss.until && life.1 >= loss.from)
                || may_be_anew && session.anew.iter().any(|&(at, _)| at >= life.0)
        })
    }

    /// Nothing is on its way any more: what has not come is lost.
    pub(crate) fn settle(&mut self, losses: &[Loss], now: At) {
        let (mut found, mut not_promised) = (Vec::new(), 0);
        self.each_missing(losses, |is_excused, receiver, row, number| {
            if is_excused {
                not_promised += 1;
                return;
            }
            let of = &self.sent[row][number];
            let at = |at: At| at.as_secs_f64();
            let is_group = receiver.is_group && !losses.is_empty();
            let finding = if is_group { Finding::LostInGroup } else { Finding::Lost };
            let places = receiver.sessions.iter().map(|&at| self.sessions[at].places());
            let what = format!(
                "lost: {}, published on {} at {:.3} s, acknowledged at {:.3} s, for {} ({})",
                message(row, number as u32),
                name(of.node),
                at(of.published),
                at(of.acknowledged.unwrap_or_default()),
                receiver.name,
                places.collect::<Vec<_>>().join("; "),
            );
            found.push((finding, what));
        });
        self.counts.not_promised += not_promised;
        for session in &mut self.sessions {
            let told = session.anew.iter().filter(|(_, is_told)| *is_told);
            let wanders = session.pinned.is_none();
            let is_permitted = !self.is_copied && wanders && session.was_at(losses);
            for &(at, _) in told {
                self.counts.sessions_anew += u64::from(is_permitted);
                if !is_permitted {
                    let (name, at, places) = (&session.name, at.as_secs_f64(), session.places());
                    let what = format!("the session of {name} was lost at {at:.3} s ({places})");
                    found.push((Finding::SessionLost, what));
                }
            }
            session.anew.clear();
            session.visited = [false; NODES];
            session.at.iter().for_each(|&node| session.visited[node] = true);
        }
        self.settled = self.sent.iter().map(Vec::len).collect();
        self.is_troubled = false;
        found.iter().for_each(|(finding, what)| self.find(*finding, now, what));
    }

    /// The last messages of a retained topic, for whoever looks into what differs.
    pub(crate) fn retained_course(&self, topic: &str) -> String {
        let publisher = weir_crash::names::retained_by(topic).unwrap_or_default();
        let publishers = self.sent.len() / ROWS;
        let Some(row) = self.sent.get(publisher * ROWS + RETAINED) else { return String::new() };
        let of_topic = (0..)
            .zip(row)
            .filter(|(number, _)| content(publisher, RETAINED, *number, publishers).0 == topic);
        let tell = |(number, of): (u32, &Sending)| {
            let is_cleared = content(publisher, RETAINED, number, publishers).1.is_empty();
            let end = match of.acknowledged {
                _ if of.is_refused => "refused".into(),
                Some(at) => format!("acknowledged at {:.3} s", at.as_secs_f64()),
                None => "not answered".into(),
            };
            let (what, at) = (if is_cleared { " clears" } else { "" }, of.published.as_secs_f64());
            format!("{number}{what} on {} at {at:.3} s {end}", name(of.node))
        };
        let last: Vec<_> = of_topic.map(tell).collect();
        last[last.len().saturating_sub(5)..].join("; ")
    }

    /// What a publisher's retained topic has to hold, if that is known.
    pub(crate) fn retained(&self, publisher: usize) -> Option<(String, String)> {
        let row = publisher * ROWS + RETAINED;
        let own = |&(number, _): &(u32, &Sending)| number % SHARED_EVERY != SHARED_EVERY - 1;
        let (number, of) = (0..).zip(&self.sent[row]).filter(own).last()?;
        let publishers = self.sent.len() / ROWS;
        of.acknowledged.map(|_| content(publisher, RETAINED, number, publishers))
    }
}

impl Session {
    /// Where it may have been.
    fn places(&self) -> String {
        let visited = (0..NODES).filter(|&node| self.visited[node]).map(name).collect::<String>();
        let at = self.at.map_or_else(|| "-".into(), |node| name(node).to_string());
        format!("{} at {at}, was at {visited}", self.name)
    }
}

fn message(row: usize, number: u32) -> String {
    let (publisher, row) = (row / ROWS, row % ROWS);
    format!("{} {number}", content(publisher, row, 0, usize::MAX).0)
}

#[cfg(test)]
mod tests;
