//! The conditions of content-filtered subscriptions: each distinct one is compiled once, counted by
//! who needs it, and checked at most once a message. Where all of a message cost too much, each
//! client has its part (`charges`).

mod charges;

use crate::content::{ConditionEvaluator, ConditionQuery, Content, Warning};
use crate::keys::Origin;
use crate::shares::{Part, Shares};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;
use std::hash::BuildHasher;
use weir_wire::ReasonCode;

pub(crate) use charges::{Charges, Holder};

/// A condition in use; the port's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConditionId(u32);

/// Why a condition is not to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoCondition {
    pub(crate) reason: ReasonCode,
    pub(crate) detail: Box<str>,
}

/// All conditions of a shard.
#[derive(Debug)]
pub(crate) struct Conditions {
    port: Option<Box<dyn ConditionEvaluator>>,
    all: Slab<Condition>,
    by_text: HashTable<ConditionId>,
    hasher: FixedState,
    shares: Shares,
    /// Which message is looked at: a verdict holds for one.
    message: u64,
    /// What the port is to be asked of it.
    asked: Vec<ConditionQuery>,
    /// Those that it left out, until somebody is told.
    left_out: Vec<ConditionId>,
    charges: Charges,
    /// Steps of what was asked, until they are counted.
    steps: u64,
    checks: u64,
    /// How often one was left out.
    left_out_count: u64,
}

#[derive(Debug)]
struct Condition {
    text: Box<str>,
    /// How many lists of subscribers it stands before.
    needed: u32,
    /// Whoever asked for it first.
    address: Option<Origin>,
    /// The message that it was last asked of, and the verdict.
    message: u64,
    holds: bool,
    /// What whoever asks for it is told.
    warning: Option<Warning>,
    /// Messages of which it was not asked, since it cost too much.
    left_out: u64,
}

impl Conditions {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            port: None,
            all: Slab::new(),
            by_text: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            shares: Shares::default(),
            message: 1,
            asked: Vec::new(),
            left_out: Vec::new(),
            charges: Charges::default(),
            steps: 0,
            checks: 0,
            left_out_count: 0,
        }
    }

    pub(crate) fn set_port(&mut self, port: Box<dyn ConditionEvaluator>) {
        debug_assert!(self.all.is_empty(), "the port is there before the first subscription");
        self.port = Some(port);
    }

    /// Distinct ones.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// How often one was checked.
    pub(crate) fn checks(&self) -> u64 {
        self.checks
    }

    /// How often one was left out, since all of a message cost too much.
    pub(crate) fn left_out_count(&self) -> u64 {
        self.left_out_count
    }

    /// The condition of this text, needed once more. A new one counts for `address`, if `has_room`
    /// says of what that has, and of how many there are, that there may be more.
    pub(crate) fn acquire(
        &mut self,
        text: &str,
        address: Option<Origin>,
        has_room: impl FnOnce(Part, usize) -> bool,
    ) -> Result<ConditionId, NoCondition> {
        let Self { port, all, by_text, hasher, shares, .. } = self;
        let refused = |reason, detail: &str| NoCondition { reason, detail: detail.into() };
        let Some(port) = port else {
            let reason = ReasonCode::ImplementationSpecificError;
            return Err(refused(reason, "conditions on content are not offered"));
        };
        let hash = hasher.hash_one(text);
        if let Some(&id) = by_text.find(hash, |id| *all[id.0 as usize].text == *text) {
            all[id.0 as usize].needed += 1;
            return Ok(id);
        }
        let part = address.map_or(Part::default(), |address| shares.of(address));
        if !has_room(part, all.len()) {
            return Err(refused(ReasonCode::QuotaExceeded, "too many distinct conditions"));
        }
        let id = ConditionId(all.vacant_key() as u32);
        let reason = ReasonCode::TopicFilterInvalid;
        let compiled = port.compile(id.0, text);
        let warning = compiled.map_err(|unfit| NoCondition { reason, detail: unfit.reason })?;
        let (text, needed) = (text.into(), 1);
        let (message, holds, left_out) = (0, false, 0);
        all.insert(Condition { text, needed, address, message, holds, warning, left_out });
        address.into_iter().for_each(|address| shares.add(address, 0));
        by_text.insert_unique(hash, id, |id| hasher.hash_one(&*all[id.0 as usize].text));
        Ok(id)
    }

    pub(crate) fn text(&self, id: ConditionId) -> &str {
        &self.all[id.0 as usize].text
    }

    /// What whoever asks for it is told.
    pub(crate) fn warning(&self, id: ConditionId) -> Option<Warning> {
        self.all[id.0 as usize].warning
    }

    /// Messages of which it was not asked.
    pub(crate) fn left_out_of(&self, id: ConditionId) -> u64 {
        self.all[id.0 as usize].left_out
    }

    /// One needs it less; nobody, and it is forgotten.
    pub(crate) fn release(&mut self, id: ConditionId) {
        let Self { port, all, by_text, hasher, shares, .. } = self;
        let condition = &mut all[id.0 as usize];
        condition.needed -= 1;
        if condition.needed > 0 {
            return;
        }
        let hash = hasher.hash_one(&*condition.text);
        if let Ok(entry) = by_text.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        if let Some(address) = all.remove(id.0 as usize).address {
            shares.remove(address, 0);
        }
        if let Some(port) = port {
            port.release(id.0);
        }
    }

    pub(crate) fn port(&self) -> Option<&dyn ConditionEvaluator> {
        self.port.as_deref()
    }

    /// What comes is about another message.
    #[inline]
    pub(crate) fn next_message(&mut self) {
        self.message += 1;
    }

    /// The verdict of this condition will be needed: it is asked for if it is not known.
    pub(crate) fn want(&mut self, id: ConditionId) {
        let condition = &mut self.all[id.0 as usize];
        if condition.message != self.message {
            condition.message = self.message;
            self.asked.push(ConditionQuery::new(id.0));
        }
    }

    /// Asks the port what is wanted and not known. `charge` adds everybody who has one of those,
    /// if it has to be known.
    pub(crate) fn ask(&mut self, content: &Content<'_>, charge: impl Fn(&mut Charges)) {
        let Self { port: Some(port), all, asked, charges, left_out, steps, checks, .. } = self
        else {
            return;
        };
        if asked.is_empty() {
            return;
        }
        *steps += port.check(content, asked, &mut |costly| {
            charges.clear();
            charge(charges);
            charges.order(costly);
        });
        *checks += asked.len() as u64;
        for ConditionQuery { slot, holds, is_left_out } in asked.drain(..) {
            all[slot as usize].holds = holds;
            if is_left_out {
                all[slot as usize].left_out += 1;
                left_out.push(ConditionId(slot));
            }
        }
    }

    /// What was asked took so many steps.
    pub(crate) fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.steps)
    }

    /// The next condition that was left out, and who is charged with it.
    pub(crate) fn next_left_out(&mut self) -> Option<(ConditionId, Option<Holder>)> {
        let id = self.left_out.pop()?;
        self.left_out_count += 1;
        Some((id, self.charges.holder(id)))
    }

    /// Whether the message fulfils a condition that was asked for.
    pub(crate) fn holds(&self, id: ConditionId) -> bool {
        let condition = &self.all[id.0 as usize];
        debug_assert_eq!(condition.message, self.message, "a verdict is of one message");
        condition.holds
    }

    /// As [`Conditions::holds`], of a condition that may not have been asked for.
    pub(crate) fn check(&mut self, id: ConditionId, content: &Content<'_>) -> bool {
        self.want(id);
        // One alone has nobody to make way for.
        self.ask(content, |_| {});
        self.holds(id)
    }
}
