//! What was found out of late, by the keyed hash of what it was found out about: a bounded table.

use aws_lc_rs::hmac::{Context, HMAC_SHA256, Key};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::Instant;

/// Names credentials without saying what they are.
pub type Digest = [u8; 32];

/// Makes digests that nobody else can.
#[derive(Clone)]
pub struct Digester(Key);

impl Digester {
    /// Nobody else knows `secret`.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self(Key::new(HMAC_SHA256, secret))
    }

    /// Of these parts, and of no others that would make the same text.
    pub fn digest(&self, parts: &[&[u8]]) -> Digest {
        let mut signing = Context::with_key(&self.0);
        for part in parts {
            signing.update(&(part.len() as u64).to_be_bytes());
            signing.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(signing.sign().as_ref());
        digest
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Digester")
    }
}

/// Values that hold for a while. Over its bound, the oldest go.
#[derive(Debug)]
pub struct Recent<V> {
    max: usize,
    by_digest: HashMap<Digest, (Instant, V)>,
    /// All of them, oldest first.
    order: VecDeque<Digest>,
}

impl<V> Recent<V> {
    /// Of `max` values at most.
    pub fn new(max: usize) -> Self {
        Self { max, by_digest: HashMap::new(), order: VecDeque::new() }
    }

    /// What holds now.
    pub fn get(&self, digest: &Digest, now: Instant) -> Option<&V> {
        self.by_digest.get(digest).filter(|(until, _)| now < *until).map(|(_, value)| value)
    }

    /// It holds until then.
    pub fn add(&mut self, digest: Digest, value: V, until: Instant, now: Instant) {
        if until <= now || self.max == 0 {
            return;
        }
        let is_over = |digest: &Digest| self.get(digest, now).is_none();
        let over = self.order.iter().take_while(|&it| is_over(it)).count();
        let too_many = (self.order.len() + 1).saturating_sub(self.max);
        for digest in self.order.drain(..over.max(too_many)) {
            self.by_digest.remove(&digest);
        }
        if self.by_digest.insert(digest, (until, value)).is_none() {
            self.order.push_back(digest);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_digest.clear();
        self.order.clear();
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MAX: usize = 1_000;

    fn name(number: usize) -> Digest {
        Digester::new(&[7; 32]).digest(&[&number.to_be_bytes()])
    }

    #[test]
    fn what_was_found_is_known_for_a_while_and_the_oldest_goes_for_the_newest() {
        let (mut recent, now) = (Recent::new(MAX), Instant::now());
        let until = now + Duration::from_secs(600);
        (0..=MAX).for_each(|number| recent.add(name(number), number, until, now));
        assert_eq!((recent.get(&name(0), now), recent.get(&name(1), now)), (None, Some(&1)));
        assert_eq!((recent.by_digest.len(), recent.len()), (MAX, MAX));
        assert_eq!(recent.get(&name(1), until), None);
        recent.add(name(0), 0, until + Duration::from_secs(1), until);
        assert_eq!((recent.by_digest.len(), recent.len()), (1, 1));
        recent.clear();
        assert!(recent.is_empty() && recent.get(&name(0), until).is_none());
    }

    #[test]
    fn parts_cannot_be_cut_elsewhere() {
        let digester = Digester::new(&[7; 32]);
        assert_ne!(digester.digest(&[b"ab", b"c"]), digester.digest(&[b"a", b"bc"]));
        assert_ne!(digester.digest(&[b"a"]), Digester::new(&[8; 32]).digest(&[b"a"]));
    }
}
