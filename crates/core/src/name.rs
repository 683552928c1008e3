//! What a SUBSCRIBE or UNSUBSCRIBE names: a topic filter, shared or not, with a condition or
//! without: `$filter/{condition}/{filter}` and `$share/{name}/$filter/{condition}/{filter}`.

use std::borrow::Cow;
use weir_wire::topic::{SHARE_PREFIX, TopicFilter};

/// What stands before a condition in percent-encoding.
pub(crate) const FILTER_PREFIX: &str = "$filter/";

/// A name, taken apart. As topic filters are, names are compared character by character: two
/// spellings of one condition name two subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name<'a> {
    /// Topic filter and group. A group's condition is part of what its group is called here.
    pub(crate) topic: TopicFilter<'a>,
    /// The condition, as it is encoded.
    pub(crate) encoded: Option<&'a str>,
}

impl<'a> From<TopicFilter<'a>> for Name<'a> {
    fn from(topic: TopicFilter<'a>) -> Self {
        Self { topic, encoded: None }
    }
}

impl<'a> Name<'a> {
    /// Nothing if it is no topic filter, or a condition stands where none can.
    #[inline]
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let parsed = TopicFilter::parse(text)?;
        if parsed.filter.starts_with(FILTER_PREFIX) {
            return Self::with_condition(text, parsed);
        }
        Some(parsed.into())
    }

    #[cold]
    fn with_condition(text: &'a str, parsed: TopicFilter<'a>) -> Option<Self> {
        let (encoded, rest) = parsed.filter[FILTER_PREFIX.len()..].split_once('/')?;
        let TopicFilter { group: None, filter } = TopicFilter::parse(rest)? else { return None };
        if encoded.is_empty() || filter.starts_with(FILTER_PREFIX) {
            return None;
        }
        // The group is called by all between the prefix and the topic filter.
        let end = text.len() - filter.len() - 1;
        let group = parsed.group.map(|_| &text[SHARE_PREFIX.len()..end]);
        Some(Self { topic: TopicFilter { group, filter }, encoded: Some(encoded) })
    }

    /// Why a text with `$filter/` in front is no name, in words; nothing of any other.
    #[cold]
    pub(crate) fn fault(text: &str) -> &'static str {
        let shared = text.strip_prefix(SHARE_PREFIX).and_then(|rest| rest.split_once('/'));
        let name = shared.map_or(text, |(_, filter)| filter);
        let Some(rest) = name.strip_prefix(FILTER_PREFIX) else { return "" };
        match rest.split_once('/') {
            None | Some((_, "")) => {
                "no topic filter after the condition: $filter/{condition}/{topic filter}"
            }
            Some(("", _)) => "the condition is empty: $filter/{condition}/{topic filter}",
            Some((condition, _)) if condition.contains(['+', '#']) => {
                "a + in a condition is written %2B, a # is written %23"
            }
            Some((_, filter)) if filter.starts_with(FILTER_PREFIX) => {
                "two conditions: one of both is written A && B"
            }
            Some((_, filter)) if filter.starts_with(SHARE_PREFIX) => {
                "the group stands in front: $share/{name}/$filter/{condition}/{topic filter}"
            }
            Some(_) => "what stands after the condition is no topic filter",
        }
    }

    /// The condition; nothing if the encoding is none, or not of UTF-8.
    pub(crate) fn condition(&self) -> Option<Result<Cow<'a, str>, BadEncoding>> {
        self.encoded.map(decode)
    }
}

/// The encoding cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadEncoding;

/// Undoes percent-encoding (RFC 3986).
fn decode(encoded: &str) -> Result<Cow<'_, str>, BadEncoding> {
    if !encoded.contains('%') {
        return Ok(encoded.into());
    }
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut parts = encoded.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or(BadEncoding)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map(Cow::Owned).map_err(|_| BadEncoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(Option<&str>, &str, Option<String>)> {
        let name = Name::parse(text)?;
        let condition = name.condition().map(|decoded| decoded.unwrap().into_owned());
        Some((name.topic.group, name.topic.filter, condition))
    }

    #[test]
    fn a_plain_name_has_no_condition() {
        for text in ["a/b", "$filter", "$filters/a/b", "a/$filter/b/c", "+/$filter/#"] {
            assert_eq!(parse(text), Some((None, text, None)));
        }
        assert_eq!(parse("$share/g/a/#"), Some((Some("g"), "a/#", None)));
        // A share name, not a condition.
        assert_eq!(parse("$share/$filter/a/b"), Some((Some("$filter"), "a/b", None)));
    }

    #[test]
    fn a_condition_is_one_level_in_percent_encoding() {
        let found = parse("$filter/payload.a%20%2B%201%20>%203%20%2F%202/ud/#");
        assert_eq!(found, Some((None, "ud/#", Some("payload.a + 1 > 3 / 2".into()))));
        assert_eq!(parse("$filter/x/a"), Some((None, "a", Some("x".into()))));
        assert_eq!(parse("$filter/%C3%a9/a"), Some((None, "a", Some("é".into()))));
        // An empty level is a level.
        assert_eq!(parse("$filter/x//a"), Some((None, "/a", Some("x".into()))));
    }

    #[test]
    fn a_group_is_called_by_its_condition_too() {
        let found = parse("$share/g/$filter/a%3Db/ud/+");
        assert_eq!(found, Some((Some("g/$filter/a%3Db"), "ud/+", Some("a=b".into()))));
    }

    #[test]
    fn a_condition_without_a_filter_or_twice_or_before_a_group_is_no_name() {
        for (text, fault) in [
            ("$filter/", "no topic filter"),
            ("$filter/x", "no topic filter"),
            ("$filter/x/", "no topic filter"),
            ("$filter//a", "is empty"),
            ("$filter/x/a+", "is no topic filter"),
            ("$filter/a+b/c", "%2B"),
            ("$filter/a#b/c", "%23"),
            ("$filter/x/$filter/y/a", "two conditions"),
            ("$filter/x/$share/g/a", "in front"),
            ("$share/g/$filter/x", "no topic filter"),
            ("$share/g/$filter//a", "is empty"),
            ("$share/g/$filter/x/$share/h/a", "in front"),
        ] {
            assert_eq!(Name::parse(text), None, "{text}");
            assert!(Name::fault(text).contains(fault), "{text}: {}", Name::fault(text));
        }
        for text in ["", "a#", "$share/g", "$filters/a+"] {
            assert_eq!(Name::parse(text), None, "{text}");
            assert_eq!(Name::fault(text), "", "{text}");
        }
    }

    #[test]
    fn what_is_not_percent_encoding_of_utf_8_is_told_apart() {
        for text in ["%", "%4", "a%zz", "%+1", "%C3", "%ff", "%é"] {
            assert_eq!(decode(text), Err(BadEncoding), "{text}");
        }
        assert_eq!(decode("%25"), Ok("%".into()));
    }
}
