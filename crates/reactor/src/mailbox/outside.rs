//! Letters between the threads of a mesh and one thread outside it, which has no reactor.
//!
//! A ring each way with each thread of the mesh. Nobody waits here: a letter that does not fit is
//! handed back to a sender outside, and dropped and counted for a sender in the mesh, which thus
//! takes no harm from a thread outside that is slow or has ended.

use super::{Inbox, Mailbox, wake_if_asleep};
use crate::Waker;
use rtrb::{Consumer, Producer, PushError, RingBuffer};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The end of the thread outside: sends letters `T`, and gets letters `A`.
pub struct Outside<T, A> {
    ways: Vec<Way<T, A>>,
    /// Where a byte comes that wakes it.
    wakes: UnixStream,
    sleeps: Arc<AtomicBool>,
}

/// To and from one thread of the mesh.
struct Way<T, A> {
    to: Producer<T>,
    from: Consumer<A>,
    waker: Waker,
    sleeps: Arc<AtomicBool>,
}

/// The end of a thread of the mesh. What the thread outside sends comes with its [`Mailbox`].
pub struct ToOutside<A> {
    to: Producer<A>,
    bell: Arc<UnixStream>,
    sleeps: Arc<AtomicBool>,
    dropped: u64,
}

/// That of the thread outside, and those of the mesh in its order.
type Ends<T, A> = (Outside<T, A>, Vec<ToOutside<A>>);

/// What is known of a thread's mailbox wherever letters for it come from.
#[derive(Clone)]
pub struct Address {
    waker: Waker,
    sleeps: Arc<AtomicBool>,
}

/// What a thread of the mesh gets letters by from a thread outside, once it has it:
/// [`Mailbox::join`].
pub struct Joint<T>(Inbox<T>);

/// That of the thread outside, and those of the mesh, with what each is to join.
type LaterEnds<T, A> = (Outside<T, A>, Vec<(ToOutside<A>, Joint<T>)>);

/// Connects a thread outside with the threads of these mailboxes, by rings of so many letters.
///
/// # Errors
/// What the system says of two more open files.
pub fn outside<T, A>(mailboxes: &mut [Mailbox<T>], letters_max: usize) -> io::Result<Ends<T, A>> {
    let addresses: Vec<_> = mailboxes.iter().map(Mailbox::address).collect();
    let (outside, ends) = outside_later(&addresses, letters_max)?;
    let join = |(mailbox, (end, joint)): (&mut Mailbox<T>, _)| {
        mailbox.join(joint);
        end
    };
    Ok((outside, mailboxes.iter_mut().zip(ends).map(join).collect()))
}

/// The same where the mailboxes are with their threads already.
///
/// # Errors
/// As those of [`outside`].
pub fn outside_later<T, A>(
    addresses: &[Address],
    letters_max: usize,
) -> io::Result<LaterEnds<T, A>> {
    let (bell, wakes) = UnixStream::pair()?;
    bell.set_nonblocking(true)?;
    wakes.set_nonblocking(true)?;
    let bell = Arc::new(bell);
    let sleeps = Arc::new(AtomicBool::new(true));
    let connect = |address: &Address| {
        let (to_mesh, from_outside) = RingBuffer::new(letters_max);
        let (to_outside, from_mesh) = RingBuffer::new(letters_max);
        let Address { waker, sleeps: mesh_sleeps } = address.clone();
        let way = Way { to: to_mesh, from: from_mesh, waker, sleeps: mesh_sleeps };
        let (bell, sleeps) = (Arc::clone(&bell), Arc::clone(&sleeps));
        let end = ToOutside { to: to_outside, bell, sleeps, dropped: 0 };
        (way, (end, Joint(Inbox::new(from_outside))))
    };
    let (ways, ends) = addresses.iter().map(connect).unzip();
    Ok((Outside { ways, wakes, sleeps }, ends))
}

impl<T> Mailbox<T> {
    /// Where letters from outside are to come.
    pub fn address(&self) -> Address {
        Address { waker: self.waker.clone(), sleeps: Arc::clone(&self.sleeps) }
    }

    /// Gets the letters of one more thread outside from now on. Those of threads that have ended
    /// are done with once all of their letters were handed over.
    pub fn join(&mut self, Joint(inbox): Joint<T>) {
        // Nothing comes into a ring that was abandoned before it was looked at.
        self.outside
            .retain(|old| !old.ring.is_abandoned() || !old.ring.is_empty() || old.found > 0);
        self.outside.push(inbox);
    }
}

impl<T, A> Outside<T, A> {
    /// Sends a letter at once.
    ///
    /// # Errors
    /// The letter comes back if there is no room for it, or no such thread.
    pub fn send(&mut self, to: usize, letter: T) -> Result<(), T> {
        let Some(way) = self.ways.get_mut(to) else { return Err(letter) };
        way.to.push(letter).map_err(|PushError::Full(letter)| letter)?;
        wake_if_asleep(&way.sleeps, || way.waker.wake());
        Ok(())
    }

    /// Hands over everything that has come, the sender with each letter.
    pub fn receive(&mut self, mut take: impl FnMut(usize, A)) {
        loop {
            self.sleeps.store(false, Ordering::Relaxed);
            for (from, way) in self.ways.iter_mut().enumerate() {
                while let Ok(letter) = way.from.pop() {
                    take(from, letter);
                }
            }
            self.sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.ways.iter().all(|way| way.from.is_empty()) {
                return;
            }
        }
    }

