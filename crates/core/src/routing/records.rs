//! A session's own notes of its subscriptions, and the shapes that its filters have.

use super::lists::{FilterId, SubscriptionRecord};
use crate::few::Few;
use crate::shrink;
use hashbrown::HashTable;
use std::ops::Deref;
use weir_chance::mix;

/// Records that are looked through one by one; more have an index.
const SCANNED_MAX: usize = 16;

/// A list whose order changes only when a record is taken out.
#[derive(Debug)]
pub(crate) enum Records {
    Few(Few<SubscriptionRecord>),
    Many(Box<Many>),
}

/// Records that are found without a walk.
#[derive(Debug, Default)]
pub(crate) struct Many {
    list: Vec<SubscriptionRecord>,
    /// Places in the list, by filter.
    places: HashTable<u32>,
    /// Each shape that is not nothing, and how many of the records have it.
    shapes: Vec<(ShapeKey, u32)>,
    /// Of all their names.
    bytes: usize,
}

/// What a record costs: its filter's shape, and the bytes of its name and condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) shape: ShapeKey,
    pub(super) bytes: usize,
}

/// Names what makes a search for a topic's filters longer: where a filter's wildcards are and how
/// many levels it has, and its group. Nothing for an exact filter that is not shared.
pub(crate) type ShapeKey = Option<u64>;

/// A session without any.
pub(crate) static NONE: Records = Records::Few(Few::None);

impl Default for Records {
    fn default() -> Self {
        Self::Few(Few::None)
    }
}

impl Records {
    /// The place of the filter's record that `is_same` tells from its others.
    pub(crate) fn find(
        &self,
        filter: FilterId,
        is_same: impl Fn(&SubscriptionRecord) -> bool,
    ) -> Option<usize> {
        let is_it = |record: &SubscriptionRecord| record.filter() == filter && is_same(record);
        match self {
            Self::Few(few) => few.iter().position(is_it),
            Self::Many(many) => {
                let is_it = |&place: &u32| is_it(&many.list[place as usize]);
                many.places.find(hash(filter), is_it).map(|&place| place as usize)
            }
        }
    }

    /// Appends a record; `weigh` says what one costs.
    pub(super) fn push(
        &mut self,
        record: SubscriptionRecord,
        weigh: impl Fn(&SubscriptionRecord) -> Weight,
    ) {
        match self {
            Self::Few(few) if few.len() < SCANNED_MAX => {
                few.push(record);
            }
            Self::Few(few) => {
                let mut many = Box::<Many>::default();
                few.iter().chain([&record]).for_each(|&record| many.push(record, weigh(&record)));
                *self = Self::Many(many);
            }
            Self::Many(many) => many.push(record, weigh(&record)),
        }
    }

    /// Takes out the record at `at`, which is there; the last takes its place.
    pub(super) fn swap_remove(
        &mut self,
        at: usize,
        weigh: impl Fn(&SubscriptionRecord) -> Weight,
    ) -> SubscriptionRecord {
        match self {
            Self::Few(few) => few.swap_remove(at),
            Self::Many(many) => {
                let removed = many.swap_remove(at, weigh(&many.list[at]));
                if many.list.len() <= SCANNED_MAX / 2 {
                    let mut few = Few::None;
                    for &record in &many.list {
                        few.push(record);
                    }
                    *self = Self::Few(few);
                }
                removed
            }
        }
    }

    /// Another subscription was taken out of the list of `record`, and the session's moved into
    /// its position.
    pub(crate) fn moved(&mut self, record: SubscriptionRecord) {
        let Some(at) = self.find(record.filter(), |other| other.list() == record.list()) else {
            return;
        };
        match self {
            Self::Few(few) => few[at] = record,
            Self::Many(many) => many.list[at] = record,
        }
    }

    /// Bytes of all names and conditions; `bytes` says those of one.
    pub(super) fn bytes(&self, bytes: impl Fn(&SubscriptionRecord) -> usize) -> usize {
        match self {
            Self::Few(few) => few.iter().map(bytes).sum(),
            Self::Many(many) => many.bytes,
        }
    }

    /// Whether the session may have one more filter of this shape, with so many shapes at most;
    /// `shape` says that of one.
    pub(super) fn has_room_for(
        &self,
        key: u64,
        shapes_max: usize,
        shape: impl Fn(&SubscriptionRecord) -> ShapeKey,
    ) -> bool {
        match self {
            Self::Few(few) if few.len() < shapes_max => true,
            Self::Few(few) => {
                let mut shapes: Vec<u64> = few.iter().filter_map(shape).collect();
                shapes.sort_unstable();
                shapes.dedup();
                shapes.len() < shapes_max || shapes.contains(&key)
            }
            Self::Many(many) => {
                many.shapes.len() < shapes_max
                    || many.shapes.iter().any(|&(shape, _)| shape == Some(key))
            }
        }
    }
}

impl Many {
    fn push(&mut self, record: SubscriptionRecord, Weight { shape, bytes }: Weight) {
        self.bytes += bytes;
        let place = self.list.len() as u32;
        self.list.push(record);
        let Self { list, places, .. } = self;
        let hash = |&place: &u32| hash(list[place as usize].filter());
        places.insert_unique(hash(&place), place, hash);
        if shape.is_none() {
            return;
        }
        match self.shapes.iter_mut().find(|(other, _)| *other == shape) {
            Some((_, count)) => *count += 1,
            None => self.shapes.push((shape, 1)),
        }
    }

    fn swap_remove(&mut self, at: usize, Weight { shape, bytes }: Weight) -> SubscriptionRecord {
        self.bytes -= bytes;
        let last = self.list.len() as u32 - 1;
        let Self { list, places, .. } = self;
        let hash_at = |place: u32| hash(list[place as usize].filter());
        if let Ok(entry) = places.find_entry(hash_at(at as u32), |&place| place == at as u32) {
            entry.remove();
        }
        if last != at as u32
            && let Some(place) = places.find_mut(hash_at(last), |&place| place == last)
        {
            *place = at as u32;
        }
        let removed = list.swap_remove(at);
        shrink::list(list);
        shrink::table(places, |&place| hash(list[place as usize].filter()));
        if let Some(place) = self.shapes.iter().position(|(other, _)| *other == shape) {
            self.shapes[place].1 -= 1;
            if self.shapes[place].1 == 0 {
                self.shapes.swap_remove(place);
            }
        }
        removed
    }
}

impl Deref for Records {
    type Target = [SubscriptionRecord];

    fn deref(&self) -> &[SubscriptionRecord] {
        match self {
            Self::Few(few) => few,
            Self::Many(many) => &many.list,
        }
    }
}

fn hash(filter: FilterId) -> u64 {
    mix(filter.at() as u64 + 1)
}
