//! What some CONNECT packets of the tests have.

use weir_wire::{PropertiesBuf, Property};

/// What makes a session of 5.0 outlive its connection for ever.
pub(crate) fn lasting() -> PropertiesBuf {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SessionExpiryInterval(u32::MAX));
    properties
}
