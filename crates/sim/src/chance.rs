//! Chance from a seed, in the forms that a simulation asks for.

/// A stream of random numbers; the same seed gives the same stream.
#[derive(Clone, Debug)]
pub struct Chance(weir_chance::Chance);

impl Chance {
    /// The stream number `stream` of `seed`. Streams are independent of each other, so a step
    /// of a run draws the same whether an earlier one is left out or not.
    pub fn new(seed: u64, stream: u64) -> Self {
        let seed = seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95);
        let mut chance = weir_chance::Chance::new(seed);
        chance.bits();
        Self(chance)
    }

    /// 0 to `bound` less one; 0 if the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // The bias of the remainder is of no account for bounds this small.
        if bound == 0 { 0 } else { (self.0.bits() % bound as u64) as usize }
    }

    /// `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// One of `items`, which are not empty.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// An index, each as often as its weight; 0 if all weights are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let sum: u32 = weights.iter().sum();
        let mut left = self.below(sum as usize) as u32;
        for (at, &weight) in weights.iter().enumerate() {
            if left < weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_stream_and_another_stream_another() {
        let draw = |seed, stream| {
            let mut chance = Chance::new(seed, stream);
            (0..8).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn an_item_without_weight_is_never_drawn() {
        let mut chance = Chance::new(1, 1);
        let drawn: Vec<usize> = (0..200).map(|_| chance.weighted(&[3, 0, 1])).collect();
        assert!(drawn.contains(&0) && drawn.contains(&2) && !drawn.contains(&1));
    }
}
