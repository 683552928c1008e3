//! Where in its file a setting is.

use super::{ConfigError, Place};
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

impl ConfigError {
    /// The same with the line that it is about, where there is one.
    pub(super) fn at(self, path: &Path, text: &str) -> Self {
        let words: Vec<&str> = match &self {
            Self::Value { key, .. } => key.split('.').collect(),
            Self::User { user, .. } => vec!["auth", "users", user],
            _ => return self,
        };
        let value = match &self {
            Self::Value { value, .. } => value.trim_matches('"'),
            _ => "",
        };
        match line_of(text, &words, value) {
            Some(line) => {
                let place = Place { path: path.into(), line };
                Self::At { place, error: Box::new(self) }
            }
            None => self,
        }
    }
}

/// The line of the key: of several, the first that is set to this value, or else the first.
fn line_of(text: &str, words: &[&str], value: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut found = Vec::new();
    find(table.get_ref(), words, &mut found);
    let is_it =
        |at: &&(usize, usize)| text.get(at.0..at.1).is_some_and(|text| text.contains(value));
    let (start, _) = found.iter().find(is_it).or(found.first())?;
    Some(text[..*start].matches('\n').count() + 1)
}

/// Where values of the key are, and tables that it may stand for.
fn find(table: &DeTable<'_>, words: &[&str], found: &mut Vec<(usize, usize)>) {
    let Some((first, rest)) = words.split_first() else { return };
    let of_key = table.iter().filter(|(key, _)| key.get_ref() == first);
    for (key, value) in of_key {
        if rest.is_empty() {
            found.push((key.span().start, value.span().end));
        }
        find_below(value, rest, found);
    }
}

fn find_below(value: &Spanned<DeValue<'_>>, rest: &[&str], found: &mut Vec<(usize, usize)>) {
    match value.get_ref() {
        DeValue::Table(table) => find(table, rest, found),
        DeValue::Array(items) => items.iter().for_each(|item| find_below(item, rest, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_tables_and_lists() {
        let text = "shards = 1\n[limits]\na = 1\n[[listener]]\nmode = \"1\"\n[[listener]]\n\
            mode = \"2\"\n[listener.tls]\nciphers = [\"x\"]\n[auth]\nusers.\"a.b\" = \"v\"\n";
        for (key, value, line) in [
            ("shards", "1", Some(1)),
            ("limits.a", "1", Some(3)),
            ("listener.mode", "2", Some(7)),
            ("listener.mode", "9", Some(5)),
            ("listener.tls.ciphers", "x", Some(9)),
            ("limits.b", "1", None),
        ] {
            let words: Vec<_> = key.split('.').collect();
            assert_eq!(line_of(text, &words, value), line, "{key}");
        }
        assert_eq!(line_of(text, &["auth", "users", "a.b"], ""), Some(11));
    }
}
