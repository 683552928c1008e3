//! The ledger of a play: what had to come back, and what did.

use super::feed::Recorded;

/// Results of one play.
#[derive(Debug)]
pub(super) struct Books {
    /// Sequence of the first message.
    first: u64,
    /// Messages of the play, sent or not.
    messages: u64,
    /// A bit for each message whose result came.
    delivered: Vec<u64>,
    /// The latest message whose result came.
    last: u64,
    pub(super) counts: Results,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub(super) delivered: u64,
    pub(super) duplicated: u64,
    pub(super) alien: u64,
    pub(super) altered: u64,
    pub(super) reordered: u64,
}

impl Books {
    pub(super) fn new(first: u64, messages: u64) -> Self {
        let delivered = vec![0; messages.div_ceil(64) as usize];
        Self { first, messages, delivered, last: 0, counts: Results::default() }
    }

    /// Takes a result, its payload and whether it has the QoS of its message; `sent` messages were
    /// written so far. The sequence of its message if it came for the first time.
    pub(super) fn result(
        &mut self,
        recorded: &Recorded,
        payload: &[u8],
        has_qos: bool,
        sent: u64,
    ) -> Option<u64> {
        let place = Recorded::sequence(payload)
            .and_then(|sequence| Some((sequence, sequence.checked_sub(self.first)?)))
            .filter(|&(sequence, place)| {
                place < sent.min(self.messages) && recorded.of(sequence).has_cell
            });
        let Some((sequence, place)) = place else {
            self.counts.alien += 1;
            return None;
        };
        if !has_qos || !recorded.is_whole(sequence, payload) {
            self.counts.altered += 1;
        }
        let (word, bit) = (&mut self.delivered[(place / 64) as usize], 1 << (place % 64));
        if *word & bit != 0 {
            self.counts.duplicated += 1;
            return None;
        }
        *word |= bit;
        self.counts.delivered += 1;
        self.counts.reordered += u64::from(sequence < self.last);
        self.last = self.last.max(sequence);
        Some(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::feed::FIRST_NUMBER;

    fn payload(recorded: &Recorded, sequence: u64) -> Vec<u8> {
        let text = String::from_utf8(recorded.of(sequence).payload.clone()).unwrap();
        let number = (FIRST_NUMBER + sequence).to_string();
        text.replace(&FIRST_NUMBER.to_string(), &number).into_bytes()
    }

    #[test]
    fn each_result_is_judged_once() {
        let recorded = Recorded::new();
        let mut books = Books::new(1_000, 100);
        let wanted = payload(&recorded, 1_003);
        assert_eq!(books.result(&recorded, &wanted, true, 50), Some(1_003));
        assert_eq!(books.result(&recorded, &wanted, true, 50), None);
        // No cell, of an earlier play, not yet sent, beyond the play, of nothing.
        for sequence in [1_004, 3, 1_053, 1_103] {
            let alien = payload(&recorded, sequence);
            assert_eq!(books.result(&recorded, &alien, true, 50), None);
        }
        assert_eq!(books.result(&recorded, b"{}", true, 50), None);
        let mut other = payload(&recorded, 1_013);
        other[10] ^= 1;
        assert_eq!(books.result(&recorded, &other, true, 50), Some(1_013));
        let unlike = payload(&recorded, 1_023);
        assert_eq!(books.result(&recorded, &unlike, false, 50), Some(1_023), "another QoS");
        let counts = Results { delivered: 3, duplicated: 1, alien: 5, altered: 2, reordered: 0 };
        assert_eq!(books.counts, counts);
    }

    #[test]
    fn a_result_that_another_overtook_is_out_of_order_once() {
        let recorded = Recorded::new();
        let mut books = Books::new(0, 100);
        for sequence in [3, 23, 13, 33, 13] {
            books.result(&recorded, &payload(&recorded, sequence), true, 50);
        }
        let counts = Results { delivered: 4, duplicated: 1, reordered: 1, ..Results::default() };
        assert_eq!(books.counts, counts);
    }
}
