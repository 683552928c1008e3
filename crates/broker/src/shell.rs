//! Between a reactor, a shard and the other shards: a connection's token is its key, its output is
//! the sink, letters go through the mailbox.

mod carried;
mod certified;
mod copied;
mod disk;
mod door;
mod entry;
mod farewell;
mod latency;
mod letters;
mod node;
mod rates;
mod said;
mod sum;
mod watched;

use crate::admission::{AdmissionControl, Place, open};
use crate::auth::Authenticator;
use crate::control::Answer;
use crate::copies::CopiesWay;
use crate::journal::Journal;
use crate::letter::Letter;
use crate::listener::Doors;
use crate::log::{Known, Log};
use crate::memory::Memory;
use crate::post::Lease;
use crate::reload::ReloadsSeen;
use crate::sys::Events;
use crate::trace::TraceCounts;
use crate::watched::Watched;
pub(crate) use certified::Certificates;
pub(crate) use door::Waiting;
use foldhash::fast::RandomState;
pub(crate) use latency::Latency;
pub(crate) use node::Node;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use weir_core::{
    AuthRequest, ConnKey, Lsn, Mail, Message, Micros, Notice, Origin, PageId, PageOut, PageTicket,
    Parcel, Partition, Record, Shard, ShardId, Shortage, Sink, Ticket, Verdict,
};
use weir_reactor::{
    Closed, Handler, Io, Learnt, ListenerId, Mailbox, SharedBytes, ToOutside, Token,
};
use weir_wire::ReasonCode;

pub(crate) use farewell::Farewell;
pub(crate) use rates::Rates;
pub(crate) use sum::unread_bytes_max;

/// Output of one connection that waits for the end of the turn while memory is short, in bytes.
const SHORT_OUTPUT_BYTES: usize = 16 * 1024;

/// Output that a client does not take while memory is short, in bytes: over it, the client is read
/// no more.
const SHORT_UNREAD_BYTES: usize = 128 * 1024;

/// What layers of a connection that are not open may hold while memory is short, in bytes: a usual
/// greeting or request, of which a part has come.
const SHORT_UNDECODED_BYTES: usize = 4 * 1024;

/// Letters that wait for a place in the receiver's ring. Over it, connections that send are read
/// no more until these have left: so mail is bounded, and none is dropped.
const UNPOSTED_MAX: usize = 4096;

/// One shard with what its connections have to pass, as the handler of a reactor.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) shard: Shard,
    guard: Guard,
    pub(crate) mailbox: Mailbox<Letter>,
    /// To the control thread, where there is one.
    control: Option<ToOutside<Answer>>,
    /// To be read again: what they waited for has come.
    resumed: Vec<Token>,
    /// Whether more letters may be there than the last turn took.
    pub(crate) has_letters: bool,
    /// Whether all letters of the last turn have left.
    pub(crate) is_posted: bool,
}

/// What the shell decides or keeps beside the shard.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) own: ShardId,
    pub(crate) node: Node,
    /// The node has lost its cluster: nobody is let in.
    pub(crate) is_fenced: bool,
    /// Those whose sessions end with their connections are, and are served.
    pub(crate) serves_minority: bool,
    /// Until when the node may act, where there are others.
    pub(crate) lease: Option<Arc<Lease>>,
    pub(crate) admission: Arc<Mutex<AdmissionControl>>,
    pub(crate) memory: Memory,
    pub(crate) auth: Authenticator,
    pub(crate) log: Log,
    /// Output that a client does not take, in bytes: over it, the client is read no more. More than
    /// messages to it may have, so only who does not take its answers gets there.
    pub(crate) unread_bytes_max: usize,
    /// By listener.
    pub(crate) doors: Doors,
    /// Connections of proxies that have not said yet for whom, with the listener of each.
    pub(crate) waiting: HashMap<ConnKey, Waiting, RandomState>,
    /// A partition that has moved: who asked for it is still to be told.
    pub(crate) moved: Option<(Partition, ShardId)>,
    /// The shard's log, where one is kept.
    pub(crate) journal: Option<Box<Journal>>,
    /// Where the copies of other nodes' logs go, if there may be some.
    pub(crate) copies: Option<CopiesWay>,
    /// Of a stand-in: how many sessions the post was told that there are.
    pub(crate) sessions_said: Option<Option<usize>>,
    /// The disk has no room for more than there is.
    pub(crate) is_disk_short: bool,
    /// How fast connections may send, where that is bounded.
    pub(crate) rates: Option<Box<Rates>>,
    pub(crate) reloaded: ReloadsSeen,
    /// What clients have shown of certificates.
    pub(crate) certificates: Certificates,
    /// Connections of the process itself, as those of its bridges are: no rate, ban or policy is
    /// for them.
    pub(crate) own_conns: HashSet<ConnKey, RandomState>,
    /// What is copied and counted of packets, while somebody wants to know.
    pub(crate) watched: Option<Box<Watched>>,
    pub(crate) trace_counts: TraceCounts,
    /// Clients that have come and gone in this turn, where that is said.
    pub(crate) events: Option<Box<Events>>,
    pub(crate) latency: Latency,
    /// Who is to go, and when.
    pub(crate) farewell: Farewell,
}

