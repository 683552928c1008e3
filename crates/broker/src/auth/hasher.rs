//! The thread that hashes passwords, so that no shard does: one hash takes from a twentieth of a
//! millisecond to a tenth of a second.
//!
//! Credentials that were right are known for ten minutes, by a keyed hash of them, and clients that
//! come back with them are let in at once by their shards. So a storm of reconnects hashes for each
//! user once, and not at all if it was there shortly before.

use super::passwords::Passwords;
use super::scram::hmac;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_core::{Ticket, Verdict};
use weir_reactor::{Mailbox, Outside, outside};
use weir_wire::ReasonCode;

/// Clients of one shard that wait for the hasher. Whoever comes then is told that the server is
/// busy.
const WAITING_MAX: usize = 1024;

/// How long credentials are known that were right.
const PROVEN_FOR: Duration = Duration::from_secs(600);

/// How many are known at most: about 10 MB. Over it, the oldest are forgotten.
const PROVEN_MAX: usize = 65_536;

/// Names credentials without saying what they are.
type Credentials = [u8; 32];

/// What passwords there are, and which of them were right.
#[derive(Debug)]
pub(crate) struct Book {
    passwords: Arc<Passwords>,
    proven: Proven,
    /// How often the passwords were replaced.
    replaced: u64,
}

/// The same for all shards and the hasher.
pub(crate) type SharedBook = Arc<Mutex<Book>>;

impl Book {
    pub(crate) fn shared(passwords: Arc<Passwords>) -> SharedBook {
        Arc::new(Mutex::new(Self { passwords, proven: Proven::default(), replaced: 0 }))
    }

    /// The passwords are these from now on, and none was right yet. Returns those before.
    pub(crate) fn replace(&mut self, passwords: Arc<Passwords>) -> Arc<Passwords> {
        self.proven = Proven::default();
        self.replaced += 1;
        std::mem::replace(&mut self.passwords, passwords)
    }
}

pub(crate) fn open(book: &SharedBook) -> MutexGuard<'_, Book> {
    // Nothing is half done in it, whatever a thread died of.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Credentials that were right not long ago.
#[derive(Debug, Default)]
struct Proven {
    until: HashMap<Credentials, Instant>,
    /// All of them, oldest first.
    order: VecDeque<Credentials>,
}

impl Proven {
    fn has(&self, credentials: &Credentials, now: Instant) -> bool {
        self.until.get(credentials).is_some_and(|&until| now < until)
    }

    fn add(&mut self, credentials: Credentials, now: Instant) {
        let is_over = |credentials: &Credentials| !self.has(credentials, now);
        let over = self.order.iter().take_while(|&it| is_over(it)).count();
        let too_many = (self.order.len() + 1).saturating_sub(PROVEN_MAX);
        for credentials in self.order.drain(..over.max(too_many)) {
            self.until.remove(&credentials);
        }
        if self.until.insert(credentials, now + PROVEN_FOR).is_none() {
            self.order.push_back(credentials);
        }
    }
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
    key: [u8; 32],
    waiting: usize,
    pub(crate) counts: PasswordCounts,
}

#[derive(Debug)]
struct Work {
    shard: usize,
    ticket: Ticket,
    credentials: Credentials,
    user: String,
    password: Vec<u8>,
}

/// What the hasher has found out.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) ticket: Ticket,
    is_right: bool,
    /// How often the passwords had been replaced.
    replaced: u64,
}

/// Starts the hasher; returns each shard's way to it. It ends with the last of them. Nobody else
/// knows `secret`.
///
/// # Errors
/// What the system says of a thread and two open files.
pub(crate) fn start<T: From<Checked> + Send + 'static>(
    book: &SharedBook,
    secret: [u8; 32],
    mailboxes: &mut [Mailbox<T>],
) -> io::Result<Vec<HasherWay>> {
    let (to, given) = channel();
    let (back, _) = outside::<T, ()>(mailboxes, WAITING_MAX)?;
    let shared = Arc::clone(book);
    let run = move || run(&shared, &secret, &given, back);
    std::thread::Builder::new().name("hasher".into()).spawn(run)?;
    let way = |shard| HasherWay {
        shard,
        to: to.clone(),
        book: Arc::clone(book),
        key: secret,
        waiting: 0,
        counts: PasswordCounts::default(),
    };
    Ok((0..mailboxes.len()).map(way).collect())
}

impl HasherWay {
    /// Whether the file has the user.
    pub(super) fn knows(&self, user: &str) -> bool {
        open(&self.book).passwords.has(user)
    }

    /// Whether these are a user's credentials; nothing if the hasher will say.
    pub(super) fn ask(&mut self, ticket: Ticket, user: &str, password: &[u8]) -> Option<Verdict> {
        let credentials = credentials(&self.key, user, password);
        if open(&self.book).proven.has(&credentials, Instant::now()) {
            self.counts.known += 1;
            return Some(Verdict::Accept(Vec::new()));
        }
        if self.waiting >= WAITING_MAX {
            self.counts.busy += 1;
            return Some(Verdict::Refuse(ReasonCode::ServerBusy));
        }
        let (user, password, shard) = (user.to_owned(), password.to_vec(), self.shard);
        if self.to.send(Work { shard, ticket, credentials, user, password }).is_err() {
            return Some(Verdict::Refuse(ReasonCode::ServerUnavailable));
        }
        self.counts.hashed += 1;
        self.waiting += 1;
        None
    }

