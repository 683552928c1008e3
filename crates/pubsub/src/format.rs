//! How a received message is printed: payload, topic and payload, or by a format.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use weir_connection::Shown;
use weir_wire::packet::Publish;
use weir_wire::{PacketId, Property};

/// What `-v` and `-F` ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Payload,
    Verbose,
    Pieces(Vec<Piece>),
}

/// A part of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(Vec<u8>),
    Field(u8),
}

/// Every field with what it prints, for the help.
const FIELDS: [(u8, &str); 20] = [
    (b't', "topic"),
    (b'p', "payload"),
    (b'x', "payload in hexadecimal, lower case"),
    (b'X', "payload in hexadecimal, upper case"),
    (b'l', "length of the payload in bytes"),
    (b'q', "QoS"),
    (b'r', "1 if retained, else 0"),
    (b'm', "packet identifier, 0 at QoS 0"),
    (b'A', "topic alias (5.0, like all below except the last four)"),
    (b'C', "content type"),
    (b'D', "correlation data"),
    (b'E', "message expiry interval"),
    (b'F', "payload format indicator"),
    (b'P', "user properties as NAME:VALUE, separated by spaces"),
    (b'R', "response topic"),
    (b'S', "subscription identifiers, separated by spaces"),
    (b'I', "time in UTC, such as 2026-01-31T12:00:00+0000"),
    (b'U', "time in seconds since 1970, to the nanosecond"),
    (b'j', "everything as JSON, with the payload as a string"),
    (b'J', "everything as JSON, with the payload as JSON"),
];

/// The help on `-F`.
pub(crate) fn help() -> String {
    let fields = FIELDS.map(|(name, shown)| format!("\n  %{} {shown}", char::from(name)));
    let fields = fields.concat();
    format!("Fields of -F:{fields}\n  %% is %; \\n \\r \\t \\a \\e \\v \\0 \\\\ as in C; @@ is @")
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain) = (Vec::new(), Vec::new());
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'%' => match bytes.next() {
                    Some(b'%') => plain.push(b'%'),
                    Some(name) if FIELDS.iter().any(|(known, _)| *known == name) => {
                        if !plain.is_empty() {
                            pieces.push(Piece::Text(std::mem::take(&mut plain)));
                        }
                        pieces.push(Piece::Field(name));
                    }
                    name => {
                        let name = name.map(char::from).into_iter().collect::<String>();
                        return Err(format!("no field %{name}; --help lists them"));
                    }
                },
                b'\\' => plain.push(match bytes.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    Some(b'a') => 7,
                    Some(b'e') => 27,
                    Some(b'v') => 11,
                    Some(b'0') => 0,
                    Some(b'\\') => b'\\',
                    _ => return Err("a \\ that nothing known follows; --help lists them".into()),
                }),
                b'@' => match bytes.next() {
                    Some(b'@') => plain.push(b'@'),
                    _ => return Err("no time by @ (use %I or %U); @@ is an @".into()),
                },
                byte => plain.push(byte),
            }
        }
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain));
        }
        Ok(Self::Pieces(pieces))
    }
}

impl Format {
    /// Prints the message, and a line end where one is wanted. An empty payload alone prints
    /// nothing, not even that. Payloads are printed as they are, for they were asked for. A topic
    /// of `-v` holds nothing that a terminal obeys; with a format all text is like that on a
    /// terminal, and as it came elsewhere, for programs.
    pub(crate) fn print(
        &self,
        message: &Publish<'_>,
        now: Timestamp,
        (line_end, is_terminal): (&[u8], bool),
        out: &mut impl Write,
    ) -> io::Result<()> {
        match self {
            Self::Payload if message.payload.is_empty() => return Ok(()),
            Self::Payload => out.write_all(message.payload)?,
            Self::Verbose => {
                write!(out, "{} ", Shown(message.topic))?;
                let is_empty = message.payload.is_empty();
                out.write_all(if is_empty { b"(null)" } else { message.payload })?;
            }
            Self::Pieces(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => out.write_all(text)?,
                        Piece::Field(name) if is_terminal && is_text(*name) => {
                            let mut text = Vec::new();
                            field(*name, message, now, &mut text)?;
                            write!(out, "{}", Shown(&String::from_utf8_lossy(&text)))?;
                        }
                        Piece::Field(name) => field(*name, message, now, out)?,
                    }
                }
            }
        }
        out.write_all(line_end)
    }
}

