//! The text of a configuration file without what is secret, and with it again: whoever changes it
//! by the API sees each secret as `***`, and what is still `***` when it comes back is what the
//! file has.

use super::sections::{HIDDEN, is_hidden};
use std::collections::HashMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

/// A secret in a text.
struct Secret {
    /// The key with its tables; of a list, which of them.
    key: String,
    /// Where the text has it.
    span: Range<usize>,
    is_masked: bool,
}

/// A secret that is masked and that the file does not have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) line: usize,
    pub(crate) key: String,
}

/// The text without its secrets.
pub(crate) fn masked(text: &str) -> Result<String, Error> {
    let secrets = secrets(text)?.into_iter();
    Ok(replaced(text, secrets.map(|secret| (secret.span, format!("{HIDDEN:?}")))))
}

/// The text with the secrets of `file` where its own are masked. One that is no TOML stays as it
/// is.
pub(crate) fn unmasked(text: &str, file: &str) -> Result<String, Unknown> {
    let Ok(own) = secrets(text) else { return Ok(text.to_owned()) };
    let known: HashMap<String, Range<usize>> =
        secrets(file).into_iter().flatten().map(|secret| (secret.key, secret.span)).collect();
    let mut changes = Vec::new();
    for Secret { key, span, .. } in own.into_iter().filter(|secret| secret.is_masked) {
        let Some(secret) = known.get(&key) else {
            let line = text[..span.start].matches('\n').count() + 1;
            return Err(Unknown { line, key });
        };
        changes.push((span, file[secret.clone()].to_owned()));
    }
    Ok(replaced(text, changes.into_iter()))
}

fn replaced(text: &str, changes: impl Iterator<Item = (Range<usize>, String)>) -> String {
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|(span, _)| span.start);
    let (mut out, mut at) = (String::new(), 0);
    for (span, new) in changes {
        out += &text[at..span.start];
        out += &new;
        at = span.end;
    }
    out + &text[at..]
}

fn secrets(text: &str) -> Result<Vec<Secret>, Error> {
    let mut found = Vec::new();
    walk(DeTable::parse(text)?.get_ref(), "", "", &mut found);
    Ok(found)
}

/// `key` is as a configuration names it, `place` also says which table of a list it is.
fn walk(table: &DeTable<'_>, key: &str, place: &str, found: &mut Vec<Secret>) {
    for (name, value) in table {
        let below = |of: &str| match of {
            "" => name.get_ref().to_string(),
            of => format!("{of}.{}", name.get_ref()),
        };
        look(value, &below(key), below(place), found);
    }
}

fn look(value: &Spanned<DeValue<'_>>, key: &str, place: String, found: &mut Vec<Secret>) {
    match value.get_ref() {
        DeValue::Table(table) => walk(table, key, &place, found),
        DeValue::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                let named = item.get_ref().get("name").and_then(|name| name.get_ref().as_str());
                let which = named.map_or(at.to_string(), |name| format!("{name:?}"));
                look(item, key, format!("{place}[{which}]"), found);
            }
        }
        of => {
            let text = of.as_str();
            if is_hidden(key, text) {
                let (span, is_masked) = (value.span(), text == Some(HIDDEN));
                found.push(Secret { key: place, span, is_masked });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"# all of it
shards = 2
[auth.users]
ann = 'SCRAM$1'
"b.c" = "SCRAM$2"
[auth.http]
url = "https://u:p@a.example/x"
superuser_url = "https://a.example/y"
headers = { k = "secret" }
[[bridge]]
name = "hub"
password = "hush"
[[control.token]]
name = "ann"
sha256 = "aa"
[[control.token]]
name = "bob"
sha256 = "bb"
"#;

    #[test]
    fn what_is_secret_is_masked_and_nothing_else_and_comes_back() {
        let masked = masked(FILE).unwrap();
        for secret in ["SCRAM", "u:p", "secret", "hush", "\"aa\"", "\"bb\""] {
            assert!(!masked.contains(secret), "{secret} is in {masked}");
        }
        for part in ["# all of it\n", "ann = \"***\"\n", "https://a.example/y", "name = \"hub\""] {
            assert!(masked.contains(part), "{part} is not in {masked}");
        }
        assert_eq!(unmasked(&masked, FILE).unwrap(), FILE);
    }

    #[test]
    fn a_secret_is_known_by_its_name_and_another_is_not_made_up() {
        let token = |name: &str, hash: &str| {
            format!("[[control.token]]\nname = \"{name}\"\nsha256 = \"{hash}\"\n")
        };
        let (old, new) = (token("ann", "aa") + &token("bob", "bb"), token("bob", "***"));
        assert_eq!(unmasked(&new, &old).unwrap(), token("bob", "bb"));
        let changed = token("bob", "cc");
        assert_eq!(unmasked(&changed, &old).unwrap(), changed);
        let key = "control.token[\"eve\"].sha256".to_owned();
        assert_eq!(unmasked(&token("eve", "***"), &old), Err(Unknown { line: 3, key }));
        assert_eq!(unmasked("no TOML", &old).unwrap(), "no TOML");
    }
}
