//! Who keeps copies of whose log: only the owner says who its keepers are, and only a keeper opens
//! its copy, once the owner is no member. All write one record, as it was seen: one of them wins.

use super::{Members, MembersSink, Purpose};
use crate::agreement::{Ask, Cas, Revision};
use crate::records::{CopyState, Incarnation, LogCopy, NamedCopy, Node, Place, Seat};
use crate::slot::Slot;
use weir_core::Micros;

/// The node is no member, may not act, or is reading or writing something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node cannot write now; try again")]
pub struct Busy;

/// Why the copy of a log cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOpened {
    /// This node may not act, or is reading or writing something else.
    #[error("this node cannot write now; try again")]
    Busy,
    /// The node whose log it is, or another in its slot, is a member.
    #[error("the node is a member of the cluster")]
    IsMember,
    /// This membership of this node has no whole copy.
    #[error("this node has no copy of that log")]
    NotKeeper,
}

impl Members {
    /// Who keeps copies of the log of the node at a slot, as far as is known. No event tells that
    /// it has changed. What stands there of a node of another name that had the slot before is
    /// none.
    pub fn log_copy(&self, slot: Slot) -> Option<&LogCopy> {
        self.view.log_copy(slot)
    }

    /// Says who keeps copies of this node's log. It counts once [`Members::log_copy`] of the own
    /// slot says so; if that does not come to be, it has to be asked for again.
    ///
    /// Until a new membership has said something, the record is of the one before, and its keepers
    /// may open that copy when the new one has ended: whatever the new one does is not in it. So it
    /// says first that there is nobody, or somebody who has all of it.
    ///
    /// # Errors
    /// Not now.
    pub fn keep_log_at(
        &mut self,
        keepers: Vec<Seat>,
        now: Micros,
        sink: &mut impl MembersSink,
    ) -> Result<(), Busy> {
        let (slot, owner) = self.writer(now).ok_or(Busy)?;
        let copy = LogCopy { slot, owner, keepers, state: CopyState::Kept };
        let name = self.settings.name.clone();
        let own = (self.view.keys.member(slot), self.view.member_at(slot));
        self.write_copy(&NamedCopy { name, copy }, vec![own], now, sink);
        Ok(())
    }

    /// When what [`Members::log_copy`] says was written. A newer one settles what was asked for
    /// before it, also where it says the same.
    pub fn log_copy_at(&self, slot: Slot) -> Revision {
        self.view.copy_at(slot)
    }

    /// The node that has what a keeper had: that one, or the same with a later membership, if its
    /// disk has it still.
    pub fn holder_of(&self, (slot, incarnation): Seat) -> Option<&Node> {
        let is_it =
            |node: &&Node| node.incarnation == incarnation || node.former.contains(&incarnation);
        self.view.node(slot).filter(is_it)
    }

    /// Whether this node has what a keeper had.
    pub fn holds(&self, keeper: Seat) -> bool {
        let own = self.own_seat();
        own.is_some() && self.holder_of(keeper).map(Node::seat) == own
    }

    /// Whose turn it is to open the copy of the log of the node at a slot, or who has opened it:
    /// the first keeper that is a member. If whoever has opened it is none any more, it is the turn
    /// of the next. Before it is opened, who was there all the time comes before who was started
    /// anew.
    pub fn opener(&self, slot: Slot) -> Option<Seat> {
        let copy = self.log_copy(slot)?;
        let mut keepers = copy.open_keepers().iter();
        let is_there = |&&seat: &&Seat| self.node_of(seat).is_some();
        let first = keepers.clone().find(is_there).filter(|_| copy.state == CopyState::Kept);
        first.copied().or_else(|| keepers.find_map(|&seat| self.holder_of(seat)).map(Node::seat))
    }

    /// The earlier memberships of this node, which is at this slot, that are keepers of logs.
    pub(super) fn former_keepers(&self, own: Slot) -> Vec<Incarnation> {
        let mut former = self.former.clone();
        former.retain(|&incarnation| {
            let mut copies = self.places().filter_map(|place| self.log_copy(place.slot));
            copies.any(|copy| copy.open_keepers().contains(&(own, incarnation)))
        });
        former
    }

    /// The places of nodes that are no members, and whose sessions another is to serve: with its
    /// [`Members::opener`].
    pub fn lost(&self) -> impl Iterator<Item = (&Place, Seat)> {
        self.away().filter_map(|place| Some((place, self.opener(place.slot)?)))
    }

    /// Whether a node and all who have copies of its log are no members: they may all be about to
    /// be.
    pub fn is_any_apart(&self) -> bool {
        let mut copies = self.away().filter_map(|place| self.log_copy(place.slot));
        copies.any(|copy| {
            let keepers = copy.open_keepers();
            !keepers.is_empty() && keepers.iter().all(|&keeper| self.holder_of(keeper).is_none())
        })
    }

    /// Whether a node is no member whose sessions are nobody else's, nor about to be.
    pub fn is_any_absent(&self) -> bool {
        let is_void = |copy: &LogCopy| copy.state == CopyState::Void;
        self.away().any(|Place { slot, .. }| {
            self.opener(*slot).is_none() && !self.log_copy(*slot).is_some_and(is_void)
        })
    }