    /// What the thread waits for: a byte can be read here once a letter has come that
    /// [`Outside::receive`] has not handed over. Whoever waits reads what is there, and receives
    /// then. It does not block.
    ///
    /// # Errors
    /// What the system says of one more open file.
    pub fn wakes(&self) -> io::Result<UnixStream> {
        self.wakes.try_clone()
    }
}

impl<A> ToOutside<A> {
    /// Sends a letter at once; drops it if there is no room.
    pub fn send(&mut self, letter: A) {
        match self.to.push(letter) {
            Ok(()) => wake_if_asleep(&self.sleeps, || {
                // If it has no room for a byte, then there is one that wakes; if nobody is there
                // to wake, then nobody waits.
                let _ = (&*self.bell).write(&[0]);
            }),
            Err(PushError::Full(_)) => self.dropped += 1,
        }
    }

    /// Letters that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl<T> std::fmt::Debug for Joint<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Joint")
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Address")
    }
}

impl<T, A> std::fmt::Debug for Outside<T, A> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Outside").field("ways", &self.ways.len()).finish_non_exhaustive()
    }
}

impl<A> std::fmt::Debug for ToOutside<A> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ToOutside").field("dropped", &self.dropped).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailboxes;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::AsFd;
    use std::io::Read;

    const ROOM: usize = 4;

    type Mesh = (Vec<Mailbox<u32>>, Outside<u32, u32>, Vec<ToOutside<u32>>);

    fn mesh(threads: usize) -> Mesh {
        let wakers: Vec<Waker> = (0..threads).map(|_| Waker::new().unwrap()).collect();
        let mut mailboxes = mailboxes(&wakers);
        let (outside, ends) = outside(&mut mailboxes, ROOM).unwrap();
        (mailboxes, outside, ends)
    }

    fn all(mailbox: &mut Mailbox<u32>) -> Vec<(usize, u32)> {
        let mut letters = Vec::new();
        while mailbox.look(100) {
            mailbox.receive(|_, from, letter| letters.push((from, letter)));
        }
        letters
    }

    fn is_readable(fd: &impl AsFd) -> bool {
        let mut fds = [PollFd::new(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    #[test]
    fn letters_go_both_ways_beside_those_of_the_mesh() {
        let (mut mailboxes, mut outside, mut ends) = mesh(2);
        mailboxes[0].send(1, 7);
        mailboxes[0].post();
        outside.send(1, 8).unwrap();
        assert_eq!(all(&mut mailboxes[1]), [(0, 7), (2, 8)]);
        ends[1].send(9);
        ends[0].send(10);
        let mut came = Vec::new();
        outside.receive(|from, letter| came.push((from, letter)));
        assert_eq!(came, [(0, 10), (1, 9)]);
    }

    #[test]
    fn what_does_not_fit_comes_back_to_a_sender_outside() {
        let (mut mailboxes, mut outside, _ends) = mesh(1);
        for letter in 0..ROOM as u32 {
            outside.send(0, letter).unwrap();
        }
        assert_eq!(outside.send(0, 99), Err(99));
        assert_eq!(outside.send(1, 99), Err(99), "nobody is there");
        assert_eq!(all(&mut mailboxes[0]).len(), ROOM);
        outside.send(0, 99).unwrap();
    }

    #[test]
    fn a_thread_outside_that_takes_nothing_or_is_gone_holds_up_nobody() {
        let (mut mailboxes, outside, mut ends) = mesh(1);
        for letter in 0..100 {
            ends[0].send(letter);
        }
        assert_eq!(ends[0].dropped(), 100 - ROOM as u64);
        assert_eq!(mailboxes[0].unposted(), 0, "its connections are read on");
        assert!(mailboxes[0].post() && mailboxes[0].fall_asleep());
        drop(outside);
        ends[0].send(0);
        assert_eq!(ends[0].dropped(), 101 - ROOM as u64);
    }

    #[test]
    fn a_thread_of_the_mesh_does_not_sleep_over_a_letter_from_outside() {
        let (mut mailboxes, mut outside, _ends) = mesh(1);
        let waker = outside.ways[0].waker.fd().try_clone().unwrap();
        assert!(mailboxes[0].fall_asleep());
        outside.send(0, 1).unwrap();
        assert!(is_readable(&waker), "it is woken");
        mailboxes[0].wake_up();
        assert!(!mailboxes[0].fall_asleep(), "a letter is there");
        assert_eq!(all(&mut mailboxes[0]).len(), 1);
        assert!(mailboxes[0].fall_asleep());
    }

    #[test]
    fn a_thread_outside_is_woken_by_the_next_letter_and_not_after_it_took_all() {
        let (_mailboxes, mut outside, mut ends) = mesh(1);
        let mut wakes = outside.wakes().unwrap();
        let mut bytes = [0; 64];
        assert!(!is_readable(&wakes));
        ends[0].send(1);
        ends[0].send(2);
        assert_eq!(wakes.read(&mut bytes).unwrap(), 1, "woken once");
        outside.receive(|_, _| ());
        assert!(!is_readable(&wakes));
        let sender = std::thread::spawn(move || {
            for letter in 0..1_000 {
                ends[0].send(letter);
                if letter % 10 == 0 {
                    std::thread::yield_now();
                }
            }
            // Kept: an end that is gone can be read for ever.
            ends
        });
        let mut came = 0;
        while !sender.is_finished() || is_readable(&wakes) {
            if wakes.read(&mut bytes).is_ok() {
                outside.receive(|_, _| came += 1);
            }
        }
        let ends = sender.join().unwrap();
        assert_eq!(came + ends[0].dropped(), 1_000, "come or counted");
    }
}