impl Guard {
    fn admission(&self) -> MutexGuard<'_, AdmissionControl> {
        open(&self.admission)
    }

    fn place(&self, token: u32) -> Place {
        Place { shard: self.own.0, token }
    }

    /// Whether no more should come before some of it has left for other shards or the disk.
    fn is_full(&self) -> bool {
        self.memory.has_full_letters() || self.journal.as_ref().is_some_and(|it| it.is_full())
    }

    fn gone(&mut self, conn: ConnKey) {
        self.admission().gone(self.place(conn.0));
        self.auth.forget(conn);
        self.log.forget(conn);
        self.waiting.remove(&conn);
        self.certificates.take(conn);
        self.own_conns.remove(&conn);
        self.farewell.left(conn);
        self.forget_rate(conn.0);
        self.forget_watched(conn);
        self.forget_user(conn);
    }
}

impl Shell {
    pub(crate) fn new(
        shard: Shard,
        guard: Guard,
        mailbox: Mailbox<Letter>,
        control: Option<ToOutside<Answer>>,
    ) -> Self {
        let (has_letters, is_posted) = (false, true);
        Self { shard, guard, mailbox, control, resumed: Vec::new(), has_letters, is_posted }
    }

    pub(crate) fn own(&self) -> ShardId {
        self.guard.own
    }

    /// Ends every connection.
    pub(crate) fn stop(&mut self, io: &mut Io) {
        let (shard, mut output) = self.parts(io);
        shard.stop(output.now(), &mut output);
    }

    /// The node is to stop, and sessions are to go to other nodes.
    pub(crate) fn close(&mut self, io: &mut Io) {
        let (shard, mut output) = self.parts(io);
        shard.close(output.now(), &mut output);
    }

    /// How many shards this node has.
    pub(crate) fn shards(&self) -> u32 {
        self.guard.node.shards.into()
    }

