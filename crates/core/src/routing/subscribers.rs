//! The subscribers of one filter: one, nearly always, and that one without memory of its own.

use crate::routing::Subscriber;
use std::ops::{Deref, DerefMut};

/// A list of 16 bytes. The order changes only by [`Subscribers::swap_remove`].
#[derive(Debug, Default)]
pub(crate) enum Subscribers {
    #[default]
    None,
    One(Subscriber),
    #[expect(clippy::box_collection, reason = "a filter of many is rare: it pays, not the others")]
    Many(Box<Vec<Subscriber>>),
}

impl Subscribers {
    /// Appends; says where.
    pub(crate) fn push(&mut self, subscriber: Subscriber) -> u32 {
        match self {
            Self::None => *self = Self::One(subscriber),
            Self::One(first) => *self = Self::Many(Box::new(vec![*first, subscriber])),
            Self::Many(all) => all.push(subscriber),
        }
        (self.len() - 1) as u32
    }

    /// Takes out the one at `at`; the last takes its place.
    pub(crate) fn swap_remove(&mut self, at: usize) {
        let Self::Many(all) = self else {
            assert!(at < self.len(), "it is there");
            *self = Self::None;
            return;
        };
        all.swap_remove(at);
        match all[..] {
            [last] => *self = Self::One(last),
            _ if all.len() < all.capacity() / 4 => all.shrink_to(all.len() * 2),
            _ => {}
        }
    }
}

impl Deref for Subscribers {
    type Target = [Subscriber];

    #[inline]
    fn deref(&self) -> &[Subscriber] {
        match self {
            Self::None => &[],
            Self::One(subscriber) => std::slice::from_ref(subscriber),
            Self::Many(all) => all,
        }
    }
}

impl DerefMut for Subscribers {
    fn deref_mut(&mut self) -> &mut [Subscriber] {
        match self {
            Self::None => &mut [],
            Self::One(subscriber) => std::slice::from_mut(subscriber),
            Self::Many(all) => all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SessionKey;
    use proptest::prelude::*;
    use weir_wire::packet::SubscriptionOptions;

    proptest! {
        #[test]
        fn it_is_a_list_with_a_swapping_removal(steps in prop::collection::vec(0..9_u32, 0..200)) {
            prop_assert_eq!(size_of::<Subscribers>(), 16);
            let (mut list, mut model) = (Subscribers::default(), Vec::new());
            for (number, step) in (0..).zip(steps) {
                let at = step as usize / 2;
                if step % 2 == 0 && at < model.len() {
                    list.swap_remove(at);
                    model.swap_remove(at);
                } else {
                    let options = SubscriptionOptions::default();
                    let subscriber = Subscriber::new(SessionKey(number), options, None);
                    prop_assert_eq!(list.push(subscriber) as usize, model.len());
                    model.push(subscriber);
                }
                prop_assert_eq!(&*list, &*model);
            }
        }
    }
}
