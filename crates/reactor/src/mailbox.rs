//! Letters between the threads of a process, each with a reactor of its own.
//!
//! One ring a pair of threads, so nobody waits for a lock. What a turn sends leaves at its end, in
//! one piece for each receiver, which is woken only if it sleeps: waking a core that sleeps costs
//! as much as several sends.
//!
//! Threads without a reactor are not in this mesh: they are connected with it from [`outside`].

pub(crate) mod outside;

use crate::Waker;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Letters in a ring, and in all rings of a process: their memory grows with the square of the
/// threads, and is all touched in time. What does not fit waits with its sender.
const RING_LETTERS: usize = 8192;
const ALL_LETTERS: usize = 65_536;
const RING_LETTERS_MIN: usize = 256;

/// One thread's letter boxes: to each other thread, and from each.
pub struct Mailbox<T> {
    ways: Vec<Option<Way<T>>>,
    /// From each thread outside the mesh.
    outside: Vec<Inbox<T>>,
    waker: Waker,
    sleeps: Arc<AtomicBool>,
}

/// To and from one other thread.
struct Way<T> {
    /// What was sent in this turn, and what did not fit.
    unposted: VecDeque<T>,
    to: Producer<T>,
    from: Inbox<T>,
    waker: Waker,
    sleeps: Arc<AtomicBool>,
}

/// From one other thread.
struct Inbox<T> {
    ring: Consumer<T>,
    /// Letters that [`Mailbox::look`] found and [`Mailbox::receive`] has not handed over.
    found: usize,
}

impl<T> Inbox<T> {
    fn new(ring: Consumer<T>) -> Self {
        Self { ring, found: 0 }
    }
}

/// The mailboxes of threads with these wakers, each connected with each.
pub fn mailboxes<T>(wakers: &[Waker]) -> Vec<Mailbox<T>> {
    let count = wakers.len();
    let rings = count * count.saturating_sub(1);
    let letters = (ALL_LETTERS / rings.max(1)).clamp(RING_LETTERS_MIN, RING_LETTERS);
    let sleeps: Vec<_> = wakers.iter().map(|_| Arc::new(AtomicBool::new(false))).collect();
    // By sender, then receiver.
    let mut producers: Vec<Vec<Option<Producer<T>>>> = Vec::new();
    let mut consumers: Vec<Vec<Option<Consumer<T>>>> = Vec::new();
    for sender in 0..count {
        let rings = (0..count).map(|receiver| {
            if receiver == sender {
                return (None, None);
            }
            let (producer, consumer) = RingBuffer::new(letters);
            (Some(producer), Some(consumer))
        });
        let (to, from): (Vec<_>, Vec<_>) = rings.unzip();
        producers.push(to);
        consumers.push(from);
    }
    let mut mailbox = |own: usize| {
        let mut way = |other: usize| {
            let to = producers[own][other].take()?;
            let from = Inbox::new(consumers[other][own].take()?);
            let (waker, sleeps) = (wakers[other].clone(), Arc::clone(&sleeps[other]));
            Some(Way { unposted: VecDeque::new(), to, from, waker, sleeps })
        };
        let (ways, waker) = ((0..count).map(&mut way).collect(), wakers[own].clone());
        Mailbox { ways, outside: Vec::new(), waker, sleeps: Arc::clone(&sleeps[own]) }
    };
    (0..count).map(&mut mailbox).collect()
}

impl<T> Mailbox<T> {
    /// Keeps a letter for `to`; it leaves with [`Mailbox::post`]. Letters keep their order. A
    /// letter to oneself is dropped.
    pub fn send(&mut self, to: usize, letter: T) {
        if let Some(Some(way)) = self.ways.get_mut(to) {
            way.unposted.push_back(letter);
        }
    }

    /// Letters that have not left yet, to the receiver that has the most: the caller sends less
    /// while they are many.
    pub fn unposted(&self) -> usize {
        self.ways.iter().flatten().map(|way| way.unposted.len()).max().unwrap_or(0)
    }

    /// Lets go what fits into the rings and wakes receivers that sleep. Says whether all has left;
    /// if not, it is to be called again soon.
    pub fn post(&mut self) -> bool {
        let mut is_all = true;
        for way in self.ways.iter_mut().flatten() {
            if way.unposted.is_empty() {
                continue;
            }
            while let Some(letter) = way.unposted.pop_front() {
                if let Err(rtrb::PushError::Full(letter)) = way.to.push(letter) {
                    way.unposted.push_front(letter);
                    is_all = false;
                    break;
                }
            }
            wake_if_asleep(&way.sleeps, || way.waker.wake());
        }
        is_all
    }

    /// Looks for letters, at most `letters_max` from each sender, and says whether there are any.
    /// All that it finds was sent before it returns, so a clock that is read then is not behind
    /// that of any of their senders.
    pub fn look(&mut self, letters_max: usize) -> bool {
        let ways = self.ways.iter_mut().flatten().map(|way| &mut way.from);
        let mut has_found = false;
        for inbox in ways.chain(&mut self.outside) {
            inbox.found = inbox.ring.slots().min(letters_max);
            has_found |= inbox.found > 0;
        }
        has_found
    }

