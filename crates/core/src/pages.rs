//! Slots by number in pages that never move: growing copies nothing, an empty page is given back.

use std::ops::{Index, IndexMut};

/// Slots of a page.
const PAGE: usize = 256;
const WORD: usize = u64::BITS as usize;

/// A table of slots. New entries take the lowest page with room, so that the upper ones empty.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    /// A page is there while an entry of it is.
    pages: Vec<Option<Box<[Option<T>; PAGE]>>>,
    /// A bit a slot of each page: whether it is taken.
    taken: Vec<Taken>,
    /// A bit a page: whether it has room.
    with_room: Vec<u64>,
    len: usize,
}

type Taken = [u64; PAGE / WORD];

const EMPTY: Taken = [0; PAGE / WORD];
const FULL: Taken = [u64::MAX; PAGE / WORD];

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), taken: Vec::new(), with_room: Vec::new(), len: 0 }
    }
}

impl<T> Pages<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// No key is as large.
    pub(crate) fn end(&self) -> usize {
        self.pages.len() * PAGE
    }

    #[inline]
    pub(crate) fn get(&self, key: usize) -> Option<&T> {
        self.pages.get(key / PAGE)?.as_ref()?[key % PAGE].as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: usize) -> Option<&mut T> {
        self.pages.get_mut(key / PAGE)?.as_mut()?[key % PAGE].as_mut()
    }

    /// The key behind `key`, or behind its page if nothing is in that: for a walk over all entries.
    pub(crate) fn skip_empty_page(&self, key: usize) -> usize {
        match self.pages.get(key / PAGE) {
            Some(Some(_)) => key + 1,
            _ => (key / PAGE + 1) * PAGE,
        }
    }

    /// The key that [`Pages::insert`] gives next.
    pub(crate) fn vacant_key(&self) -> usize {
        let Some(word) = self.with_room.iter().position(|&word| word != 0) else {
            return self.end();
        };
        let page = word * WORD + self.with_room[word].trailing_zeros() as usize;
        page * PAGE + vacant(&self.taken[page])
    }

    /// Puts an entry into a free slot; says which.
    pub(crate) fn insert(&mut self, entry: T) -> usize {
        let key = self.vacant_key();
        self.insert_at(key, entry);
        key
    }

    /// Puts an entry into the slot of this key, which is free.
    pub(crate) fn insert_at(&mut self, key: usize, entry: T) {
        let (at, slot) = (key / PAGE, key % PAGE);
        while self.pages.len() <= at {
            self.set_room(self.pages.len(), true);
            self.pages.push(None);
            self.taken.push(EMPTY);
        }
        self.pages[at].get_or_insert_with(new_page)[slot] = Some(entry);
        self.taken[at][slot / WORD] |= 1 << (slot % WORD);
        self.len += 1;
        if self.taken[at] == FULL {
            self.set_room(at, false);
        }
    }

    /// Takes the entry of this key, if there is one.
    pub(crate) fn take(&mut self, key: usize) -> Option<T> {
        let (at, slot) = (key / PAGE, key % PAGE);
        let entry = self.pages.get_mut(at)?.as_mut()?[slot].take()?;
        self.taken[at][slot / WORD] &= !(1 << (slot % WORD));
        self.len -= 1;
        self.set_room(at, true);
        if self.taken[at] == EMPTY {
            self.pages[at] = None;
            self.drop_last_pages();
        }
        Some(entry)
    }

    fn drop_last_pages(&mut self) {
        while self.pages.pop_if(|page| page.is_none()).is_some() {
            self.taken.pop();
            self.set_room(self.pages.len(), false);
        }
        self.with_room.truncate(self.pages.len().div_ceil(WORD));
        crate::shrink::list(&mut self.pages);
        crate::shrink::list(&mut self.taken);
    }

    fn set_room(&mut self, page: usize, has_room: bool) {
        let (word, bit) = (page / WORD, 1 << (page % WORD));
        if self.with_room.len() <= word {
            self.with_room.resize(word + 1, 0);
        }
        let word = &mut self.with_room[word];
        *word = if has_room { *word | bit } else { *word & !bit };
    }
}

/// The first free slot of a page that has one.
fn vacant(taken: &Taken) -> usize {
    let word = taken.iter().position(|&word| word != u64::MAX);
    word.map_or(PAGE, |at| at * WORD + taken[at].trailing_ones() as usize)
}

fn new_page<T>() -> Box<[Option<T>; PAGE]> {
    let slots: Box<[Option<T>]> = (0..PAGE).map(|_| None).collect();
    slots.try_into().unwrap_or_else(|_| unreachable!("so many were made"))
}

impl<T> Index<usize> for Pages<T> {
    type Output = T;

    #[inline]
    fn index(&self, key: usize) -> &T {
        self.get(key).expect("a key names an entry until it is taken")
    }
}

impl<T> IndexMut<usize> for Pages<T> {
    #[inline]
    fn index_mut(&mut self, key: usize) -> &mut T {
        self.get_mut(key).expect("a key names an entry until it is taken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_that_gives_the_lowest_page_with_room(
            steps in prop::collection::vec((0..3_u8, 0..3_000_usize), 0..2_000),
        ) {
            let (mut pages, mut model) = (Pages::default(), BTreeMap::new());
            for (number, (step, key)) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        let given = pages.insert(number);
                        let before = given / PAGE * PAGE;
                        let full = (0..before).all(|key| model.contains_key(&key));
                        prop_assert!(full, "room below {given}");
                        prop_assert_eq!(model.insert(given, number), None);
                    }
                    1 if !model.contains_key(&key) => {
                        pages.insert_at(key, number);
                        model.insert(key, number);
                    }
                    _ => prop_assert_eq!(pages.take(key), model.remove(&key)),
                }
                prop_assert_eq!(pages.len(), model.len());
                prop_assert_eq!(pages.get(key), model.get(&key));
                let last = model.last_key_value().map(|(&key, _)| key);
                prop_assert_eq!(pages.end(), last.map_or(0, |key| (key / PAGE + 1) * PAGE));
            }
            for key in model.keys() {
                prop_assert_eq!(pages.take(*key), Some(model[key]));
            }
            prop_assert!(pages.pages.is_empty() && pages.with_room.is_empty());
        }
    }
}