    /// The hasher has answered.
    pub(super) fn answered(&mut self, checked: &Checked) -> Verdict {
        self.waiting -= 1;
        if checked.is_right && open(&self.book).replaced != checked.replaced {
            // It was right then. Whoever comes again is looked at again.
            self.counts.busy += 1;
            Verdict::Refuse(ReasonCode::ServerBusy)
        } else if checked.is_right {
            Verdict::Accept(Vec::new())
        } else {
            self.counts.wrong += 1;
            Verdict::Refuse(ReasonCode::BadUserNameOrPassword)
        }
    }
}

fn run<T: From<Checked>>(
    book: &SharedBook,
    key: &[u8; 32],
    given: &Receiver<Work>,
    mut back: Outside<T, ()>,
) {
    while let Ok(work) = given.recv() {
        let Work { shard, ticket, credentials, user, password } = work;
        let (is_right, replaced) = is_right(book, key, credentials, &user, &password);
        // There is always room: a shard lets no more wait than the ring has places.
        if back.send(shard, Checked { ticket, is_right, replaced }.into()).is_err() {
            return;
        }
    }
}

fn is_right(
    book: &SharedBook,
    key: &[u8; 32],
    credentials: Credentials,
    user: &str,
    password: &[u8],
) -> (bool, u64) {
    loop {
        let (passwords, replaced) = {
            let book = open(book);
            if book.proven.has(&credentials, Instant::now()) {
                // The same as of somebody who waited before.
                return (true, book.replaced);
            }
            (Arc::clone(&book.passwords), book.replaced)
        };
        let fits = passwords.fit(key, user, password);
        let mut book = open(book);
        if book.replaced == replaced {
            if fits {
                book.proven.add(credentials, Instant::now());
            }
            return (fits, replaced);
        }
        // They were replaced meanwhile: what fitted may not any more.
    }
}

fn credentials(key: &[u8; 32], user: &str, password: &[u8]) -> Credentials {
    // The length in front: no other user and password make the same text.
    hmac(key, &[&(user.len() as u64).to_be_bytes(), user.as_bytes(), password].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::passwords::hash_password;

    fn book(user: &str, password: &str) -> SharedBook {
        let line = format!("{user}:{}", hash_password(password.as_bytes()).unwrap());
        Book::shared(Arc::new(Passwords::parse(&line).unwrap()))
    }

    fn check(book: &SharedBook, user: &str, password: &str) -> bool {
        let (key, password) = ([7; 32], password.as_bytes());
        is_right(book, &key, credentials(&key, user, password), user, password).0
    }

    #[test]
    fn what_was_right_is_known_until_the_passwords_are_others() {
        let book = book("ann", "pencil");
        assert!(!check(&book, "ann", "pen"));
        assert_eq!(open(&book).proven.order.len(), 0);
        assert!(check(&book, "ann", "pencil"));
        let known = credentials(&[7; 32], "ann", b"pencil");
        assert!(open(&book).proven.has(&known, Instant::now()));
        open(&book).replace(Arc::default());
        assert!(!open(&book).proven.has(&known, Instant::now()));
        assert!(!check(&book, "ann", "pencil"));
    }

    #[test]
    fn what_was_right_is_known_for_a_while_and_the_oldest_goes_for_the_newest() {
        let (mut proven, now) = (Proven::default(), Instant::now());
        let name = |number: usize| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&number.to_be_bytes());
            name
        };
        (0..=PROVEN_MAX).for_each(|number| proven.add(name(number), now));
        assert!(!proven.has(&name(0), now) && proven.has(&name(1), now));
        assert_eq!((proven.until.len(), proven.order.len()), (PROVEN_MAX, PROVEN_MAX));
        let later = now + PROVEN_FOR;
        assert!(!proven.has(&name(1), later));
        proven.add(name(0), later);
        assert_eq!((proven.until.len(), proven.order.len()), (1, 1));
    }

    #[test]
    fn a_user_and_a_password_cannot_be_cut_elsewhere() {
        assert_ne!(credentials(&[7; 32], "ab", b"c"), credentials(&[7; 32], "a", b"bc"));
        assert_ne!(credentials(&[7; 32], "ab", b"c"), credentials(&[8; 32], "ab", b"c"));
    }

    #[test]
    fn a_shard_lets_only_so_many_wait() {
        let book = book("ann", "pencil");
        let (to, given) = channel();
        let counts = PasswordCounts::default();
        let mut way = HasherWay { shard: 0, to, book, key: [7; 32], waiting: 0, counts };
        for _ in 0..WAITING_MAX {
            assert_eq!(way.ask(Ticket::default(), "ann", b"pen"), None);
        }
        let busy = Some(Verdict::Refuse(ReasonCode::ServerBusy));
        assert_eq!(way.ask(Ticket::default(), "ann", b"pen"), busy);
        let checked = Checked { ticket: Ticket::default(), is_right: false, replaced: 0 };
        let wrong = Verdict::Refuse(ReasonCode::BadUserNameOrPassword);
        assert_eq!(way.answered(&checked), wrong);
        assert_eq!(way.ask(Ticket::default(), "ann", b"pen"), None);
        assert_eq!((way.counts.busy, way.counts.wrong), (1, 1));
        open(&way.book).replace(Arc::default());
        let outdated = Checked { is_right: true, ..checked };
        assert_eq!(Some(way.answered(&outdated)), busy);
        drop(given);
    }
}