    fn away(&self) -> impl Iterator<Item = &Place> {
        self.places().filter(|place| self.view.node(place.slot).is_none())
    }

    /// Says that this node, whose turn it is, opens the copy of the log of a node that is no
    /// member any more. It counts once [`Members::log_copy`] says [`CopyState::Opened`]; if that
    /// does not come to be, it has to be asked for again. Where it says so already, nothing is
    /// asked. From then on that node becomes no member, but for a stand-in, while this one is one.
    ///
    /// # Errors
    /// Not this node, not of that node, or not now.
    pub fn open_log_of(
        &mut self,
        slot: Slot,
        now: Micros,
        sink: &mut impl MembersSink,
    ) -> Result<(), NotOpened> {
        self.pass_on(slot, (CopyState::Kept, CopyState::Opened), now, sink)
    }

    /// Says that the sessions of a node whose log this one has opened are other nodes' now, all of
    /// them: what that node has of them is void. As [`Members::open_log_of`].
    ///
    /// # Errors
    /// As those of [`Members::open_log_of`].
    pub fn close_log_of(
        &mut self,
        slot: Slot,
        now: Micros,
        sink: &mut impl MembersSink,
    ) -> Result<(), NotOpened> {
        self.pass_on(slot, (CopyState::Opened, CopyState::Void), now, sink)
    }

    /// Says that a copy that this node has opened cannot be served: another keeper may open its
    /// own, or the node whose log it is may be a member again, with what its own disk has. As
    /// [`Members::open_log_of`].
    ///
    /// # Errors
    /// As those of [`Members::open_log_of`].
    pub fn give_back_log_of(
        &mut self,
        slot: Slot,
        now: Micros,
        sink: &mut impl MembersSink,
    ) -> Result<(), NotOpened> {
        self.pass_on(slot, (CopyState::Opened, CopyState::Kept), now, sink)
    }

    fn pass_on(
        &mut self,
        slot: Slot,
        (from, to): (CopyState, CopyState),
        now: Micros,
        sink: &mut impl MembersSink,
    ) -> Result<(), NotOpened> {
        let mut copy = self.log_copy(slot).cloned().ok_or(NotOpened::NotKeeper)?;
        let own = self.own_seat().ok_or(NotOpened::NotKeeper)?;
        let at = copy.keepers.iter().position(|&keeper| self.holds(keeper));
        let at = at.ok_or(NotOpened::NotKeeper)?;
        // Who has opened it stands before the others, and may not be a member any more.
        let has_opened = copy.state != CopyState::Kept && copy.keepers.first() == Some(&own);
        if has_opened && copy.state == to {
            return Ok(());
        }
        let may = match to {
            CopyState::Opened => !has_opened && self.opener(slot) == Some(own),
            CopyState::Kept | CopyState::Void => has_opened && copy.state == from,
        };
        if !may {
            return Err(NotOpened::NotKeeper);
        }
        if self.view.member_at(slot) != Revision::NONE {
            return Err(NotOpened::IsMember);
        }
        self.writer(now).ok_or(NotOpened::Busy)?;
        let name = self.view.copy_name(slot).ok_or(NotOpened::NotKeeper)?.to_owned();
        let keys = &self.view.keys;
        // A keeper that is lost too must not make void what the owner has.
        let at_own = (keys.member(own.0), self.view.member_at(own.0));
        let compared = vec![(keys.member(slot), Revision::NONE), at_own];
        copy.keepers.remove(at);
        // A copy that could not be served is none.
        if to != CopyState::Kept {
            copy.keepers.insert(0, own);
        }
        copy.state = to;
        self.write_copy(&NamedCopy { name, copy }, compared, now, sink);
        Ok(())
    }

    /// Whether the sessions of the node at a slot are served by another just now.
    pub(super) fn is_served(&self, slot: Slot) -> bool {
        let is_opened = |copy: &LogCopy| copy.state == CopyState::Opened;
        self.log_copy(slot).is_some_and(is_opened) && self.opener(slot).is_some()
    }

    /// Whether nobody is to stand in for the node at a slot any more who is run by this keeper: it
    /// was frozen for so long that another has opened its own copy.
    pub(super) fn is_over(&self, slot: Slot, keeper: Slot) -> bool {
        self.log_copy(slot).is_some_and(|copy| {
            let is_first = copy.keepers.first().is_some_and(|first| first.0 == keeper);
            copy.state != CopyState::Opened || !is_first
        })
    }

    /// This node, while it may write as a member.
    fn writer(&self, now: Micros) -> Option<Seat> {
        let may_act = self.acts_until().is_some_and(|until| now < until);
        self.own_seat().filter(|_| may_act && self.may_write())
    }

    /// Writes the record if it is as it was seen, and so is what is `compared`.
    fn write_copy(
        &mut self,
        named: &NamedCopy,
        mut compared: Vec<(String, Revision)>,
        now: Micros,
        sink: &mut impl MembersSink,
    ) {
        let slot = named.copy.slot;
        let key = self.view.keys.copy(slot);
        compared.push((key.clone(), self.view.copy_at(slot)));
        let cas = Cas { key, value: Some(named.to_bytes()), lease: None, compared };
        self.ask(Purpose::Write, Ask::Cas(cas), now, sink);
        self.settle(now, sink);
    }
}