/// Whether the field is text that the publisher chose, and no payload.
const fn is_text(name: u8) -> bool {
    matches!(name, b't' | b'C' | b'D' | b'P' | b'R')
}

fn field(name: u8, message: &Publish<'_>, now: Timestamp, out: &mut impl Write) -> io::Result<()> {
    match name {
        b't' => write!(out, "{}", message.topic),
        b'p' => out.write_all(message.payload),
        b'x' => message.payload.iter().try_for_each(|byte| write!(out, "{byte:02x}")),
        b'X' => message.payload.iter().try_for_each(|byte| write!(out, "{byte:02X}")),
        b'l' => write!(out, "{}", message.payload.len()),
        b'q' => write!(out, "{}", message.qos as u8),
        b'r' => write!(out, "{}", u8::from(message.retain)),
        b'm' => write!(out, "{}", message.packet_id.map_or(0, PacketId::value)),
        b'I' => write!(out, "{}", now.strftime("%Y-%m-%dT%H:%M:%S+0000")),
        b'U' => write!(out, "{}.{:09}", now.as_second(), now.subsec_nanosecond()),
        b'j' => json(message, text(message.payload), now, out),
        // What is no JSON is shown as a string rather than left out.
        b'J' => {
            let payload = serde_json::from_slice(message.payload);
            json(message, payload.unwrap_or_else(|_| text(message.payload)), now, out)
        }
        name => properties(name, message, out),
    }
}

/// Every property that `name` stands for, with spaces between.
fn properties(name: u8, message: &Publish<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut is_first = true;
    for property in message.properties.iter() {
        let text = match (name, property) {
            (b'A', Property::TopicAlias(alias)) => alias.to_string().into_bytes(),
            (b'C', Property::ContentType(text)) | (b'R', Property::ResponseTopic(text)) => {
                text.into()
            }
            (b'D', Property::CorrelationData(data)) => data.into(),
            (b'E', Property::MessageExpiryInterval(seconds)) => seconds.to_string().into_bytes(),
            (b'F', Property::PayloadFormatIndicator(format)) => format.to_string().into_bytes(),
            (b'P', Property::UserProperty(name, value)) => format!("{name}:{value}").into_bytes(),
            (b'S', Property::SubscriptionIdentifier(number)) => number.to_string().into_bytes(),
            _ => continue,
        };
        if !is_first {
            out.write_all(b" ")?;
        }
        is_first = false;
        out.write_all(&text)?;
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}

/// A message as JSON, with the names mosquitto_sub uses.
#[derive(Serialize)]
struct Record<'a> {
    tst: String,
    topic: &'a str,
    qos: u8,
    retain: u8,
    payloadlen: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    mid: Option<u16>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    properties: Map<String, Value>,
    payload: Value,
}

fn json(
    message: &Publish<'_>,
    payload: Value,
    now: Timestamp,
    out: &mut impl Write,
) -> io::Result<()> {
    let record = Record {
        tst: now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        topic: message.topic,
        qos: message.qos as u8,
        retain: message.retain.into(),
        payloadlen: message.payload.len(),
        mid: message.packet_id.map(PacketId::value),
        properties: json_properties(message),
        payload,
    };
    Ok(serde_json::to_writer(out, &record)?)
}

