//! How a received message is printed: payload, topic and payload, or by a format.

mod json;
mod layout;

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use layout::Layout;
use std::io::{self, Write};
use weir_connection::{Shown, ShownJson};
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
    Field(u8, Layout),
    /// The time by one letter of strftime.
    Time(char),
}

/// Where and how messages are printed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    /// What a terminal would obey in text of the publisher is escaped, but for payloads.
    pub(crate) is_terminal: bool,
    /// JSON takes several lines.
    pub(crate) is_pretty: bool,
    /// No newline follows a message.
    pub(crate) has_no_line_end: bool,
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

const REST: &str = r"  %% a %; @@ an @; \n \r \t \a \e \v \0 \\ as in C
  @H, @M and so on: the time in UTC, by the letters of strftime(3); @N its nanoseconds
Widths are as in printf, in bytes: %20t at least 20, %-20t with the blanks behind, %06l with zeros;
%.20t at most 20 (of t, p, x, X, C, R, I)
";

/// The help on `-F`.
pub(crate) fn help() -> String {
    let fields = FIELDS.map(|(name, shown)| format!("\n  %{} {shown}", char::from(name)));
    let fields = fields.concat();
    format!("Fields of -F:{fields}\n{}", REST.trim_end())
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut pieces, mut plain) = (Vec::new(), Vec::new());
        let mut bytes = text.bytes().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'%' => {
                    let layout = Layout::read(&mut bytes)?;
                    match bytes.next() {
                        Some(b'%') => plain.push(b'%'),
                        Some(name) if FIELDS.iter().any(|(known, _)| *known == name) => {
                            pieces.extend(text_of(&mut plain));
                            pieces.push(Piece::Field(name, layout));
                        }
                        name => {
                            let name = name.map(char::from).into_iter().collect::<String>();
                            return Err(format!("no field %{name}; --help lists them"));
                        }
                    }
                }
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
                    Some(letter) if time(letter.into(), Timestamp::UNIX_EPOCH).is_some() => {
                        pieces.extend(text_of(&mut plain));
                        pieces.push(Piece::Time(letter.into()));
                    }
                    _ => return Err("a @ that no letter of strftime follows; @@ is an @".into()),
                },
                byte => plain.push(byte),
            }
        }
        pieces.extend(text_of(&mut plain));
        Ok(Self::Pieces(pieces))
    }
}

/// The piece of what has been read, if there is any.
fn text_of(plain: &mut Vec<u8>) -> Option<Piece> {
    (!plain.is_empty()).then(|| Piece::Text(std::mem::take(plain)))
}

/// What strftime(3) has for this letter, in UTC.
fn time(letter: char, now: Timestamp) -> Option<String> {
    match letter {
        'N' => Some(format!("{:09}", now.subsec_nanosecond())),
        letter if letter.is_ascii_alphabetic() => {
            strtime::format(format!("%{letter}"), &now.to_zoned(TimeZone::UTC)).ok()
        }
        _ => None,
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
        target: Target,
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
                        Piece::Time(letter) => {
                            out.write_all(time(*letter, now).unwrap_or_default().as_bytes())?;
                        }
                        Piece::Field(name, layout) => {
                            print_field((*name, *layout), message, now, target, out)?;
                        }
                    }
                }
            }
        }
        if target.has_no_line_end { Ok(()) } else { out.write_all(b"\n") }
    }
}

fn print_field(
    (name, layout): (u8, Layout),
    message: &Publish<'_>,
    now: Timestamp,
    target: Target,
    out: &mut impl Write,
) -> io::Result<()> {
    let is_escaped = target.is_terminal && (is_text(name) || is_json(name));
    if layout.is_plain() && !is_escaped {
        return field(name, message, now, target, out);
    }
    let mut text = Vec::new();
    field(name, message, now, target, &mut text)?;
    if is_escaped {
        let peers = String::from_utf8_lossy(&text);
        let shown = match is_json(name) {
            true => ShownJson(&peers).to_string(),
            false => Shown(&peers).to_string(),
        };
        text = shown.into_bytes();
    }
    match name {
        // Of one digit, or of any number of parts: mosquitto_sub has no widths for these.
        b'q' | b'r' | b'D' | b'P' | b'U' | b'j' | b'J' => out.write_all(&text),
        name => {
            let is_number = matches!(name, b'l' | b'm' | b'A' | b'E' | b'F' | b'S');
            let is_cut = matches!(name, b't' | b'p' | b'x' | b'X' | b'C' | b'R' | b'I');
            let layout = if is_cut { layout } else { layout.uncut() };
            layout.print(&text, is_number || matches!(name, b'p' | b'x' | b'X'), out)
        }
    }
}

/// Whether the field is text that the publisher chose, and no payload.
const fn is_text(name: u8) -> bool {
    matches!(name, b't' | b'C' | b'D' | b'P' | b'R')
}

const fn is_json(name: u8) -> bool {
    matches!(name, b'j' | b'J')
}

