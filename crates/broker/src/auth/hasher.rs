//! The thread that hashes passwords, so that no shard does: one hash takes from a twentieth of a
//! millisecond to a tenth of a second.
//!
//! Credentials that were right are known for ten minutes, by a keyed hash of them, and clients that
//! come back with them are let in at once by their shards. So a storm of reconnects hashes for each
//! user once, and not at all if it was there shortly before.

use super::passwords::Passwords;
use crate::host::host_of;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_access::{Digest, Digester, Recent};
use weir_core::{Ticket, Verdict};
use weir_reactor::{Address, Joint, Mailbox, Outside, outside, outside_later};
use weir_wire::ReasonCode;

/// Clients of one shard that wait for the hasher. Whoever comes then is told that the server is
/// busy.
pub(super) const WAITING_MAX: usize = 1024;

/// How long credentials are known that were right.
const PROVEN_FOR: Duration = Duration::from_secs(600);

/// How many are known at most: about 10 MB. Over it, the oldest are forgotten.
const PROVEN_MAX: usize = 65_536;

/// What the thread steps back by, of 19: shards go first, and beside busy ones, or busy programs of
/// others, it still has a quarter of a core.
const NICE: i32 = 5;

/// What passwords there are, and which of them were right.
#[derive(Debug)]
pub(crate) struct Book {
    passwords: Arc<Passwords>,
    /// Credentials that were right not long ago.
    proven: Recent<()>,
    /// How often the passwords were replaced.
    replaced: u64,
}

/// The same for all shards and the hasher.
pub(crate) type SharedBook = Arc<Mutex<Book>>;

impl Book {
    pub(crate) fn shared(passwords: Arc<Passwords>) -> SharedBook {
        Arc::new(Mutex::new(Self { passwords, proven: Recent::new(PROVEN_MAX), replaced: 0 }))
    }

    /// The passwords are these from now on, and none was right yet. Returns those before.
    pub(crate) fn replace(&mut self, passwords: Arc<Passwords>) -> Arc<Passwords> {
        self.proven.clear();
        self.replaced += 1;
        std::mem::replace(&mut self.passwords, passwords)
    }
}

pub(crate) fn open(book: &SharedBook) -> MutexGuard<'_, Book> {
    // Nothing is half done in it, whatever a thread died of.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts of a shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PasswordCounts {
    /// Passwords that the hasher was asked to check.
    pub(crate) hashed: u64,
    /// Clients let in by credentials that were right not long ago.
    pub(crate) known: u64,
    /// Passwords that were wrong, those of unknown users included.
    pub(crate) wrong: u64,
    /// Clients refused because too many waited.
    pub(crate) busy: u64,
}

/// A shard's way to the hasher.
#[derive(Debug)]
pub(crate) struct HasherWay {
    shard: usize,
    to: Sender<Work>,
    book: SharedBook,
    digester: Digester,
    waiting: usize,
    pub(crate) counts: PasswordCounts,
}

struct Work {
    shard: usize,
    ticket: Ticket,
    peer: Option<SocketAddr>,
    credentials: Digest,
    user: String,
    password: Vec<u8>,
}

/// What the hasher has found out.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) ticket: Ticket,
    /// Where the client comes from.
    pub(crate) peer: Option<SocketAddr>,
    found: Found,
}

/// What the hasher says of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Right {
        /// How often the passwords had been replaced.
        replaced: u64,
    },
    Wrong,
    /// Nobody has looked: their address was banned after they were said.
    Banned,
}

/// Starts the hasher; returns each shard's way to it. It ends with the last of them. Nobody else
/// knows `secret`. `is_out` says whether an address is banned by now: its passwords are not hashed.
///
/// # Errors
/// What the system says of a thread and two open files.
pub(crate) fn start<T: From<Checked> + Send + 'static>(
    book: &SharedBook,
    secret: [u8; 32],
    mailboxes: &mut [Mailbox<T>],
    is_out: impl Fn(IpAddr) -> bool + Send + 'static,
) -> io::Result<Vec<HasherWay>> {
    let (back, _) = outside::<T, ()>(mailboxes, WAITING_MAX)?;
    begin(book, secret, mailboxes.len(), back, is_out)
}

/// The same where the shards have their mailboxes already: each is to join what comes with its way.
///
/// # Errors
/// As those of [`start`].
pub(crate) fn start_later<T: From<Checked> + Send + 'static>(
    book: &SharedBook,
    secret: [u8; 32],
    addresses: &[Address],
    is_out: impl Fn(IpAddr) -> bool + Send + 'static,
) -> io::Result<Vec<(HasherWay, Joint<T>)>> {
    let (back, ends) = outside_later::<T, ()>(addresses, WAITING_MAX)?;
    let ways = begin(book, secret, addresses.len(), back, is_out)?;
    Ok(ways.into_iter().zip(ends).map(|(way, (_, joint))| (way, joint)).collect())
}

