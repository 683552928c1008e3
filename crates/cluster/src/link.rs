//! What one node keeps of another: the letters for it until it has taken them, and how far it has
//! taken what came from there.
//!
//! A [`Link`] lasts longer than its connections. Whoever has one says when there is a connection
//! ([`Link::connected`]) and what came on it ([`Link::received`]), and sends what [`Link::flush`]
//! gives. On a new connection both say how far they were ([`Hello`]) and go on there: letters come
//! once and in their order. Where that is not possible, since the other node was started anew, all
//! of it is dropped and [`Inbox::reset`] says so.

mod kept;

use crate::frame::{Entries, Frame, FrameError, Hello, NAME_BYTES_MAX, State};
use crate::frame::{first, put_ping, put_taken};
use crate::slot::Slot;
use kept::{Kept, NeverSent};
use weir_core::{Mail, Micros, ShardId, Wall};
use weir_wire::QoS;

/// Who says nothing is asked to be there so often, and given up after so long.
const PING: Micros = Micros(1_000_000);
const SILENCE: Micros = Micros(5_000_000);

/// Letters are acknowledged with those that go the other way; if none do, after so long, or once so
/// many bytes have come. Only the window of the other node waits for that.
const TELL: Micros = Micros(20_000);
const TELL_BYTES: usize = 1024 * 1024;

/// What a link is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// The name of the cluster, of at most [`NAME_BYTES_MAX`] bytes.
    pub cluster: Box<str>,
    /// The slot of this node.
    pub own: Slot,
    /// That of the other.
    pub peer: Slot,
    /// Names this start of this node: no two have the same.
    pub incarnation: u64,
    /// Bytes of letters that are kept for the other node: at this, messages at QoS 0 are dropped
    /// and whoever sends others has to wait.
    pub window_bytes: usize,
    /// Bytes of the longest frame that is sent or taken.
    pub frame_bytes_max: u32,
}

impl LinkSettings {
    /// The usual bounds.
    pub const WINDOW_BYTES: usize = 64 * 1024 * 1024;
    /// See [`LinkSettings::frame_bytes_max`].
    pub const FRAME_BYTES_MAX: u32 = 16 * 1024 * 1024;
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It comes to the other node, or the link says that it was reset.
    Kept,
    /// It is a message at QoS 0, and the window is full: it is dropped.
    Dropped,
    /// No frame takes it: it is dropped.
    TooLong,
}

/// The other node, as it has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Names this start of it.
    pub incarnation: u64,
    /// The version of letters that both read; none of a newer one may be sent.
    pub version: u8,
    /// Whether they go on where a connection was lost.
    pub is_resumed: bool,
}

/// Whom a link tells what has come.
pub trait Inbox {
    /// Letters pass.
    fn up(&mut self, peer: Peer);

    /// The other node was started anew, or has forgotten this one. So many letters for it were not
    /// acknowledged, and are dropped; nobody knows which of them it had taken. [`Inbox::up`] of the
    /// new one follows.
    fn reset(&mut self, lost: u64);

    /// A letter. It counts as taken.
    fn letter(&mut self, from: ShardId, to: ShardId, mail: Mail);
}

/// Why a connection is to be given up. Another one may work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// It sent bytes that are no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It is of another cluster.
    #[error("it belongs to the cluster {0:?}: set the same name, or another address")]
    OtherCluster(Box<str>),
    /// It has another slot.
    #[error("it is the node of slot {}, and that of slot {} was expected", .found.0, .expected.0)]
    OtherNode {
        /// Its slot.
        found: Slot,
        /// Whose it should be.
        expected: Slot,
    },
    /// It was started long before or after this one.
    #[error(
        "it reads letters of the versions {} to {}, and this one {} to {}: upgrade nodes by one \
         version at a time", .theirs.0, .theirs.1, Mail::VERSION_MIN, Mail::VERSION
    )]
    NoVersion {
        /// Those that it reads.
        theirs: (u8, u8),
    },
    /// It takes less than is to be sent.
    #[error(
        "it takes frames of {max} bytes at most, and a letter for it has {bytes}: set the same \
         bounds on all nodes"
    )]
    TakesLess {
        /// So many has the longest that waits.
        bytes: usize,
        /// It takes so many.
        max: usize,
    },
    /// It acknowledges letters that it was not sent.
    #[error("it acknowledges letters that were never sent")]
    NeverSent,
    /// A letter is missing.
    #[error("a letter was lost on the way: number {expected} was expected, and {found} came")]
    Gap {
        /// The next that was expected.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// It says who it is a second time.
    #[error("it said twice who it is")]
    SecondHello,
    /// Nothing came.
    #[error("it said nothing for {} s", SILENCE.0 / 1_000_000)]
    Silent,
}

