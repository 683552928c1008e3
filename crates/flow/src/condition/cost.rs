//! How many steps an expression can take on a payload, told before it runs.
//!
//! Without a tree it is what there is to look at, for each step of a path and each test.
//!
//! The interpreter copies values as it goes and has no bound of its own. With n for how much there
//! is to look at, each part of an expression takes at most n to a power: one for each comprehension
//! around it, and those of the size of what it copies. The sum over all parts is held against a
//! bound: too many rather than too few.

use super::{ConditionError, Message};
use crate::Fault;
use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue, operators};

/// How many steps of an expression with a tree may take on one message; a step is a value looked
/// at or copied.
pub const STEPS_MAX: u64 = 280_000;

/// Steps without a tree that count as much as one with a tree: such a step is a key compared or
/// some bytes gone over. The dearest with a tree took 37 ns, 1.5 ns for each of these.
pub(super) const STEPS_WITHOUT_TREE: u64 = 25;

/// Steps that all expressions together may take on one message, counted as those without a tree:
/// about 10 ms of the dearest, which is once through a list of 20,000 elements.
pub const STEPS_PER_MESSAGE_MAX: u64 = STEPS_MAX * STEPS_WITHOUT_TREE;

/// Steps without a tree of 16 bytes of a text that is searched, and of one that may have escapes:
/// 25 ns and 65 ns.
pub(super) const SEARCH_STEPS: u64 = 16;
pub(super) const ESCAPED_STEPS: u64 = 44;

/// The same of a number: 41 ns, of which the test that compares it is one step already.
pub(super) const NUMBER_STEPS: u64 = 1;

/// Values that there are to look at, at least, and pieces of text: a test takes 20 ns and a search
/// 110 ns on the smallest message.
pub(super) const VALUES_MIN: u64 = 16;
pub(super) const TEXTS_MIN: u64 = 4;

/// Steps with a tree before the first of an expression: 0.8 µs.
pub(super) const CALL_STEPS: u64 = 24;

/// The highest power of n that an expression may take.
const POWER_MAX: usize = 4;

/// So many bytes count as much as a value.
const BYTES_A_VALUE: usize = 16;

/// The steps of an expression: the number of its parts for each power of n.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cost {
    parts: [u64; POWER_MAX + 1],
    /// Elements and texts that stand in the expression itself, counted as values are.
    constants: usize,
    /// Additions, by which texts and lists grow longer than any that came in.
    additions: u64,
    /// Those in what a comprehension goes through, by which it goes on longer.
    additions_in_ranges: u64,
    /// How many ranges the part that is looked at stands in.
    ranges: u64,
}

/// How much of a message there is to look at beside its payload, in values.
pub(super) fn values_beside(message: &Message<'_>) -> u64 {
    let property = |(name, value): &(&str, &str)| name.len() + value.len() + 2 * BYTES_A_VALUE;
    let properties: usize = message.user_properties.iter().map(property).sum();
    ((message.topic.len() + properties) / BYTES_A_VALUE + 1) as u64
}

/// How much there is to look at in a payload of so many values and keys.
pub(super) const fn values_of(payload: &[u8], entries: usize) -> u64 {
    (entries + payload.len() / BYTES_A_VALUE) as u64
}

/// The names in scope of a comprehension with the power of what they hold.
struct Scope<'a> {
    outer: Option<&'a Scope<'a>>,
    name: &'a str,
    power: usize,
}

impl Cost {
    pub(super) fn of(root: &IdedExpr) -> Result<Self, ConditionError> {
        let mut cost = Self::default();
        cost.visit(&root.expr, 0, None).ok_or_else(|| {
            ConditionError::new(0, "comprehensions within each other cost too much")
        })?;
        Ok(cost)
    }

    /// Steps that a message takes at most where there are `n` values to look at.
    ///
    /// # Errors
    /// [`Fault::TooCostly`]: more than [`STEPS_MAX`].
    pub(super) fn allow(&self, n: u64) -> Result<u64, Fault> {
        let n =
            n.saturating_add(self.constants as u64).saturating_mul(self.additions_in_ranges + 1);
        let mut power = 1_u64;
        let mut steps = 0_u64;
        for parts in self.parts {
            steps = steps.saturating_add(parts.saturating_mul(power));
            power = power.saturating_mul(n);
        }
        let steps = steps.saturating_mul(self.additions + 1);
        if steps > STEPS_MAX { Err(Fault::TooCostly) } else { Ok(steps) }
    }

    /// Adds a part within so many comprehensions; returns the power of the size of its value.
    fn visit(&mut self, part: &Expr, within: usize, scope: Option<&Scope<'_>>) -> Option<usize> {
        let size = match part {
            Expr::Unspecified => 0,
            Expr::Literal(literal) => {
                if let LiteralValue::String(text) = literal {
                    self.constants += text.inner().len() / BYTES_A_VALUE;
                }
                0
            }
            Expr::Ident(name) => {
                let mut scopes = std::iter::successors(scope, |scope| scope.outer);
                scopes.find(|scope| scope.name == name).map_or(1, |scope| scope.power)
            }
            Expr::Select(select) => self.visit(&select.operand.expr, within, scope)?,
            Expr::Call(call) => {
                if call.func_name == operators::ADD {
                    self.additions += 1;
                    self.additions_in_ranges += u64::from(self.ranges > 0);
                }
                let parts = call.target.as_deref().into_iter().chain(&call.args);
                self.largest(parts.map(|part| &part.expr), within, scope)?
            }
            Expr::List(list) => {
                self.constants += list.elements.len();
                self.largest(list.elements.iter().map(|part| &part.expr), within, scope)?
            }
            Expr::Map(map) => {
                self.constants += map.entries.len();
                let parts = map.entries.iter().flat_map(|entry| match &entry.expr {
                    EntryExpr::MapEntry(entry) => [&entry.key.expr, &entry.value.expr],
                    EntryExpr::StructField(field) => [&field.value.expr, &field.value.expr],
                });
                self.largest(parts, within, scope)?
            }
            Expr::Struct(_) => return None,
            Expr::Comprehension(comprehension) => {
                self.ranges += 1;
                let range = self.visit(&comprehension.iter_range.expr, within, scope)?;
                self.ranges -= 1;
                let item = Scope {
                    outer: scope,
                    name: &comprehension.iter_var,
                    // Together the items are what they are taken from.
                    power: range.saturating_sub(1),
                };
                let gathered =
                    Scope { outer: Some(&item), name: &comprehension.accu_var, power: 0 };
                let within = within + 1;
                self.visit(&comprehension.loop_cond.expr, within, Some(&gathered))?;
                let step = self.visit(&comprehension.loop_step.expr, within, Some(&gathered))?;
                self.visit(&comprehension.result.expr, within, Some(&gathered))?;
                if matches!(comprehension.accu_init.expr, Expr::List(_)) {
                    // The list gathered so far is copied for each item.
                    self.add(within + step + 1)?;
                    step + 1
                } else {
                    step
                }
            }
        };
        self.add(within + size)?;
        Some(size)
    }

    fn largest<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a Expr>,
        within: usize,
        scope: Option<&Scope<'_>>,
    ) -> Option<usize> {
        let mut size = 0;
        for part in parts {
            size = size.max(self.visit(part, within, scope)?);
        }
        Some(size)
    }

    fn add(&mut self, power: usize) -> Option<()> {
        *self.parts.get_mut(power)? += 1;
        Some(())
    }
}
