//! A connection where the carrier has none: Zenoh says of no put whether it came, and of no session
//! that another node has lost it. The node of the higher slot asks for one by a number, the other
//! one says yes, and what bears another number counts for nothing.

use crate::backoff::Backoff;

/// What is put is a kind, the connection's number, and frames.
pub(super) const HEAD_BYTES: usize = 9;

/// What one says to the other of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is wanted.
    Ask,
    /// It is there.
    Yes,
    /// Frames follow.
    Frames,
    /// It is over, or was never there.
    End,
}

impl Word {
    const ALL: [Self; 4] = [Self::Ask, Self::Yes, Self::Frames, Self::End];

    /// With the number of the connection.
    pub(super) fn head(self, number: u64) -> [u8; HEAD_BYTES] {
        let mut head = [self as u8; HEAD_BYTES];
        head[1..].copy_from_slice(&number.to_be_bytes());
        head
    }

    /// It, the number, and what follows.
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, u64, &[u8])> {
        let (&kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk()?;
        let word = Self::ALL.into_iter().find(|word| *word as u8 == kind)?;
        Some((word, u64::from_be_bytes(*number), rest))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Down,
    /// Asked for, and not there yet.
    Asked(u64),
    Up(u64),
}

/// What follows from a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    /// The connection is there. `true` if another one was, which is lost.
    Up(bool),
    /// The connection is lost.
    Down,
    /// Its frames are to be taken.
    Frames,
}

/// What is known of the connection with one node.
#[derive(Debug)]
pub(super) struct Way {
    /// Whether it is this node that asks.
    asks: bool,
    phase: Phase,
    /// When to ask.
    ask_us: Option<u64>,
    backoff: Backoff,
}

impl Way {
    pub(super) fn new(asks: bool, now_us: u64) -> Self {
        Self { asks, phase: Phase::Down, ask_us: asks.then_some(now_us), backoff: Backoff::new() }
    }

    /// The number of the connection, if there is one.
    pub(super) fn number(&self) -> Option<u64> {
        match self.phase {
            Phase::Up(number) => Some(number),
            Phase::Down | Phase::Asked(_) => None,
        }
    }

    pub(super) fn ask_us(&self) -> Option<u64> {
        self.ask_us
    }

    /// What to say now, if it is time to ask. `number` is one that was not used yet.
    pub(super) fn ask(&mut self, number: u64, now_us: u64) -> Option<(Word, u64)> {
        self.ask_us.filter(|at_us| *at_us <= now_us)?;
        let number = match self.phase {
            // The node may not have been there yet.
            Phase::Asked(number) => number,
            Phase::Down | Phase::Up(_) => number,
        };
        self.phase = Phase::Asked(number);
        self.ask_us = Some(self.backoff.lost(now_us));
        Some((Word::Ask, number))
    }

    /// Takes a word. Says what follows, and what to answer.
    pub(super) fn hear(
        &mut self,
        word: Word,
        number: u64,
        now_us: u64,
    ) -> (Heard, Option<(Word, u64)>) {
        match (word, self.phase) {
            (Word::Ask, phase) if !self.asks => {
                let yes = Some((Word::Yes, number));
                if phase == Phase::Up(number) {
                    return (Heard::Nothing, yes);
                }
                self.made(number, now_us);
                (Heard::Up(matches!(phase, Phase::Up(_))), yes)
            }
            (Word::Yes, Phase::Asked(asked)) if asked == number => {
                self.made(number, now_us);
                (Heard::Up(false), None)
            }
            (Word::Frames, Phase::Up(current)) if current == number => (Heard::Frames, None),
            // Of a connection that this node has given up, or knew before it was started.
            (Word::Frames, _) => (Heard::Nothing, Some((Word::End, number))),
            (Word::End, Phase::Up(current)) if current == number => {
                self.lost(now_us);
                (Heard::Down, None)
            }
            (Word::Ask | Word::Yes | Word::End, _) => (Heard::Nothing, None),
        }
    }

    /// This node gives the connection up. Says what to say.
    pub(super) fn give_up(&mut self, now_us: u64) -> Option<(Word, u64)> {
        let number = self.number()?;
        self.lost(now_us);
        Some((Word::End, number))
    }

    fn made(&mut self, number: u64, now_us: u64) {
        (self.phase, self.ask_us) = (Phase::Up(number), None);
        self.backoff.made(now_us);
    }

    fn lost(&mut self, now_us: u64) {
        self.phase = Phase::Down;
        let again_us = self.backoff.lost(now_us);
        self.ask_us = self.asks.then_some(again_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_as_written() {
        for word in Word::ALL {
            let bytes = [&word.head(77)[..], b"rest"].concat();
            assert_eq!(Word::split(&bytes), Some((word, 77, &b"rest"[..])));
            assert_eq!(Word::split(&bytes[..8]), None);
        }
        assert_eq!(Word::split(&[9; 20]), None);
    }

    #[test]
    fn one_asks_until_the_other_has_said_yes() {
        let (mut asker, mut other) = (Way::new(true, 0), Way::new(false, 0));
        assert_eq!(other.ask(1, 0), None, "it waits to be asked");
        let ask = asker.ask(1, 0);
        assert_eq!((ask, asker.ask(2, 0)), (Some((Word::Ask, 1)), None));
        let again_us = asker.ask_us().unwrap();
        assert_eq!(asker.ask(2, again_us), Some((Word::Ask, 1)), "the first may be lost");
        let yes = Some((Word::Yes, 1));
        assert_eq!(other.hear(Word::Ask, 1, 0), (Heard::Up(false), yes));
        assert_eq!(other.hear(Word::Ask, 1, 0), (Heard::Nothing, yes), "it came twice");
        assert_eq!(asker.hear(Word::Yes, 1, 0), (Heard::Up(false), None));
        assert_eq!(asker.hear(Word::Yes, 1, 0), (Heard::Nothing, None));
        assert_eq!((asker.number(), asker.ask_us()), (Some(1), None));
        assert_eq!(other.hear(Word::Frames, 1, 0), (Heard::Frames, None));
    }

    #[test]
    fn a_connection_that_one_has_given_up_ends_for_the_other() {
        let (mut asker, mut other) = (Way::new(true, 0), Way::new(false, 0));
        let (_, number) = asker.ask(1, 0).unwrap();
        other.hear(Word::Ask, number, 0);
        asker.hear(Word::Yes, number, 0);
        assert_eq!(other.give_up(0), Some((Word::End, 1)));
        assert_eq!(other.give_up(0), None);
        let end = Some((Word::End, 1));
        assert_eq!(other.hear(Word::Frames, 1, 0), (Heard::Nothing, end), "in case it was lost");
        assert_eq!(asker.hear(Word::End, 1, 0), (Heard::Down, None));
        assert_eq!(asker.hear(Word::End, 1, 0), (Heard::Nothing, None));
        let again_us = asker.ask_us().unwrap();
        assert_eq!(asker.ask(2, again_us), Some((Word::Ask, 2)), "another one");
        other.hear(Word::Ask, 2, 0);
        assert_eq!(other.hear(Word::Ask, 3, 0), (Heard::Up(true), Some((Word::Yes, 3))));
    }
}