fn field(
    name: u8,
    message: &Publish<'_>,
    now: Timestamp,
    target: Target,
    out: &mut impl Write,
) -> io::Result<()> {
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
        b'j' | b'J' => json::print(message, now, (name == b'J', target.is_pretty), out),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use weir_wire::{Properties, PropertiesBuf, QoS};

    fn printed(format: &Format, message: &Publish<'_>) -> String {
        let (now, mut out) = (Timestamp::new(1_000_000_000, 5_000).unwrap(), Vec::new());
        format.print(message, now, Target::default(), &mut out).unwrap();
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
            let target = Target { is_terminal, has_no_line_end: true, ..Target::default() };
            format.print(&message, Timestamp::UNIX_EPOCH, target, &mut out).unwrap();
            assert_eq!(out, format!("{topic} \u{1b}[m").into_bytes());
        }
    }

    #[test]
    fn no_json_makes_a_terminal_obey_and_it_is_the_same_json() {
        let hostile = "\u{9b}2J\u{7f}\u{202e}\u{1b}";
        let payload = format!("{{\"k\": \"{}\"}}", hostile.replace('\u{1b}', ""));
        let message =
            Publish { topic: hostile, payload: payload.as_bytes(), ..message(Properties::EMPTY) };
        for format in ["%j", "%J"] {
            let format: Format = format.parse().unwrap();
            let printed = |is_terminal| {
                let target = Target { is_terminal, ..Target::default() };
                let mut out = Vec::new();
                format.print(&message, Timestamp::UNIX_EPOCH, target, &mut out).unwrap();
                String::from_utf8(out).unwrap()
            };
            let (shown, raw) = (printed(true), printed(false));
            assert!(
                shown.trim_end().chars().all(|char| (' '..'\u{7f}').contains(&char)),
                "{shown}"
            );
            let [shown, raw]: [Value; 2] =
                [shown, raw].map(|text| serde_json::from_str(&text).unwrap());
            assert_eq!(shown, raw);
            assert_eq!(shown["topic"], hostile);
        }
    }

    #[test]
    fn widths_are_those_of_printf() {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::ContentType("text/plain"));
        properties.push(Property::MessageExpiryInterval(60));
        let message =
            Publish { topic: "a/\u{e4}", payload: b"hello", ..message(properties.as_properties()) };
        for (text, expected) in [
            (
                "%6t|%-6t|%06t|%.2t|%.3t|%6.1t|%-6.1t|%0t",
                "  a/\u{e4}|a/\u{e4}  |  a/\u{e4}|a/|a/|     a|a     |a/\u{e4}",
            ),
            (
                "%8p|%-8p|%08p|%-08p|%3p|%.3p|%5.3p",
                "   hello|hello   |000hello|hello   |hello|hel|  hel",
            ),
            ("%12x|%-12X|%012x|%4x|%.4x", "  68656c6c6f|68656C6C6F  |0068656c6c6f|68656c6c6f|6865"),
            ("%5l|%05l|%-05l|%.1l|%3m", "    5|00005|5    |5|  9"),
            (
                "%5E|%05E|%05A|%-5F|%5S|%5R|%3C|%.4C|%6.4C",
                "   60|00060|00000|     |     |     |text/plain|text|  text",
            ),
            (
                "%5q|%5r|%5%|%27I|%-26I|%.4I",
                "1|1|%|   2001-09-09T01:46:40+0000|2001-09-09T01:46:40+0000  |2001",
            ),
            ("@Y-@m-@d @H:@M:@S.@N @j @Z", "2001-09-09 01:46:40.000005000 252 UTC"),
        ] {
            assert_eq!(
                printed(&text.parse().unwrap(), &message),
                format!("{expected}\n"),
                "{text}"
            );
        }
    }

    #[test]
    fn pretty_json_has_a_line_for_each_member() {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::ContentType("c"));
        let payload = br#"{"b":1,"a":[1,2,{"x":null}],"e":{},"g":[]}"#;
        let message = Publish { payload, ..message(properties.as_properties()) };
        let mut out = Vec::new();
        let target = Target { is_pretty: true, ..Target::default() };
        let format: Format = "%J".parse().unwrap();
        format.print(&message, Timestamp::UNIX_EPOCH, target, &mut out).unwrap();
        let expected = "{\n\t\"tst\":\t\"1970-01-01T00:00:00.000000Z\",\n\t\"topic\":\t\"a/b\",\n\
            \t\"qos\":\t1,\n\t\"retain\":\t1,\n\t\"payloadlen\":\t42,\n\t\"mid\":\t9,\n\
            \t\"properties\":\t{\n\t\t\"content-type\":\t\"c\"\n\t},\n\t\"payload\":\t{\n\
            \t\t\"b\":\t1,\n\t\t\"a\":\t[1, 2, {\n\t\t\t\t\"x\":\tnull\n\t\t\t}],\n\
            \t\t\"e\":\t{\n\t\t},\n\t\t\"g\":\t[]\n\t}\n}\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
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
        for text in ["%", "\\", "\\q", "@", "@!", "%5", "%-", "%5.", "%5z", "%0-8t", "%10001t"] {
            assert!(text.parse::<Format>().is_err(), "{text}");
        }
    }
}