    /// The shard, and its sink for one call.
    fn parts<'a>(&'a mut self, io: &'a mut Io) -> (&'a mut Shard, Output<'a>) {
        let Self { shard, guard, mailbox, resumed, .. } = self;
        (shard, Output::new(io, guard, mailbox, resumed))
    }

    /// When something is to be done though nothing happens.
    pub(crate) fn poll_timeout(&self) -> Option<Micros> {
        let journal = self.guard.journal.as_ref().and_then(|journal| journal.due());
        let rates = self.guard.rates.as_ref().and_then(|rates| rates.next());
        let due = self.shard.poll_timeout().into_iter().chain(self.guard.log.due());
        due.chain(journal).chain(rates).chain(self.guard.farewell.due()).min()
    }

    /// Before the first turn.
    pub(crate) fn begin(&self, io: &mut Io) {
        io.set_unread_max(self.guard.unread_bytes_max);
    }

    fn watch_memory(&mut self, io: &mut Io) {
        let is_lean = self.guard.memory.is_lean();
        if self.guard.memory.watch_lean() != is_lean {
            self.shard.set_lean(!is_lean);
        }
        let now = Micros(io.now_us());
        if let Some(is_pressed) = self.guard.memory.watch(now, || self.shard.stats()) {
            let (bytes, bytes_max) = self.guard.memory.bytes();
            let shard = self.own().0;
            if is_pressed {
                tracing::warn!(
                    shard,
                    bytes,
                    bytes_max,
                    "the memory ceiling is near: refusing what grows"
                );
            } else {
                tracing::info!(shard, bytes, bytes_max, "memory is free again");
            }
            self.shard.set_pressed(is_pressed || self.guard.is_disk_short);
            let bytes_max = if is_pressed { SHORT_UNREAD_BYTES } else { usize::MAX };
            io.set_unread_max(self.guard.unread_bytes_max.min(bytes_max));
            io.set_undecoded_max(if is_pressed { SHORT_UNDECODED_BYTES } else { usize::MAX });
        }
    }

    /// Gives bytes that were read before.
    fn give(&mut self, io: &mut Io, token: Token, bytes: &[u8]) {
        let consumed = self.received(io, token, bytes);
        if consumed < bytes.len() {
            io.keep(token, &bytes[consumed..]);
        }
    }

    fn post(&mut self, io: &mut Io) {
        self.guard.memory.posted();
        self.is_posted = self.mailbox.post();
        if self.mailbox.unposted() > UNPOSTED_MAX / 2 || self.guard.is_full() {
            // What is held back is looked at again soon.
            self.is_posted &= !io.holds_input();
            return;
        }
        for token in io.release_input() {
            self.read_on(io, token);
        }
    }

    /// Gives what was kept of a connection that was not read, and reads on.
    fn read_on(&mut self, io: &mut Io, token: Token) {
        io.resume(token);
        let bytes = io.take_kept(token);
        if !bytes.is_empty() {
            self.give(io, token, &bytes);
        }
    }

    /// Takes what came. Says how many bytes are consumed.
    #[inline]
    fn received_at_once(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        if self.guard.watched.is_some() {
            return self.received_watched(io, token, bytes);
        }
        self.take_in(io, token, bytes)
    }

    #[inline(always)]
    fn take_in(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        if self.mailbox.unposted() > UNPOSTED_MAX || self.guard.is_full() {
            // What the others have to say stays with the system.
            io.hold_input(token);
            return 0;
        }
        if self.guard.memory.took(bytes.len()) || self.guard.memory.has_changed() {
            self.watch_memory(io);
        }
        let (shard, mut output) = self.parts(io);
        let now = output.now();
        let consumed = shard.received(ConnKey(token.0), bytes, now, &mut output);
        if let Some(to) = output.handed.take() {
            let unread = &bytes[consumed..];
            match output.take_out(token, unread) {
                Ok(carried) => output.send(to, Letter::Connection(carried)),
                // No file is left for the way: the client is told, and may try again.
                Err(_) => {
                    shard.opened_refused(ConnKey(token.0), ReasonCode::ServerBusy, now);
                    shard.received(ConnKey(token.0), unread, now, &mut output);
                }
            }
            return bytes.len();
        }
        if let Some((ticket, verdict)) = output.verdict.take() {
            shard.authenticated(ticket, verdict, now, &mut output);
        }
        consumed
    }
}

/// The sink of a shard for one call.
struct Output<'a> {
    io: &'a mut Io,
    guard: &'a mut Guard,
    mailbox: &'a mut Mailbox<Letter>,
    resumed: &'a mut Vec<Token>,
    /// An answer of the authentication port that the shard is still to be told.
    verdict: Option<(Ticket, Verdict)>,
    /// The shard that the connection goes to.
    handed: Option<ShardId>,
    /// Why the connection ended that the shard is told of.
    cause: Option<Closed>,
}

impl<'a> Output<'a> {
    fn new(
        io: &'a mut Io,
        guard: &'a mut Guard,
        mailbox: &'a mut Mailbox<Letter>,
        resumed: &'a mut Vec<Token>,
    ) -> Self {
        if let Some(journal) = &mut guard.journal {
            journal.begin_input();
        }
        Self { io, guard, mailbox, resumed, verdict: None, handed: None, cause: None }
    }