fn begin<T: From<Checked> + Send + 'static>(
    book: &SharedBook,
    secret: [u8; 32],
    shards: usize,
    back: Outside<T, ()>,
    is_out: impl Fn(IpAddr) -> bool + Send + 'static,
) -> io::Result<Vec<HasherWay>> {
    let (to, given) = channel();
    let shared = Arc::clone(book);
    let run = move || {
        // This thread alone, on Linux. If it may not, that is no fault.
        let _ = rustix::process::setpriority_process(None, NICE);
        run(&shared, &secret, &given, back, is_out);
    };
    std::thread::Builder::new().name("hasher".into()).spawn(run)?;
    let way = |shard| HasherWay {
        shard,
        to: to.clone(),
        book: Arc::clone(book),
        digester: Digester::new(&secret),
        waiting: 0,
        counts: PasswordCounts::default(),
    };
    Ok((0..shards).map(way).collect())
}

impl HasherWay {
    /// Whether the file has the user.
    pub(super) fn knows(&self, user: &str) -> bool {
        open(&self.book).passwords.has(user)
    }

    /// Whether these are a user's credentials; nothing if the hasher will say.
    pub(super) fn ask(
        &mut self,
        (ticket, peer): (Ticket, Option<SocketAddr>),
        user: &str,
        password: &[u8],
    ) -> Option<Verdict> {
        let credentials = self.digester.digest(&[user.as_bytes(), password]);
        if open(&self.book).proven.get(&credentials, Instant::now()).is_some() {
            self.counts.known += 1;
            return Some(Verdict::Accept(Vec::new()));
        }
        if self.waiting >= WAITING_MAX {
            self.counts.busy += 1;
            return Some(Verdict::Refuse(ReasonCode::ServerBusy));
        }
        let (user, password, shard) = (user.to_owned(), password.to_vec(), self.shard);
        if self.to.send(Work { shard, ticket, peer, credentials, user, password }).is_err() {
            return Some(Verdict::Refuse(ReasonCode::ServerUnavailable));
        }
        self.counts.hashed += 1;
        self.waiting += 1;
        None
    }

    /// The hasher has answered.
    pub(super) fn answered(&mut self, checked: &Checked) -> Verdict {
        self.waiting -= 1;
        match checked.found {
            Found::Right { replaced } if open(&self.book).replaced == replaced => {
                Verdict::Accept(Vec::new())
            }
            Found::Right { .. } => {
                // It was right then. Whoever comes again is looked at again.
                self.counts.busy += 1;
                Verdict::Refuse(ReasonCode::ServerBusy)
            }
            Found::Wrong => {
                self.counts.wrong += 1;
                Verdict::Refuse(ReasonCode::BadUserNameOrPassword)
            }
            Found::Banned => Verdict::Refuse(ReasonCode::Banned),
        }
    }
}

fn run<T: From<Checked>>(
    book: &SharedBook,
    key: &[u8; 32],
    given: &Receiver<Work>,
    mut back: Outside<T, ()>,
    is_out: impl Fn(IpAddr) -> bool,
) {
    let mut turns = Turns::default();
    while let Some(work) = turns.next(given) {
        let Work { shard, ticket, peer, credentials, user, password } = work;
        let found = match peer {
            Some(peer) if is_out(peer.ip()) => Found::Banned,
            _ => find(book, key, credentials, &user, &password),
        };
        // There is always room: a shard lets no more wait than the ring has places.
        if back.send(shard, Checked { ticket, peer, found }.into()).is_err() {
            return;
        }
    }
}

/// Work by the address that it is for, of which each has its turn: so whoever says many passwords
/// keeps nobody else waiting for longer than one of them takes.
#[derive(Default)]
struct Turns {
    by_host: HashMap<Option<IpAddr>, VecDeque<Work>>,
    order: VecDeque<Option<IpAddr>>,
}

impl Turns {
    /// What is to be done next; waits for it if nothing is there. Nothing if nobody is left to ask.
    fn next(&mut self, given: &Receiver<Work>) -> Option<Work> {
        if self.order.is_empty() {
            self.add(given.recv().ok()?);
        }
        while let Ok(work) = given.try_recv() {
            self.add(work);
        }
        let host = self.order.pop_front()?;
        let waiting = self.by_host.get_mut(&host)?;
        let work = waiting.pop_front();
        if waiting.is_empty() {
            self.by_host.remove(&host);
        } else {
            self.order.push_back(host);
        }
        work
    }

    fn add(&mut self, work: Work) {
        let host = work.peer.map(|peer| host_of(peer.ip()));
        let waiting = self.by_host.entry(host).or_default();
        if waiting.is_empty() {
            self.order.push_back(host);
        }
        waiting.push_back(work);
    }
}

