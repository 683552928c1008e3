//! What a node writes: that it is a member, and the table.

use super::{Event, Loss, Members, MembersSettings, MembersSink, Notice, Purpose, Release};
use crate::agreement::{Ask, Cas, LeaseId, Revision};
use crate::records::{Node, Place};
use crate::table::{Home, Wanted};
use weir_core::{Micros, Partition, PartitionSet};

/// Of 64 bits by chance, so many are not in a number.
const NUMBER_CHANCE: u32 = 44;

impl Members {
    /// Takes the node's place, or changes the table, if that is due and nothing is in its way.
    pub(super) fn write(&mut self, now: Micros, sink: &mut impl MembersSink) {
        if !self.may_write() {
            return;
        }
        let cas = match self.lease {
            Some(lease) if self.seat.is_none() => self.join(lease.id, sink),
            _ if !self.is_fenced => self.mend(now, sink),
            _ => None,
        };
        if let Some(cas) = cas {
            self.ask(Purpose::Write, Ask::Cas(cas), now, sink);
        }
    }

    /// The next step to this node's place: that it is its own, then that it is taken.
    fn join(&mut self, lease: LeaseId, sink: &mut impl MembersSink) -> Option<Cas> {
        let MembersSettings { name, shards, number_min, .. } = &self.settings;
        if let Some(node) = self.view.nodes().find(|node| node.place.name == *name) {
            self.number = None;
            if self.told.taken_by.replace(node.incarnation) != Some(node.incarnation) {
                let address = node.address.clone();
                sink.tell(Event::Notice(Notice::NameTaken { address }));
            }
            return None;
        }
        let (places, keys) = (self.view.places()?, &self.view.keys);
        let live = self.view.nodes().map(|node| &node.place);
        let Some(place) = places.place_for(name, *shards, live) else {
            if !std::mem::replace(&mut self.told.is_full, true) {
                sink.tell(Event::Notice(Notice::Full));
            }
            return None;
        };
        let own = places.of(name);
        let keeper = self.settings.keeper;
        if keeper.is_some_and(|keeper| self.is_over(place.slot, keeper)) {
            return None;
        }
        let is_served = self.is_served(place.slot) && keeper.is_none();
        // What stands at its own place is no member, or another serves its sessions.
        if own == Some(&place) && (is_served || self.view.member_at(place.slot) != Revision::NONE) {
            if is_served && !std::mem::replace(&mut self.told.is_served, true) {
                sink.tell(Event::Notice(Notice::IsServed));
            }
            return None;
        }
        // Each membership begins anew behind all before it, that of a stand-in too.
        if self.number.is_none() || own.map(|own| own.number) != self.number {
            // A number that no other of this name writes, such as a stand-in.
            let by_chance = self.chance.bits() >> NUMBER_CHANCE;
            self.number = Some(places.next_number(*number_min) + by_chance);
        }
        let place = Place { number: self.number.unwrap_or_default(), ..place };
        let at_places = (keys.places.clone(), self.view.places_at());
        if own != Some(&place) {
            let value = Some(places.with(place).to_bytes());
            let compared = vec![at_places];
            return Some(Cas { key: keys.places.clone(), value, lease: None, compared });
        }
        let at_copy = (keys.copy(place.slot), self.view.copy_at(place.slot));
        let key = keys.member(place.slot);
        let former = self.former_keepers(place.slot);
        let node = Node {
            place,
            incarnation: self.incarnation,
            address: self.settings.address.clone(),
            letters: self.settings.letters,
            letters_min: self.settings.letters_min,
            is_stand_in: keeper.is_some(),
            former,
        };
        let compared = vec![(key.clone(), Revision::NONE), at_places, at_copy];
        Some(Cas { key, value: Some(node.to_bytes()), lease: Some(lease), compared })
    }

    /// The table as it should be, if it is another, as far as this node may change it.
    fn mend(&mut self, now: Micros, sink: &mut impl MembersSink) -> Option<Cas> {
        let seat = self.own_seat()?;
        let wanted = Wanted::of(&self.view.nodes().collect::<Vec<_>>())?;
        // Whoever writes next has seen the revision that this makes, so its epoch is higher.
        let epoch = self.view.revision.next().0;
        let table = match self.view.table() {
            None if self.mended_at().is_some_and(|at| now < at) => return None,
            None => wanted.table(epoch),
            Some(table) => {
                let misplaced = table.misplaced_at(seat, &wanted);
                if self.release == Release::None && misplaced != PartitionSet::default() {
                    self.releases += 1;
                    self.release = Release::Told(self.releases, misplaced);
                    let number = self.releases;
                    sink.tell(Event::Release { number, partitions: misplaced });
                }
                let moved = table.moved(&wanted, epoch, |at, home| self.is_free(at, home, now));
                if moved == *table {
                    return None;
                }
                moved
            }
        };
        let keys = &self.view.keys;
        let member = |slot| (keys.member(slot), self.view.member_at(slot));
        // Only a member writes it, and whoever is lost is so still.
        let mut compared = vec![(keys.table.clone(), self.view.table_at()), member(seat.0)];
        compared.extend(self.lost.iter().map(|loss| member(loss.seat.0)));
        let value = Some(table.to_bytes());
        Some(Cas { key: keys.table.clone(), value, lease: None, compared })
    }

    /// Whether a partition may get another home now.
    fn is_free(&self, at: Partition, home: Home, now: Micros) -> bool {
        let wait = self.settings.times.wait;
        let is_over = |loss: &Loss| home.is_at(loss.seat) && loss.seen_at + wait <= now;
        matches!(self.release, Release::Done(set) if set.contains(at))
            || self.lost.iter().any(is_over)
    }
}