    fn now(&self) -> Micros {
        Micros(self.io.now_us())
    }

    fn send(&mut self, to: ShardId, letter: Letter) {
        self.guard.memory.sent(letter.bytes());
        let Some(thread) = self.guard.node.thread(to) else { return };
        self.mailbox.send(thread, letter);
    }
}

impl Sink for Output<'_> {
    fn keeps(&mut self, bytes: usize) -> Option<Shortage> {
        self.guard.memory.took(bytes);
        let is_pressed = self.guard.is_disk_short || self.guard.memory.is_short(self.now());
        Some(Shortage { is_lean: self.guard.memory.watch_lean(), is_pressed })
    }

    #[inline]
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        if let Some(watched) = &mut self.guard.watched {
            watched.sent(conn, bytes);
        }
        self.io.write(Token(conn.0), bytes);
    }

    #[inline]
    fn deliver(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.guard.memory.took(bytes.len());
        self.io.write_gathered(Token(conn.0), bytes);
    }

    /// Where it is called, nothing is left of the topic while nobody watches but one branch.
    #[inline(always)]
    fn publish(&mut self, conn: ConnKey, bytes: &[u8], topic: &str, may_wait: bool) {
        if let Some(watched) = &mut self.guard.watched {
            watched.sent_publish(conn, bytes, topic);
        }
        if may_wait {
            self.deliver(conn, bytes);
        } else {
            self.io.write(Token(conn.0), bytes);
        }
    }

    fn deliver_long(&mut self, conn: ConnKey, head: &[u8], message: &Arc<Message>) {
        if let Some(watched) = &mut self.guard.watched {
            watched.sent_publish_of(conn, head, message);
        }
        let payload: SharedBytes = Arc::<Message>::clone(message);
        self.io.write_shared(Token(conn.0), head, payload);
    }

    /// While memory is short, a client that does not read is given no more, and any other only so
    /// much in a turn. While it is about to be, only a client that does not read has less.
    #[inline]
    fn pending(&self, conn: ConnKey) -> usize {
        let token = Token(conn.0);
        let is_short = self.guard.memory.is_short(self.now());
        let pending = self.io.pending(token);
        let is_much = (is_short && (pending > SHORT_OUTPUT_BYTES || self.io.is_blocked(token)))
            || (self.guard.memory.is_lean()
                && pending > SHORT_OUTPUT_BYTES
                && self.io.is_blocked(token));
        if is_much { usize::MAX } else { pending }
    }

    fn is_read(&self, conn: ConnKey) -> bool {
        !self.io.is_blocked(Token(conn.0))
    }

    fn origin(&self, conn: ConnKey) -> Option<Origin> {
        self.guard.admission().origin(self.guard.place(conn.0))
    }

    fn has_unread(&self, conn: ConnKey) -> bool {
        self.io.has_unread(Token(conn.0))
    }

    fn close(&mut self, conn: ConnKey) {
        self.guard.gone(conn);
        self.io.close(Token(conn.0));
    }

    fn hand_over(&mut self, _conn: ConnKey, to: ShardId) {
        self.handed = Some(to);
    }

    fn send_parcel(&mut self, to: ShardId, parcel: Parcel, conn: Option<ConnKey>) {
        let carried = conn.and_then(|ConnKey(token)| {
            let taken = self.take_out(Token(token), &[]);
            taken.inspect_err(|error| self.lose(Token(token), error)).ok()
        });
        self.send(to, Letter::Parcel(Box::new((parcel, carried))));
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        let (thread, letter) = match self.guard.node.thread(to) {
            Some(thread) => (thread, Letter::Mail(mail)),
            None => (self.guard.node.post(), Letter::Far(to, mail)),
        };
        self.guard.memory.sent(letter.bytes());
        self.mailbox.send(thread, letter);
    }

    fn pause(&mut self, conn: ConnKey) {
        self.io.pause(Token(conn.0));
    }

    fn resume(&mut self, conn: ConnKey) {
        self.resumed.push(Token(conn.0));
    }

    fn is_named(&self, conn: ConnKey) -> bool {
        self.guard.auth.is_named(conn) || self.is_own(conn)
    }

    fn is_own(&self, conn: ConnKey) -> bool {
        self.guard.own_conns.contains(&conn)
    }

    fn authenticate(&mut self, request: AuthRequest<'_>) {
        let (now, peer) = (self.now(), self.guard.log.peer_of(request.conn, self.io));
        let verdict = self.guard.authenticate(&request, peer, now);
        self.verdict = verdict.map(|verdict| (request.ticket, verdict));
    }

    fn log(&mut self, record: &Record<'_>) -> Lsn {
        self.guard.journal.as_mut().map_or(Lsn::NONE, |journal| journal.append(record))
    }

    fn page_out(&mut self, ticket: PageTicket, page: PageOut<'_>) {
        if let Some(journal) = &self.guard.journal {
            journal.write_page(ticket, &page);
        }
    }

    fn page_in(&mut self, ticket: PageTicket, page: PageId, bytes: u64) {
        if let Some(journal) = &self.guard.journal {
            journal.read_page(ticket, page, bytes);
        }
    }

    fn free_page(&mut self, page: PageId) {
        if let Some(journal) = &self.guard.journal {
            journal.free_page(page);
        }
    }

    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::Moved { partition, to } = notice {
            self.guard.moved = Some((partition, to));
        }
        self.note_watched(&notice);
        self.note_event(&notice);
        let now = self.now();
        let Guard { auth, log, .. } = &mut *self.guard;
        let user = match notice {
            Notice::Connected { conn, .. } | Notice::Ended { conn, .. } => auth.user(conn),
            _ => None,
        };
        log.keep(&notice);
        log.write(notice, Known { user, cause: self.cause }, now, self.io);
    }
}

