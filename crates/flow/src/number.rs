//! Numbers as conditions see them: whole ones of 64 bits with or without a sign, and doubles.
//!
//! JSON tells them apart by their spelling alone, and writers print 40.0 as 40. So they mix: the
//! value is compared, without rounding, and what is calculated with a double is a double.

use crate::Fault;
use std::cmp::Ordering;

/// A number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// Whole, and no larger than that.
    Int(i64),
    /// Whole, and larger than any [`Number::Int`].
    Uint(u64),
    /// Every other one; infinite where it is larger than a double.
    Double(f64),
}

/// What is calculated of two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    /// Of whole numbers the whole quotient, towards 0.
    Divide,
    /// Of whole numbers, with the sign of the left one; doubles have none.
    Remainder,
}

impl From<u64> for Number {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Uint(value), Self::Int)
    }
}

impl Number {
    /// How two numbers compare as numbers of mathematics; None where one is not a number (NaN).
    #[inline]
    pub(crate) fn order(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(value), Self::Int(other)) => Some(value.cmp(&other)),
            (Self::Double(value), Self::Double(other)) => value.partial_cmp(&other),
            (Self::Uint(value), Self::Uint(other)) => Some(value.cmp(&other)),
            (Self::Int(_), Self::Uint(_)) => Some(Ordering::Less),
            (Self::Uint(_), Self::Int(_)) => Some(Ordering::Greater),
            (whole, Self::Double(other)) => whole.against(other),
            (Self::Double(value), whole) => whole.against(value).map(Ordering::reverse),
        }
    }

    /// How a whole number compares with a double.
    fn against(self, other: f64) -> Option<Ordering> {
        // Rounding keeps the order or makes the two equal, so that only then the digits that it
        // took away decide. The double is whole then, and within 65 bits.
        match self.double().partial_cmp(&other) {
            Some(Ordering::Equal) => self.whole().map(|value| value.cmp(&(other as i128))),
            order => order,
        }
    }

    /// What is calculated.
    ///
    /// # Errors
    /// [`Fault::OutOfRange`]: a whole result that is none of ours, or none at all by division by
    /// zero. [`Fault::WrongType`]: the remainder of a double.
    pub(crate) fn calculate(self, operation: Operation, other: Self) -> Result<Self, Fault> {
        if let (Some(value), Some(other)) = (self.whole(), other.whole()) {
            let result = match operation {
                Operation::Add => value.checked_add(other),
                Operation::Subtract => value.checked_sub(other),
                Operation::Multiply => value.checked_mul(other),
                Operation::Divide => value.checked_div(other),
                Operation::Remainder => value.checked_rem(other),
            };
            return result.and_then(Self::of_whole).ok_or(Fault::OutOfRange);
        }
        let (value, other) = (self.double(), other.double());
        Ok(Self::Double(match operation {
            Operation::Add => value + other,
            Operation::Subtract => value - other,
            Operation::Multiply => value * other,
            Operation::Divide => value / other,
            Operation::Remainder => return Err(Fault::WrongType),
        }))
    }

    /// Its negative; None where there is none.
    pub(crate) fn negated(self) -> Option<Self> {
        match self.whole() {
            Some(value) => Self::of_whole(-value),
            None => Some(Self::Double(-self.double())),
        }
    }

    fn whole(self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(value.into()),
            Self::Uint(value) => Some(value.into()),
            Self::Double(_) => None,
        }
    }

    fn of_whole(value: i128) -> Option<Self> {
        let int = i64::try_from(value).ok().map(Self::Int);
        int.or_else(|| u64::try_from(value).ok().map(Self::Uint))
    }

    /// The double that is nearest.
    fn double(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Uint(value) => value as f64,
            Self::Double(value) => value,
        }
    }
}
