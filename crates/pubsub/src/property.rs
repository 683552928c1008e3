//! Properties of 5.0 given at the shell: `-D PACKET NAME VALUE`.

use crate::Error;
use weir_wire::topic::is_valid_name;
use weir_wire::{Properties, PropertiesBuf, Property};

/// Where a property can be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Connect,
    Will,
    Publish,
    Subscribe,
    Unsubscribe,
    Disconnect,
}

/// Every place with the name it has at the shell, in the order of the enum.
const PLACES: [(Place, &str); 6] = [
    (Place::Connect, "connect"),
    (Place::Will, "will"),
    (Place::Publish, "publish"),
    (Place::Subscribe, "subscribe"),
    (Place::Unsubscribe, "unsubscribe"),
    (Place::Disconnect, "disconnect"),
];

/// What the value is, and how the property is made of it.
#[derive(Clone, Copy)]
enum Value {
    Flag(fn(u8) -> Property<'static>),
    TwoBytes(fn(u16) -> Property<'static>),
    FourBytes(fn(u32) -> Property<'static>),
    Text(for<'a> fn(&'a str) -> Property<'a>),
    Binary(for<'a> fn(&'a [u8]) -> Property<'a>),
    Identifier,
    Pair,
}

struct Row {
    name: &'static str,
    places: &'static [Place],
    value: Value,
    /// Least number allowed.
    least: u32,
}

const fn row(name: &'static str, places: &'static [Place], value: Value, least: u32) -> Row {
    Row { name, places, value, least }
}

const MESSAGE: &[Place] = &[Place::Publish, Place::Will];
const ANYWHERE: &[Place] = &[
    Place::Connect,
    Place::Will,
    Place::Publish,
    Place::Subscribe,
    Place::Unsubscribe,
    Place::Disconnect,
];

/// Table 2-4 of MQTT 5.0, as far as a client sends it.
const TABLE: &[Row] = &[
    row("payload-format-indicator", MESSAGE, Value::Flag(Property::PayloadFormatIndicator), 0),
    row("message-expiry-interval", MESSAGE, Value::FourBytes(Property::MessageExpiryInterval), 0),
    row("content-type", MESSAGE, Value::Text(|text| Property::ContentType(text)), 0),
    row("response-topic", MESSAGE, Value::Text(|text| Property::ResponseTopic(text)), 0),
    row("correlation-data", MESSAGE, Value::Binary(|bytes| Property::CorrelationData(bytes)), 0),
    row("subscription-identifier", &[Place::Subscribe], Value::Identifier, 1),
    row(
        "session-expiry-interval",
        &[Place::Connect, Place::Disconnect],
        Value::FourBytes(Property::SessionExpiryInterval),
        0,
    ),
    row(
        "authentication-method",
        &[Place::Connect],
        Value::Text(|text| Property::AuthenticationMethod(text)),
        0,
    ),
    row(
        "authentication-data",
        &[Place::Connect],
        Value::Binary(|bytes| Property::AuthenticationData(bytes)),
        0,
    ),
    row(
        "request-problem-information",
        &[Place::Connect],
        Value::Flag(Property::RequestProblemInformation),
        0,
    ),
    row(
        "request-response-information",
        &[Place::Connect],
        Value::Flag(Property::RequestResponseInformation),
        0,
    ),
    row("will-delay-interval", &[Place::Will], Value::FourBytes(Property::WillDelayInterval), 0),
    row("receive-maximum", &[Place::Connect], Value::TwoBytes(Property::ReceiveMaximum), 1),
    row("topic-alias-maximum", &[Place::Connect], Value::TwoBytes(Property::TopicAliasMaximum), 0),
    row("topic-alias", &[Place::Publish], Value::TwoBytes(Property::TopicAlias), 1),
    row("maximum-packet-size", &[Place::Connect], Value::FourBytes(Property::MaximumPacketSize), 1),
    row("user-property", ANYWHERE, Value::Pair, 0),
];

/// The properties of every packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketProperties {
    of: [PropertiesBuf; PLACES.len()],
    /// What stands somewhere already and may stand there once.
    seen: Vec<(Place, &'static str)>,
}

impl PacketProperties {
    /// Takes the words of all `-D` in their order. Where each one ends is known from its name:
    /// `user-property` has two values.
    pub(crate) fn parse(words: &[String]) -> Result<Self, Error> {
        let mut properties = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(place) = words.next() {
            let name = words.next().unwrap_or_default();
            let told = |rule: String| Error::option("-D", format!("{place} {name}"), rule);
            let Some(&(place_of, _)) = PLACES.iter().find(|(_, known)| *known == place) else {
                return Err(told(format!("the packet must be {}", listed(PLACES.map(|p| p.1)))));
            };
            let rows = TABLE.iter().filter(|row| row.places.contains(&place_of));
            let Some(row) = rows.clone().find(|row| row.name == name) else {
                let names = listed(rows.map(|row| row.name));
                return Err(told(format!("the property must be {names}")));
            };
            let value = words.next().ok_or_else(|| told("it has no value".into()))?;
            if let Value::Pair = row.value {
                let second =
                    words.next().ok_or_else(|| told("it needs a name and a value".into()))?;
                if value.len().max(second.len()) > usize::from(u16::MAX) {
                    return Err(told(TOO_LONG.into()));
                }
                properties.of[place_of as usize].push(Property::UserProperty(value, second));
                continue;
            }
            let property = make(row, value).map_err(told)?;
            properties.push(place_of, row.name, property).map_err(told)?;
        }
        Ok(properties)
    }

    /// Adds a property, which must not be there yet.
    pub(crate) fn push(
        &mut self,
        place: Place,
        name: &'static str,
        property: Property<'_>,
    ) -> Result<(), String> {
        if self.seen.contains(&(place, name)) {
            return Err("it may be given once".into());
        }
        self.seen.push((place, name));
        self.of[place as usize].push(property);
        Ok(())
    }

    /// The properties of one place.
    pub(crate) fn of(&self, place: Place) -> Properties<'_> {
        self.of[place as usize].as_properties()
    }
}

const TOO_LONG: &str = "it is longer than 65535 bytes";

fn make<'a>(row: &Row, value: &'a str) -> Result<Property<'a>, String> {
    let number = |most: u32| {
        let number = value.parse().ok().filter(|number| (row.least..=most).contains(number));
        number.ok_or_else(|| format!("{value:?} is not a number from {} to {most}", row.least))
    };
    if value.len() > usize::from(u16::MAX) {
        return Err(TOO_LONG.into());
    }
    Ok(match row.value {
        Value::Flag(make) => make(number(1)? as u8),
        Value::TwoBytes(make) => make(number(u16::MAX.into())? as u16),
        Value::FourBytes(make) => make(number(u32::MAX)?),
        Value::Identifier => Property::SubscriptionIdentifier(number(268_435_455)?),
        Value::Binary(make) => make(value.as_bytes()),
        Value::Text(make) => {
            // [MQTT-3.3.2-14]
            if row.name == "response-topic" && !is_valid_name(value) {
                return Err(format!("{value:?} is not a topic name"));
            }
            make(value)
        }
        Value::Pair => unreachable!("a pair is made of two values"),
    })
}

fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The help on `-D`: every packet with its properties.
pub(crate) fn help() -> String {
    let mut text = String::from("Properties of 5.0, for -D:");
    for (place, shown) in PLACES {
        let rows = TABLE.iter().filter(|row| row.places.contains(&place));
        text += &format!("\n  {shown}: {}", listed(rows.map(|row| row.name)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<PacketProperties, Error> {
        PacketProperties::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn places_stand_in_the_order_of_the_enum() {
        assert!(PLACES.iter().enumerate().all(|(at, (place, _))| *place as usize == at));
    }

    #[test]
    fn words_are_taken_apart_by_the_names_of_properties() {
        let parsed = parse(
            "publish user-property a b publish content-type c connect receive-maximum 3 \
             publish user-property a b subscribe subscription-identifier 7",
        )
        .unwrap();
        let pair = Property::UserProperty("a", "b");
        let publish: Vec<_> = parsed.of(Place::Publish).iter().collect();
        assert_eq!(publish, [pair, Property::ContentType("c"), pair]);
        let connect: Vec<_> = parsed.of(Place::Connect).iter().collect();
        assert_eq!(connect, [Property::ReceiveMaximum(3)]);
        let subscribe: Vec<_> = parsed.of(Place::Subscribe).iter().collect();
        assert_eq!(subscribe, [Property::SubscriptionIdentifier(7)]);
        assert!(parsed.of(Place::Will).is_empty());
    }

    #[test]
    fn every_property_can_be_given_where_it_may_stand_and_nowhere_else() {
        for (place, shown) in PLACES {
            for row in TABLE {
                let value = if let Value::Pair = row.value { "1 1" } else { "1" };
                let parsed = parse(&format!("{shown} {} {value}", row.name));
                assert_eq!(parsed.is_ok(), row.places.contains(&place), "{shown} {}", row.name);
            }
        }
    }

    #[test]
    fn a_bad_property_is_named_with_its_rule() {
        for (words, part) in [
            ("puback user-property a b", "the packet must be connect, will"),
            ("publish receive-maximum 1", "the property must be payload-format-indicator"),
            ("publish topic-alias 0", "from 1 to 65535"),
            ("publish topic-alias x", "not a number"),
            ("publish payload-format-indicator 2", "from 0 to 1"),
            ("publish response-topic a/#", "not a topic name"),
            ("publish content-type", "no value"),
            ("publish user-property a", "a name and a value"),
            ("publish content-type a publish content-type b", "once"),
        ] {
            let text = parse(words).unwrap_err().to_string();
            assert!(text.contains(part), "{words}: {text}");
        }
    }
}
