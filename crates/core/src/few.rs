//! A list of one, nearly always, and that one without memory of its own.

use std::ops::{Deref, DerefMut};

/// Its order changes only by [`Few::swap_remove`]. For entries of 12 bytes it takes 16.
#[derive(Debug, Default)]
pub(crate) enum Few<T> {
    #[default]
    None,
    One(T),
    #[expect(clippy::box_collection, reason = "a list of many is rare: it pays, not the others")]
    Many(Box<Vec<T>>),
}

impl<T: Copy> Few<T> {
    /// Appends; says where.
    pub(crate) fn push(&mut self, entry: T) -> usize {
        match self {
            Self::None => *self = Self::One(entry),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, entry])),
            Self::Many(all) => all.push(entry),
        }
        self.len() - 1
    }

    /// Takes out the one at `at`, which is there; the last takes its place.
    pub(crate) fn swap_remove(&mut self, at: usize) -> T {
        let removed = self[at];
        match self {
            Self::None | Self::One(_) => *self = Self::None,
            Self::Many(all) => {
                all.swap_remove(at);
                crate::shrink::list(all);
                if let [last] = all[..] {
                    *self = Self::One(last);
                }
            }
        }
        removed
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::None => &[],
            Self::One(entry) => std::slice::from_ref(entry),
            Self::Many(all) => all,
        }
    }
}

impl<T> DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::None => &mut [],
            Self::One(entry) => std::slice::from_mut(entry),
            Self::Many(all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_list_with_a_swapping_removal(steps in prop::collection::vec(0..9_u32, 0..200)) {
            let (mut few, mut model) = (Few::default(), Vec::new());
            for (number, step) in (0..).zip(steps) {
                let at = step as usize / 2;
                if step % 2 == 0 && at < model.len() {
                    prop_assert_eq!(few.swap_remove(at), model.swap_remove(at));
                } else {
                    prop_assert_eq!(few.push((number, step, 0_u32)), model.len());
                    model.push((number, step, 0));
                }
                prop_assert_eq!(&*few, &*model);
            }
        }
    }
}