impl Handler for Shell {
    fn turn_begin(&mut self, io: &mut Io) {
        self.mailbox.wake_up();
        if self.guard.lease.is_some() {
            self.look_at_lease(io);
        }
        self.guard.memory.took(io.take_undecoded());
        self.watch_memory(io);
        self.guard.log.sum_up(Micros(io.now_us()));
    }

    fn accepted(&mut self, io: &mut Io, token: Token, by: ListenerId, peer: SocketAddr) {
        self.let_in(io, token, by, peer);
    }

    fn learnt(&mut self, io: &mut Io, token: Token, learnt: Learnt) {
        self.note_learnt(io, token, learnt);
    }

    #[inline]
    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        if self.guard.rates.is_some() && !self.guard.own_conns.contains(&ConnKey(token.0)) {
            return self.received_at_a_rate(io, token, bytes);
        }
        self.received_at_once(io, token, bytes)
    }

    fn drained(&mut self, io: &mut Io, token: Token) {
        let (shard, mut output) = self.parts(io);
        shard.drained(ConnKey(token.0), output.now(), &mut output);
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        let conn = ConnKey(token.0);
        let (shard, mut output) = self.parts(io);
        output.cause = Some(cause);
        shard.closed(conn, output.now(), &mut output);
        self.guard.gone(conn);
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.read_letters(io);
        let now = Micros(io.now_us());
        if self.shard.poll_timeout().is_some_and(|due| due.0 <= io.now_us()) {
            let (shard, mut output) = self.parts(io);
            shard.handle_timeout(output.now(), &mut output);
        }
        if self.guard.farewell.due().is_some_and(|due| due <= now) {
            self.see_off(io);
        }
        while let Some(token) = self.guard.rates.as_mut().and_then(|rates| rates.take_due(now)) {
            self.resumed.push(token);
        }
        while let Some(token) = self.resumed.pop() {
            self.read_on(io, token);
        }
        if let Some(moved) = self.guard.moved.take()
            && let Some(control) = &mut self.control
        {
            control.send(Answer::Moved(Ok(moved)));
        }
        let (shard, mut output) = self.parts(io);
        output.publish_events(shard);
        shard.turn_end(&mut output);
        output.settle_traces(shard);
        if self.guard.journal.is_some() {
            self.journal_turn_end(io);
            self.send_copied(io);
        }
        if self.guard.sessions_said.is_some() {
            self.say_sessions(io);
        }
        self.post(io);
    }
}
