//! A copy of what the agreement has of a cluster, always as of one revision.

use crate::agreement::{Change, Record, Revision};
use crate::records::{LogCopy, NamedCopy, Node, Places};
use crate::slot::{SLOTS, Slot};
use crate::table::Table;

/// The keys of a cluster.
#[derive(Debug)]
pub(crate) struct Keys {
    /// What all of them begin with.
    pub(crate) prefix: String,
    pub(crate) places: String,
    pub(crate) table: String,
}

impl Keys {
    pub(crate) fn new(cluster: &str) -> Self {
        let prefix = format!("weir/{cluster}/");
        Self { places: format!("{prefix}places"), table: format!("{prefix}table"), prefix }
    }

    pub(crate) fn member(&self, slot: Slot) -> String {
        format!("{}members/{}", self.prefix, slot.0)
    }

    /// Who keeps a copy of the log of the node at a slot.
    pub(crate) fn copy(&self, slot: Slot) -> String {
        format!("{}copies/{}", self.prefix, slot.0)
    }

    fn slot(&self, key: &str) -> Option<Slot> {
        Slot::all().find(|&slot| self.member(slot) == key)
    }

    fn copy_slot(&self, key: &str) -> Option<Slot> {
        Slot::all().find(|&slot| self.copy(slot) == key)
    }
}

/// Records that mean something. One that cannot be read is as if it were not there, but its key is
/// taken.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) keys: Keys,
    pub(crate) revision: Revision,
    members: [Kept<Node>; SLOTS as usize],
    copies: [Kept<NamedCopy>; SLOTS as usize],
    places: Kept<Places>,
    table: Kept<Table>,
    garbled: Vec<String>,
}

/// A record: when it was written, and what it says.
#[derive(Clone, Debug)]
struct Kept<T> {
    at: Revision,
    value: Option<T>,
}

impl<T> Kept<T> {
    const NONE: Self = Self { at: Revision::NONE, value: None };
}

impl View {
    pub(crate) fn new(cluster: &str) -> Self {
        Self {
            keys: Keys::new(cluster),
            revision: Revision::NONE,
            members: [const { Kept::NONE }; SLOTS as usize],
            copies: [const { Kept::NONE }; SLOTS as usize],
            places: Kept { at: Revision::NONE, value: Some(Places::default()) },
            table: Kept::NONE,
            garbled: Vec::new(),
        }
    }