fn json_properties(message: &Publish<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    let (mut users, mut identifiers) = (Vec::new(), Vec::new());
    for property in message.properties.iter() {
        let (name, value) = match property {
            Property::PayloadFormatIndicator(format) => ("payload-format-indicator", json!(format)),
            Property::MessageExpiryInterval(seconds) => ("message-expiry-interval", json!(seconds)),
            Property::ContentType(text) => ("content-type", json!(text)),
            Property::ResponseTopic(topic) => ("response-topic", json!(topic)),
            Property::CorrelationData(data) => ("correlation-data", text(data)),
            Property::TopicAlias(alias) => ("topic-alias", json!(alias)),
            Property::UserProperty(name, value) => {
                users.push(json!({ name: value }));
                continue;
            }
            Property::SubscriptionIdentifier(number) => {
                identifiers.push(json!(number));
                continue;
            }
            _ => continue,
        };
        all.insert(name.into(), value);
    }
    // Both may stand several times, a user property with one name too.
    if !users.is_empty() {
        all.insert("user-properties".into(), users.into());
    }
    if !identifiers.is_empty() {
        all.insert("subscription-identifiers".into(), identifiers.into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Properties, PropertiesBuf, QoS};

    fn printed(format: &Format, message: &Publish<'_>) -> String {
        let (now, mut out) = (Timestamp::new(1_000_000_000, 5_000).unwrap(), Vec::new());
        format.print(message, now, (b"\n", false), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn message(properties: Properties<'_>) -> Publish<'_> {
        Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "a/b",
            packet_id: PacketId::new(9),
            properties,
            payload: b"{\"k\": 1}",
        }
    }

    #[test]
    fn payload_and_verbose_print_as_people_know_it() {
        let message = message(Properties::EMPTY);
        assert_eq!(printed(&Format::Payload, &message), "{\"k\": 1}\n");
        assert_eq!(printed(&Format::Verbose, &message), "a/b {\"k\": 1}\n");
        let empty = Publish { payload: b"", ..message };
        assert_eq!(printed(&Format::Payload, &empty), "");
        assert_eq!(printed(&Format::Verbose, &empty), "a/b (null)\n");
    }

    #[test]
    fn no_topic_makes_a_terminal_obey() {
        let message =
            Publish { topic: "a\u{1b}[2J", payload: b"\x1b[m", ..message(Properties::EMPTY) };
        assert_eq!(printed(&Format::Verbose, &message), "a\\u{1b}[2J \u{1b}[m\n");
        let format: Format = "%t %p".parse().unwrap();
        for (is_terminal, topic) in [(true, "a\\u{1b}[2J"), (false, "a\u{1b}[2J")] {
            let mut out = Vec::new();
            format.print(&message, Timestamp::UNIX_EPOCH, (b"", is_terminal), &mut out).unwrap();
            assert_eq!(out, format!("{topic} \u{1b}[m").into_bytes());
        }
    }

    #[test]
    fn every_field_has_its_value() {
        let mut properties = PropertiesBuf::new();
        for property in [
            Property::TopicAlias(3),
            Property::ContentType("text"),
            Property::CorrelationData(b"cd"),
            Property::MessageExpiryInterval(60),
            Property::PayloadFormatIndicator(1),
            Property::UserProperty("a", "1"),
            Property::UserProperty("a", "2"),
            Property::ResponseTopic("re"),
            Property::SubscriptionIdentifier(7),
            Property::SubscriptionIdentifier(8),
        ] {
            properties.push(property);
        }
        let message = message(properties.as_properties());
        for (text, expected) in [
            ("%t|%p|%l|%q|%r|%m", "a/b|{\"k\": 1}|8|1|1|9"),
            ("%x %X", "7b226b223a20317d 7B226B223A20317D"),
            ("%A,%C,%D,%E,%F,%P,%R,%S", "3,text,cd,60,1,a:1 a:2,re,7 8"),
            ("%I %U", "2001-09-09T01:46:40+0000 1000000000.000005000"),
            ("100%% @@ \\t\\\\\\n", "100% @ \t\\\n"),
        ] {
            assert_eq!(printed(&text.parse().unwrap(), &message), format!("{expected}\n"));
        }
        let json: Value = serde_json::from_str(&printed(&"%J".parse().unwrap(), &message)).unwrap();
        assert_eq!(json["payload"]["k"], 1);
        assert_eq!(json["properties"]["user-properties"], json!([{"a": "1"}, {"a": "2"}]));
        assert_eq!(json["tst"], "2001-09-09T01:46:40.000005Z");
        let json: Value = serde_json::from_str(&printed(&"%j".parse().unwrap(), &message)).unwrap();
        assert_eq!((&json["payload"], &json["mid"]), (&json!("{\"k\": 1}"), &json!(9)));
    }

    #[test]
    fn every_field_of_the_help_is_known_and_nothing_else() {
        let message = message(Properties::EMPTY);
        for name in 1..128_u8 {
            let is_known = name == b'%' || FIELDS.iter().any(|(known, _)| *known == name);
            let format = format!("%{}", char::from(name)).parse::<Format>();
            assert_eq!(format.is_ok(), is_known, "{}", char::from(name));
            if let Ok(format) = format {
                printed(&format, &message);
            }
        }
        for text in ["%", "\\", "\\q", "@H"] {
            assert!(text.parse::<Format>().is_err(), "{text}");
        }
    }
}
