//! What handling an input has put off until it is handled, so that nothing recurses.

use crate::keys::SessionKey;
use crate::session::Will;

/// A session whose queue ran over, by what it was then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Overflowed {
    /// Its connection ends; its messages stay if it outlives that.
    Connected(SessionKey),
    /// It ends itself, as the setting for the absent says.
    Absent(SessionKey),
    /// It is over nothing, but long enough to be written on a page.
    Long(SessionKey),
}

/// Sessions to end, and wills to publish.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Each as often as its queue ran over in this input.
    pub(super) overflowed: Vec<Overflowed>,
    pub(super) wills: Vec<Will>,
    /// Members of groups may be chosen for what is held.
    pub(super) has_held_picks: bool,
}

impl Due {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.overflowed.is_empty() && self.wills.is_empty() && !self.has_held_picks
    }
}