    /// Hands over what [`Mailbox::look`] found, the sender with each letter. Threads outside the
    /// mesh are numbered behind those in it. Says whether there are more.
    pub fn receive(&mut self, mut take: impl FnMut(&mut Self, usize, T)) -> bool {
        let mut has_more = false;
        for sender in 0..self.ways.len() + self.outside.len() {
            while let Some(inbox) = self.from(sender) {
                if inbox.found == 0 {
                    has_more |= !inbox.ring.is_empty();
                    break;
                }
                inbox.found -= 1;
                let Ok(letter) = inbox.ring.pop() else { break };
                take(self, sender, letter);
            }
        }
        has_more
    }

    fn from(&mut self, sender: usize) -> Option<&mut Inbox<T>> {
        match sender.checked_sub(self.ways.len()) {
            None => self.ways[sender].as_mut().map(|way| &mut way.from),
            Some(at) => self.outside.get_mut(at),
        }
    }

    /// Says that the thread is about to wait, so that letters wake it. False if some are there
    /// already, and it must not wait.
    pub fn fall_asleep(&self) -> bool {
        self.sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut inboxes = self.ways.iter().flatten().map(|way| &way.from).chain(&self.outside);
        let has_letters = inboxes.any(|inbox| !inbox.ring.is_empty());
        if has_letters {
            self.sleeps.store(false, Ordering::Relaxed);
        }
        !has_letters
    }

    /// The thread waits no more.
    pub fn wake_up(&self) {
        self.sleeps.store(false, Ordering::Relaxed);
    }
}

/// Wakes the receiver of letters that were put into its ring, unless it is awake.
fn wake_if_asleep(sleeps: &AtomicBool, wake: impl FnOnce()) {
    // Either the receiver sees the letters before it sleeps, or we see that it sleeps.
    fence(Ordering::SeqCst);
    // Looked at before it is written: one that is awake keeps the line to itself.
    if sleeps.load(Ordering::Relaxed) && sleeps.swap(false, Ordering::Relaxed) {
        wake();
    }
}

impl<T> std::fmt::Debug for Mailbox<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Mailbox").field("unposted", &self.unposted()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Closed, Handler, Io, Reactor, Token};
    use std::time::Duration;

    struct Nobody;

    impl Handler for Nobody {
        fn received(&mut self, _io: &mut Io, _token: Token, bytes: &[u8]) -> usize {
            bytes.len()
        }
        fn closed(&mut self, _io: &mut Io, _token: Token, _cause: Closed) {}
        fn turn_end(&mut self, _io: &mut Io) {}
    }

    fn two() -> (Mailbox<u32>, Mailbox<u32>, Waker) {
        let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
        let mut all = mailboxes(&wakers).into_iter();
        let [_, waker] = wakers;
        (all.next().unwrap(), all.next().unwrap(), waker)
    }

    fn all(mailbox: &mut Mailbox<u32>) -> Vec<u32> {
        let mut letters = Vec::new();
        while mailbox.look(100) {
            mailbox.receive(|_, _, letter| letters.push(letter));
        }
        letters
    }

    #[test]
    fn letters_come_in_order_though_more_are_sent_than_fit() {
        let (mut a, mut b, _) = two();
        let count = RING_LETTERS as u32 * 2 + 5;
        (0..count).for_each(|letter| a.send(1, letter));
        let mut came = Vec::new();
        while !a.post() {
            came.extend(all(&mut b));
        }
        came.extend(all(&mut b));
        assert_eq!(came, (0..count).collect::<Vec<_>>());
        assert_eq!(a.unposted(), 0);
    }

    #[test]
    fn what_came_after_the_look_waits_for_the_next() {
        let (mut a, mut b, _) = two();
        a.send(1, 7);
        a.post();
        assert!(b.look(100));
        a.send(1, 8);
        a.post();
        let mut letters = Vec::new();
        assert!(b.receive(|_, _, letter| letters.push(letter)), "there are more");
        assert_eq!(letters, [7]);
        assert_eq!(all(&mut b), [8]);
    }

    #[test]
    fn nobody_sleeps_over_a_letter() {
        let (mut a, b, _) = two();
        assert!(b.fall_asleep());
        b.wake_up();
        a.send(1, 7);
        a.post();
        assert!(!b.fall_asleep(), "a letter is there");
    }

    #[test]
    fn who_sleeps_is_woken_by_letters_from_another_thread() {
        const LETTERS: u32 = 2000;
        let (mut a, mut b, waker) = two();
        let receiver = std::thread::spawn(move || {
            let mut reactor = Reactor::with_waker(waker).unwrap();
            let mut came = Vec::new();
            while came.len() < LETTERS as usize {
                // Too long to be the reason that it goes on.
                let timeout = if b.fall_asleep() { 60 } else { 0 };
                reactor.turn(Some(Duration::from_secs(timeout)), &mut Nobody).unwrap();
                b.wake_up();
                came.extend(all(&mut b));
            }
            came
        });
        for letter in 0..LETTERS {
            a.send(1, letter);
            a.post();
            if letter % 100 == 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(receiver.join().unwrap(), (0..LETTERS).collect::<Vec<_>>());
    }
}
