//! Topics made from a message: `cells/{payload.p.mcc}/{topic[1]}`.

use crate::condition::Message;
use crate::json::{Json, Kind, Name, text};
use crate::path::{Path, Segment};
use crate::topic::{Level, TOPIC_BYTES_MAX};
use crate::{ConditionError, Fault};

/// What a template may be long, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// The whole topic of the message.
    Topic,
    /// One level of it, from 0.
    TopicLevel(usize),
    Payload(Path),
    Property(String),
}

/// A topic with places for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

impl Template {
    /// Errors name the byte of the template.
    pub(crate) fn parse(text: &str) -> Result<Self, ConditionError> {
        if text.is_empty() {
            return Err(ConditionError::new(0, "the topic is empty"));
        }
        if text.len() > TEMPLATE_BYTES_MAX {
            let message = format!("the topic is longer than {TEMPLATE_BYTES_MAX} bytes");
            return Err(ConditionError::new(TEMPLATE_BYTES_MAX, message));
        }
        if text.starts_with('$') {
            return Err(ConditionError::new(0, "a topic with $ in front belongs to the broker"));
        }
        let mut reader = Reader { text, at: 0 };
        let mut parts = Vec::new();
        let mut literal = String::new();
        while let Some(next) = reader.peek() {
            let at = reader.at;
            reader.at += next.len_utf8();
            match next {
                '{' | '}' if reader.peek() == Some(next) => {
                    reader.at += 1;
                    literal.push(next);
                }
                '{' => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    parts.push(reader.place()?);
                }
                '}' => return Err(ConditionError::new(at, "} without {; for the sign itself, }}")),
                '+' | '#' => {
                    return Err(ConditionError::new(at, "a wildcard cannot stand in a topic"));
                }
                '\0' => return Err(ConditionError::new(at, "a null character in a topic")),
                _ => literal.push(next),
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// Whether a place takes its value from the payload.
    pub(crate) fn reads_payload(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Payload(_)))
    }

    /// What topics can be made, level by level.
    pub(crate) fn levels(&self) -> Vec<Level> {
        let mut levels = vec![Level::Is(String::new())];
        for part in &self.parts {
            match part {
                Part::Literal(text) => {
                    for (at, piece) in text.split('/').enumerate() {
                        if at > 0 {
                            levels.push(Level::Is(String::new()));
                        }
                        if let Some(Level::Is(level)) = levels.last_mut() {
                            level.push_str(piece);
                        }
                    }
                }
                Part::Topic => widen(&mut levels, Level::Many),
                _ => widen(&mut levels, Level::One),
            }
        }
        levels
    }

    /// Writes the topic for a message. `json` must be there where `reads_payload` says so.
    pub(crate) fn render(
        &self,
        message: &Message<'_>,
        json: Option<&Json<'_>>,
        out: &mut String,
    ) -> Result<(), Fault> {
        out.clear();
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Topic => out.push_str(message.topic),
                Part::TopicLevel(level) => {
                    let level = message.topic.split('/').nth(*level).ok_or(Fault::NoField)?;
                    out.push_str(level);
                }
                Part::Payload(path) => payload(path, json.ok_or(Fault::NotJson)?, out)?,
                Part::Property(name) => {
                    let value = message.property(name).ok_or(Fault::NoField)?;
                    value_of(value.chars(), out)?;
                }
            }
            if out.len() > TOPIC_BYTES_MAX {
                return Err(Fault::BadTopic);
            }
        }
        if out.is_empty() || out.starts_with('$') { Err(Fault::BadTopic) } else { Ok(()) }
    }
}

fn widen(levels: &mut [Level], to: Level) {
    if let Some(last) = levels.last_mut()
        && *last != Level::Many
    {
        *last = to;
    }
}

/// A value within one level: not empty, and nothing that would make it two, or none.
fn value_of(characters: impl Iterator<Item = char>, out: &mut String) -> Result<(), Fault> {
    let before = out.len();
    for character in characters {
        if matches!(character, '/' | '+' | '#') || character.is_control() {
            return Err(Fault::BadTopic);
        }
        out.push(character);
    }
    if out.len() == before { Err(Fault::BadTopic) } else { Ok(()) }
}

fn payload(path: &Path, json: &Json<'_>, out: &mut String) -> Result<(), Fault> {
    let entry = json.entry(path.find(json)?).ok_or(Fault::NoField)?;
    match entry.kind {
        Kind::Text | Kind::Escaped => value_of(text::characters(json.raw(entry)), out),
        // As it was written, but for a sign that a level cannot hold: 1e+5.
        Kind::Whole | Kind::Fraction | Kind::True | Kind::False => {
            value_of(json.raw(entry).chars(), out)
        }
        Kind::Object | Kind::Array | Kind::Null => Err(Fault::WrongType),
    }
}

/// Reads what stands between braces.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn fail<T>(&self, message: &str) -> Result<T, ConditionError> {
        Err(ConditionError::new(self.at, message))
    }

    fn word(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or("");
        let wordy = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let length = rest.find(|letter| !wordy(letter)).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or("")
    }

    fn place(&mut self) -> Result<Part, ConditionError> {
        let start = self.at;
        let part = match self.word() {
            "topic" if self.take('[') => {
                let level = self.index()?;
                Part::TopicLevel(level)
            }
            "topic" => Part::Topic,
            "payload" => Part::Payload(Path { segments: self.segments()? }),
            "properties" => match self.segments()?.as_slice() {
                [Segment::Field(name)] => Part::Property(name.text().to_owned()),
                _ => return self.fail("a property has one name: {properties.name}"),
            },
            _ => {
                let message = "a place holds topic, topic[0], payload.field or properties.name";
                return Err(ConditionError::new(start, message));
            }
        };
        if !self.take('}') {
            return self.fail("} is missing");
        }
        Ok(part)
    }

    fn segments(&mut self) -> Result<Vec<Segment>, ConditionError> {
        let mut segments = Vec::new();
        loop {
            if self.take('.') {
                match self.word() {
                    "" => return self.fail("the name of a field is missing"),
                    name => segments.push(Segment::Field(Name::new(name))),
                }
            } else if self.take('[') {
                match self.peek() {
                    Some('"') => segments.push(Segment::Field(Name::new(self.quoted()?))),
                    _ => segments.push(Segment::Item(self.index()?)),
                }
            } else {
                return Ok(segments);
            }
        }
    }

    fn quoted(&mut self) -> Result<&'a str, ConditionError> {
        self.at += 1;
        let rest = self.text.get(self.at..).unwrap_or("");
        let Some((name, _)) = rest.split_once("\"]") else {
            return self.fail("\"] is missing");
        };
        self.at += name.len() + 2;
        Ok(name)
    }

    fn index(&mut self) -> Result<usize, ConditionError> {
        let start = self.at;
        let Ok(index) = self.word().parse() else {
            return Err(ConditionError::new(start, "a number of a level or element is missing"));
        };
        if self.take(']') { Ok(index) } else { self.fail("] is missing") }
    }
}

#[cfg(test)]
mod tests;