    /// The members, by slot.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.members.iter().filter_map(|kept| kept.value.as_ref())
    }

    pub(crate) fn node(&self, slot: Slot) -> Option<&Node> {
        self.members[slot.index()].value.as_ref()
    }

    /// When the record of a slot was written, whatever it is.
    pub(crate) fn member_at(&self, slot: Slot) -> Revision {
        self.members[slot.index()].at
    }

    /// Who keeps a copy of the log of the node whose slot this is. What stands there of a node of
    /// another name, which had the slot before, is none.
    pub(crate) fn log_copy(&self, slot: Slot) -> Option<&LogCopy> {
        let NamedCopy { name, copy } = self.copies.get(slot.index())?.value.as_ref()?;
        let mut places = self.places().into_iter().flat_map(Places::iter);
        let place = self.node(slot).map(|node| &node.place);
        let place = place.or_else(|| places.find(|place| place.slot == slot));
        place.is_none_or(|place| place.name == *name).then_some(copy)
    }

    /// The name of the node that it is of, whoever has the slot now.
    pub(crate) fn copy_name(&self, slot: Slot) -> Option<&str> {
        self.copies.get(slot.index())?.value.as_ref().map(|named| named.name.as_str())
    }

    /// When the record of a copy was written, whatever it is.
    pub(crate) fn copy_at(&self, slot: Slot) -> Revision {
        self.copies[slot.index()].at
    }

    /// None if they cannot be read.
    pub(crate) fn places(&self) -> Option<&Places> {
        self.places.value.as_ref()
    }

    pub(crate) fn places_at(&self) -> Revision {
        self.places.at
    }

    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.value.as_ref()
    }

    /// When the record of the table was written, whatever it is.
    pub(crate) fn table_at(&self) -> Revision {
        self.table.at
    }

    /// The keys of records that could not be read, each once.
    pub(crate) fn take_garbled(&mut self) -> Vec<String> {
        std::mem::take(&mut self.garbled)
    }

    /// Takes changes in that a watch tells of; those that are known already are left out.
    pub(crate) fn change(&mut self, changes: &[Change]) {
        let known = self.revision;
        for change in changes.iter().filter(|change| change.revision() > known) {
            self.revision = self.revision.max(change.revision());
            match change {
                Change::Put(record) => self.put(record),
                Change::Gone { key, .. } => self.remove(key),
            }
        }
    }

    /// Takes in all records as of a revision, and says whether there was news among them.
    pub(crate) fn replace(&mut self, records: &[Record], revision: Revision) -> bool {
        if revision < self.revision {
            return false;
        }
        self.revision = revision;
        let mut has_news = false;
        for slot in Slot::all() {
            let key = self.keys.member(slot);
            has_news |= self.update(records, &key, self.member_at(slot));
            let key = self.keys.copy(slot);
            has_news |= self.update(records, &key, self.copy_at(slot));
        }
        let (places, table) = (self.keys.places.clone(), self.keys.table.clone());
        has_news |= self.update(records, &places, self.places.at);
        has_news | self.update(records, &table, self.table.at)
    }

    fn update(&mut self, records: &[Record], key: &str, known_at: Revision) -> bool {
        match records.iter().find(|record| record.key == key) {
            Some(record) if record.revision != known_at => self.put(record),
            None if known_at != Revision::NONE => self.remove(key),
            _ => return false,
        }
        true
    }

    fn put(&mut self, record: &Record) {
        let Record { key, value, revision: at, .. } = record;
        let is_read = if let Some(slot) = self.keys.slot(key) {
            let value = Node::read(slot, value);
            self.members[slot.index()] = Kept { at: *at, value };
            self.node(slot).is_some()
        } else if let Some(slot) = self.keys.copy_slot(key) {
            let value = NamedCopy::read(slot, value);
            self.copies[slot.index()] = Kept { at: *at, value };
            self.copies[slot.index()].value.is_some()
        } else if *key == self.keys.places {
            self.places = Kept { at: *at, value: Places::read(value) };
            self.places().is_some()
        } else if *key == self.keys.table {
            // One whose epochs go back would make letters count that must not.
            let follows = |new: &Table| self.table().is_none_or(|old| new.follows(old));
            self.table = Kept { at: *at, value: Table::read(value).filter(follows) };
            self.table().is_some()
        } else {
            // Something else of the cluster's.
            true
        };
        if !is_read {
            self.garbled.push(key.clone());
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(slot) = self.keys.slot(key) {
            self.members[slot.index()] = Kept::NONE;
        } else if let Some(slot) = self.keys.copy_slot(key) {
            self.copies[slot.index()] = Kept::NONE;
        } else if key == self.keys.places {
            self.places = Kept { at: Revision::NONE, value: Some(Places::default()) };
        } else if key == self.keys.table {
            self.table = Kept::NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8], at: u64) -> Record {
        Record { key: key.into(), value: value.into(), revision: Revision(at), lease: None }
    }

    #[test]
    fn garbled_records_are_named_once_and_take_their_keys() {
        let mut view = View::new("c");
        let garbled = ["weir/c/copies/2", "weir/c/members/3", "weir/c/places", "weir/c/table"];
        let records = garbled.map(|key| record(key, b"\xFF", 5));
        assert!(view.replace(&records, Revision(6)));
        let mut named = view.take_garbled();
        named.sort_unstable();
        assert_eq!(named, garbled);
        assert!(!view.replace(&records, Revision(7)));
        assert!(view.take_garbled().is_empty());
        assert_eq!((view.nodes().count(), view.member_at(Slot(3))), (0, Revision(5)));
        assert_eq!((view.log_copy(Slot(2)), view.copy_at(Slot(2))), (None, Revision(5)));
        assert!(view.places().is_none() && view.table().is_none());
    }

    #[test]
    fn others_below_the_prefix_mean_nothing() {
        let mut view = View::new("c");
        let keys = ["weir/c/members/16", "weir/c/members/", "weir/c/members/03", "weir/c/bans"];
        assert!(!view.replace(&keys.map(|key| record(key, b"{}", 5)), Revision(6)));
        assert!(view.take_garbled().is_empty());
    }

    #[test]
    fn what_is_older_than_the_view_does_not_change_it() {
        let mut view = View::new("c");
        let places = |at| record("weir/c/places", br#"{"places":[]}"#, at);
        view.replace(&[places(5)], Revision(9));
        view.change(&[Change::Put(places(9)), Change::Put(places(8))]);
        assert_eq!(view.places_at(), Revision(5));
        assert!(!view.replace(&[], Revision(8)));
        assert_eq!(view.places_at(), Revision(5));
        view.change(&[Change::Put(places(10)), Change::Put(places(10))]);
        assert_eq!((view.places_at(), view.revision), (Revision(10), Revision(10)));
    }

    #[test]
    fn a_table_that_is_gone_or_goes_back_is_none() {
        let home = |epoch: u64| format!("[0,{epoch}]");
        let table = |epoch: u64| {
            let homes = vec![home(epoch); 256].join(",");
            format!(r#"{{"nodes":[[0,1]],"homes":[{homes}]}}"#)
        };
        let put = |epoch, at| Change::Put(record("weir/c/table", table(epoch).as_bytes(), at));
        let mut view = View::new("c");
        view.change(&[put(2, 5)]);
        assert!(view.table().is_some());
        view.change(&[put(1, 6)]);
        assert_eq!((view.table(), view.table_at()), (None, Revision(6)));
        assert_eq!(view.take_garbled(), ["weir/c/table"]);
        view.change(&[put(3, 7)]);
        assert!(view.table().is_some());
        view.change(&[Change::Gone { key: "weir/c/table".into(), revision: Revision(8) }]);
        assert_eq!((view.table(), view.table_at()), (None, Revision::NONE));
        assert!(view.take_garbled().is_empty());
    }
}