impl From<NeverSent> for LinkError {
    fn from(_: NeverSent) -> Self {
        Self::NeverSent
    }
}

/// What a link has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Letters that were kept for the other node.
    pub letters_out: u64,
    /// Letters that came, each once.
    pub letters_in: u64,
    /// Frames that left.
    pub frames_out: u64,
    /// Frames that came.
    pub frames_in: u64,
    /// Bytes of those that left.
    pub bytes_out: u64,
    /// Bytes of those that came.
    pub bytes_in: u64,
    /// Letters that left again on another connection.
    pub resent: u64,
    /// Letters that came again, and were passed over.
    pub doubles: u64,
    /// Messages at QoS 0 that were dropped because the window was full.
    pub dropped: u64,
    /// Letters that were dropped because no frame takes them.
    pub too_long: u64,
    /// How often all of it was dropped because the other node was another.
    pub resets: u64,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is none.
    Down,
    /// The other node has not said who it is.
    Greet,
    /// Letters pass.
    Up,
}

/// What one node keeps of another.
#[derive(Debug)]
pub struct Link {
    settings: LinkSettings,
    phase: Phase,
    /// The start of the other node that letters are for, once it is known.
    incarnation: Option<u64>,
    /// Since when numbers count.
    state: Option<State>,
    /// Whether it was told that letters pass since then.
    is_told: bool,
    /// What this node calls the connection.
    connection: u64,
    kept: Kept,
    /// The number of the last letter that came.
    taken: u64,
    /// Bytes of letters that have come since that was said, and until when it is to be said.
    untold_bytes: usize,
    tell_at: Option<Micros>,
    /// What is said first on the connection, until it has left.
    hello: Vec<u8>,
    says_hello: bool,
    /// A short frame on its way out.
    short: Vec<u8>,
    /// Bytes of a frame that both nodes take.
    frame_bytes_max: usize,
    heard_at: Micros,
    said_at: Micros,
    counts: LinkCounts,
}

/// What leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Hello,
    Batch,
    Taken,
    Ping,
}

impl Link {
    /// A link without a connection.
    ///
    /// # Panics
    /// If the cluster's name is too long.
    pub fn new(settings: LinkSettings) -> Self {
        assert!(settings.cluster.len() <= NAME_BYTES_MAX, "the cluster's name is too long");
        Self {
            phase: Phase::Down,
            incarnation: None,
            state: None,
            is_told: false,
            connection: 0,
            kept: Kept::new(),
            taken: 0,
            untold_bytes: 0,
            tell_at: None,
            hello: Vec::new(),
            says_hello: false,
            short: Vec::new(),
            frame_bytes_max: settings.frame_bytes_max as usize,
            heard_at: Micros(0),
            said_at: Micros(0),
            counts: LinkCounts::default(),
            settings,
        }
    }

    /// Whether letters pass.
    pub fn is_up(&self) -> bool {
        self.phase == Phase::Up
    }

    /// Whether letters are for this start of the other node.
    pub fn is_with(&self, incarnation: u64) -> bool {
        self.incarnation == Some(incarnation)
    }

    /// Whether the window has room. If not, whoever sends letters is to send less: as with the
    /// mailboxes of shards, nobody is read from whose input would make some.
    pub fn has_room(&self) -> bool {
        self.kept.bytes() < self.settings.window_bytes
    }

    /// Bytes of letters that are not acknowledged, with what their keeping takes.
    pub fn bytes(&self) -> usize {
        self.kept.bytes()
    }

    /// Letters that are not acknowledged.
    pub fn letters(&self) -> u64 {
        self.kept.letters()
    }

    /// What was counted so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// Takes a letter for the other node; it leaves with [`Link::flush`]. A message at QoS 0 for
    /// which nobody waits is dropped where the window is full, and nothing else ever is: that is
    /// what [`Link::has_room`] is for.
    pub fn push(&mut self, from: ShardId, to: ShardId, mail: &Mail, wall: Wall) -> Pushed {
        if !self.has_room() && may_be_dropped(mail) {
            self.counts.dropped += 1;
            return Pushed::Dropped;
        }
        if !self.kept.push((from, to), mail, wall, self.frame_bytes_max) {
            self.counts.too_long += 1;
            return Pushed::TooLong;
        }
        self.counts.letters_out += 1;
        Pushed::Kept
    }

