//! How often a message has been relayed: a user property that every bridge counts up.
//!
//! No Local keeps a message from coming back by the bridge that has brought it. It does not help
//! where bridges form a circle: there the count ends it.

use weir_wire::{Properties, PropertiesBuf, Property};

/// The name of the user property.
pub const HOPS: &str = "weir-hops";

/// Bridges that a message may pass. One that comes with this count is dropped.
pub const HOPS_MAX: u8 = 8;

/// Writes what a message's properties are at the other end. Says how often it has been relayed
/// with this time.
pub(crate) fn pass_on(properties: Properties<'_>, there: &mut PropertiesBuf) -> u8 {
    there.clear();
    let mut hops = 0_u8;
    for property in properties.iter() {
        match property {
            Property::UserProperty(HOPS, count) => hops = hops.max(count.parse().unwrap_or(0)),
            // These are of the connection that it came by.
            Property::SubscriptionIdentifier(_) | Property::TopicAlias(_) => {}
            property => there.push(property),
        }
    }
    let hops = hops.saturating_add(1);
    let mut digits = [0; 3];
    there.push(Property::UserProperty(HOPS, decimal(hops, &mut digits)));
    hops
}

/// Without memory of its own.
fn decimal(number: u8, digits: &mut [u8; 3]) -> &str {
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + rest % 10;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[at..]).unwrap_or("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_keeps_what_is_its_own_and_is_counted_up() {
        let mut from = PropertiesBuf::new();
        for property in [
            Property::SubscriptionIdentifier(7),
            Property::ContentType("text"),
            Property::UserProperty("a", "b"),
            Property::UserProperty(HOPS, "9"),
            Property::UserProperty("weir-hop", "1"),
        ] {
            from.push(property);
        }
        let mut there = PropertiesBuf::new();
        assert_eq!(pass_on(from.as_properties(), &mut there), 10);
        let left: Vec<Property<'_>> = there.as_properties().iter().collect();
        let expected = [
            Property::ContentType("text"),
            Property::UserProperty("a", "b"),
            Property::UserProperty("weir-hop", "1"),
            Property::UserProperty(HOPS, "10"),
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn a_count_that_is_none_is_the_first() {
        for (said, hops) in [("", 1), ("x", 1), ("-1", 1), ("256", 1), ("0", 1), ("255", 255)] {
            let mut from = PropertiesBuf::new();
            from.push(Property::UserProperty(HOPS, said));
            assert_eq!(pass_on(from.as_properties(), &mut PropertiesBuf::new()), hops, "{said}");
        }
        assert_eq!(pass_on(Properties::EMPTY, &mut PropertiesBuf::new()), 1);
    }

    #[test]
    fn a_number_is_written_in_digits() {
        for number in 0..=u8::MAX {
            assert_eq!(decimal(number, &mut [0; 3]), number.to_string());
        }
    }
}