fn find(
    book: &SharedBook,
    key: &[u8; 32],
    credentials: Digest,
    user: &str,
    password: &[u8],
) -> Found {
    loop {
        let (passwords, replaced) = {
            let book = open(book);
            if book.proven.get(&credentials, Instant::now()).is_some() {
                // The same as of somebody who waited before.
                return Found::Right { replaced: book.replaced };
            }
            (Arc::clone(&book.passwords), book.replaced)
        };
        let fits = passwords.fit(key, user, password);
        let mut book = open(book);
        if book.replaced == replaced {
            if fits {
                let now = Instant::now();
                book.proven.add(credentials, (), now + PROVEN_FOR, now);
            }
            return if fits { Found::Right { replaced } } else { Found::Wrong };
        }
        // They were replaced meanwhile: what fitted may not any more.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::passwords::hash_password;

    fn book(user: &str, password: &str) -> SharedBook {
        let line = format!("{user}:{}", hash_password(password.as_bytes()).unwrap());
        Book::shared(Arc::new(Passwords::parse(&line).unwrap()))
    }

    fn digest(user: &str, password: &[u8]) -> Digest {
        Digester::new(&[7; 32]).digest(&[user.as_bytes(), password])
    }

    fn check(book: &SharedBook, user: &str, password: &str) -> bool {
        let (key, password) = ([7; 32], password.as_bytes());
        matches!(find(book, &key, digest(user, password), user, password), Found::Right { .. })
    }

    #[test]
    fn what_was_right_is_known_until_the_passwords_are_others() {
        let book = book("ann", "pencil");
        assert!(!check(&book, "ann", "pen"));
        assert!(open(&book).proven.is_empty());
        assert!(check(&book, "ann", "pencil"));
        let known = digest("ann", b"pencil");
        assert!(open(&book).proven.get(&known, Instant::now()).is_some());
        open(&book).replace(Arc::default());
        assert!(open(&book).proven.get(&known, Instant::now()).is_none());
        assert!(!check(&book, "ann", "pencil"));
    }

    #[test]
    fn a_shard_lets_only_so_many_wait() {
        let book = book("ann", "pencil");
        let (to, given) = channel();
        let (counts, digester) = (PasswordCounts::default(), Digester::new(&[7; 32]));
        let mut way = HasherWay { shard: 0, to, book, digester, waiting: 0, counts };
        let asker = (Ticket::default(), None);
        for _ in 0..WAITING_MAX {
            assert_eq!(way.ask(asker, "ann", b"pen"), None);
        }
        let busy = Some(Verdict::Refuse(ReasonCode::ServerBusy));
        assert_eq!(way.ask(asker, "ann", b"pen"), busy);
        let (ticket, peer) = asker;
        let checked = Checked { ticket, peer, found: Found::Wrong };
        let wrong = Verdict::Refuse(ReasonCode::BadUserNameOrPassword);
        assert_eq!(way.answered(&checked), wrong);
        assert_eq!(way.ask(asker, "ann", b"pen"), None);
        assert_eq!((way.counts.busy, way.counts.wrong), (1, 1));
        open(&way.book).replace(Arc::default());
        let outdated = Checked { found: Found::Right { replaced: 0 }, ..checked };
        assert_eq!(Some(way.answered(&outdated)), busy);
        drop(given);
    }

    #[test]
    fn what_an_address_said_before_it_was_banned_is_not_looked_at_and_not_wrong() {
        let book = book("ann", "pencil");
        let mut mailboxes = weir_reactor::mailboxes(&[weir_reactor::Waker::new().unwrap()]);
        let is_out = |address: IpAddr| !address.is_loopback();
        let ways = start::<Checked>(&book, [7; 32], &mut mailboxes, is_out).unwrap();
        let mut way = ways.into_iter().next().unwrap();
        let banned = Some(SocketAddr::from(([192, 0, 2, 1], 1)));
        assert_eq!(way.ask((Ticket::default(), banned), "ann", b"pencil"), None);
        let mut verdicts = Vec::new();
        while verdicts.is_empty() {
            std::thread::yield_now();
            mailboxes[0].look(1);
            mailboxes[0].receive(|_, _, checked| verdicts.push(way.answered(&checked)));
        }
        assert_eq!(verdicts, [Verdict::Refuse(ReasonCode::Banned)]);
        assert_eq!(way.counts.wrong, 0);
    }

    #[test]
    fn each_address_has_its_turn() {
        let (to, given) = channel();
        let work = |host: u8, nth: u8| Work {
            shard: 0,
            ticket: Ticket::default(),
            peer: Some(SocketAddr::from(([192, 0, 2, host], nth.into()))),
            credentials: [0; 32],
            user: String::new(),
            password: Vec::new(),
        };
        for (host, nth) in [(1, 0), (1, 1), (1, 2), (2, 3), (1, 4), (3, 5), (2, 6)] {
            to.send(work(host, nth)).unwrap();
        }
        drop(to);
        let mut turns = Turns::default();
        let order = std::iter::from_fn(|| turns.next(&given));
        let order: Vec<u16> = order.map(|work| work.peer.unwrap().port()).collect();
        assert_eq!(order, [0, 3, 5, 1, 6, 2, 4]);
        assert!(turns.by_host.is_empty());
    }
}