    /// There is a connection, and nothing has passed on it. One that there was is over.
    pub fn connected(&mut self, now: Micros) {
        self.phase = Phase::Greet;
        self.connection += 1;
        (self.heard_at, self.said_at) = (now, now);
        (self.untold_bytes, self.tell_at) = (0, None);
        self.hello.clear();
        let LinkSettings { cluster, own, incarnation, frame_bytes_max, .. } = &self.settings;
        // Both nodes say where they were before either hears it, so they draw the same conclusion.
        let hello = Hello {
            cluster,
            slot: *own,
            incarnation: *incarnation,
            connection: self.connection,
            state: self.state,
            taken: self.taken,
            letters: (Mail::VERSION_MIN, Mail::VERSION),
            frame_bytes_max: *frame_bytes_max,
        };
        hello.encode(&mut self.hello);
        self.says_hello = true;
    }

    /// The connection is lost. Letters are kept.
    pub fn disconnected(&mut self) {
        self.phase = Phase::Down;
        (self.says_hello, self.tell_at) = (false, None);
    }

    /// Takes what came on the connection, the bytes of the last time that were not taken first.
    /// Returns how many it has taken.
    ///
    /// # Errors
    /// Why the connection is to be given up; the link takes it for lost.
    pub fn received(
        &mut self,
        bytes: &[u8],
        now: Micros,
        wall: Wall,
        inbox: &mut impl Inbox,
    ) -> Result<usize, LinkError> {
        let taken = self.take_all(bytes, now, wall, inbox);
        if taken.is_err() {
            self.disconnected();
        }
        taken
    }

    fn take_all(
        &mut self,
        bytes: &[u8],
        now: Micros,
        wall: Wall,
        inbox: &mut impl Inbox,
    ) -> Result<usize, LinkError> {
        let mut done = 0;
        if self.phase == Phase::Greet {
            let Some((hello, count)) = first(bytes)? else { return Ok(0) };
            self.greeted(&hello, inbox)?;
            self.count_frame(count);
            done = count;
        }
        if self.phase == Phase::Down {
            return Ok(bytes.len());
        }
        // A part of a long frame is a sign of life as well.
        self.heard_at = now;
        let bytes_max = self.settings.frame_bytes_max as usize;
        while let Some((frame, count)) = Frame::split(&bytes[done..], bytes_max)? {
            match frame {
                Frame::Hello(_) => return Err(LinkError::SecondHello),
                Frame::Letters(letters) => {
                    self.tell_at.get_or_insert(now + TELL);
                    self.untold_bytes += count;
                    self.take_letters(letters, wall, inbox)?;
                }
                Frame::Taken(number) => self.kept.acknowledge(number)?,
                Frame::Ping => {}
            }
            self.count_frame(count);
            done += count;
        }
        Ok(done)
    }

    fn count_frame(&mut self, bytes: usize) {
        self.counts.frames_in += 1;
        self.counts.bytes_in += bytes as u64;
    }

    /// The other node has said who it is: goes on where they were, or begins anew.
    fn greeted(&mut self, hello: &Hello<'_>, inbox: &mut impl Inbox) -> Result<(), LinkError> {
        let version = self.check(hello)?;
        let theirs = hello.state.map(|State { own, peer }| State { own: peer, peer: own });
        let is_same = self.incarnation.is_none_or(|known| known == hello.incarnation);
        let is_resumed = is_same && self.state.is_some() && self.state == theirs;
        if !is_resumed {
            // What has waited for the first connection is for whoever is there.
            if !is_same || self.kept.has_left() || self.taken > 0 {
                self.counts.resets += 1;
                inbox.reset(self.kept.clear());
            }
            self.taken = 0;
            self.state = Some(State { own: self.connection, peer: hello.connection });
            self.incarnation = Some(hello.incarnation);
            self.is_told = false;
        }
        self.kept.rewind();
        if is_resumed {
            self.kept.acknowledge(hello.taken)?;
        }
        let max = (hello.frame_bytes_max.min(self.settings.frame_bytes_max)) as usize;
        let bytes = self.kept.longest();
        if bytes > max {
            return Err(LinkError::TakesLess { bytes, max });
        }
        self.frame_bytes_max = max;
        self.phase = Phase::Up;
        let is_resumed = std::mem::replace(&mut self.is_told, true);
        inbox.up(Peer { incarnation: hello.incarnation, version, is_resumed });
        Ok(())
    }

