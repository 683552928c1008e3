//! CONNECT, as most tests say it.

use weir_wire::packet::Connect;
use weir_wire::{Properties, PropertiesBuf, Property, Version};

/// Of a client with a clean session, and no more than that.
pub(crate) fn greeting(version: Version, client_id: &str) -> Connect<'_> {
    Connect {
        version,
        clean_start: true,
        keep_alive_s: 0,
        client_id,
        will: None,
        user_name: None,
        password: None,
        properties: Properties::EMPTY,
    }
}

/// What makes a session of 5.0 outlive its connection for ever.
pub(crate) fn lasting() -> PropertiesBuf {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SessionExpiryInterval(u32::MAX));
    properties
}