    /// The highest version of letters that both read.
    fn check(&self, hello: &Hello<'_>) -> Result<u8, LinkError> {
        if *hello.cluster != *self.settings.cluster {
            return Err(LinkError::OtherCluster(hello.cluster.into()));
        }
        if hello.slot != self.settings.peer {
            let expected = self.settings.peer;
            return Err(LinkError::OtherNode { found: hello.slot, expected });
        }
        let theirs = hello.letters;
        let version = theirs.1.min(Mail::VERSION);
        if version < theirs.0.max(Mail::VERSION_MIN) {
            return Err(LinkError::NoVersion { theirs });
        }
        Ok(version)
    }

    fn take_letters(
        &mut self,
        mut letters: Entries<'_>,
        wall: Wall,
        inbox: &mut impl Inbox,
    ) -> Result<(), LinkError> {
        self.kept.acknowledge(letters.taken)?;
        let expected = self.taken + 1;
        let mut number = letters.first;
        if number > expected {
            return Err(LinkError::Gap { expected, found: number });
        }
        while let Some((from, to, mail)) = letters.next_letter(wall)? {
            if number > self.taken {
                self.taken = number;
                self.counts.letters_in += 1;
                inbox.letter(from, to, mail);
            } else {
                self.counts.doubles += 1;
            }
            number += 1;
        }
        Ok(())
    }

    /// What is to leave on the connection now: all letters that were taken since the last time, as
    /// one frame if they are not very many. Called until there is nothing.
    pub fn flush(&mut self, now: Micros) -> Option<&[u8]> {
        let next = self.next(now)?;
        self.said_at = now;
        if matches!(next, Next::Batch | Next::Taken) {
            (self.untold_bytes, self.tell_at) = (0, None);
        }
        self.short.clear();
        let (bytes, again) = match next {
            Next::Hello => {
                self.says_hello = false;
                (&self.hello[..], 0)
            }
            Next::Batch => self.kept.send(self.taken)?,
            Next::Taken => {
                put_taken(&mut self.short, self.taken);
                (&self.short[..], 0)
            }
            Next::Ping => {
                put_ping(&mut self.short);
                (&self.short[..], 0)
            }
        };
        self.counts.frames_out += 1;
        self.counts.bytes_out += bytes.len() as u64;
        self.counts.resent += again;
        Some(bytes)
    }

    fn next(&self, now: Micros) -> Option<Next> {
        let is_due = |at: Micros| at <= now;
        match self.phase {
            Phase::Greet | Phase::Up if self.says_hello => Some(Next::Hello),
            Phase::Down | Phase::Greet => None,
            Phase::Up if self.kept.has_unsent() => Some(Next::Batch),
            Phase::Up if self.untold_bytes >= TELL_BYTES || self.tell_at.is_some_and(is_due) => {
                Some(Next::Taken)
            }
            Phase::Up => is_due(self.said_at + PING).then_some(Next::Ping),
        }
    }

    /// When [`Link::handle_timeout`] and then [`Link::flush`] are due, if nothing else happens.
    pub fn poll_timeout(&self) -> Option<Micros> {
        let given_up_at = self.heard_at + SILENCE;
        match self.phase {
            Phase::Down => None,
            Phase::Greet => Some(given_up_at),
            Phase::Up => {
                let due = given_up_at.min(self.said_at + PING);
                Some(self.tell_at.map_or(due, |at| due.min(at)))
            }
        }
    }

    /// Looks whether the other node is there still.
    ///
    /// # Errors
    /// It has said nothing for long: the connection is to be given up, and the link takes it for
    /// lost.
    pub fn handle_timeout(&mut self, now: Micros) -> Result<(), LinkError> {
        if self.phase != Phase::Down && self.heard_at + SILENCE <= now {
            self.disconnected();
            return Err(LinkError::Silent);
        }
        Ok(())
    }
}

/// Whether it is a message at QoS 0 that nobody waits for.
fn may_be_dropped(mail: &Mail) -> bool {
    match mail {
        Mail::Publish { message, number: None, mailed: None, .. } => message.qos == QoS::AtMostOnce,
        _ => false,
    }
}
