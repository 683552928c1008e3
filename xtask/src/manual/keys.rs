//! The keys of the configuration: names, comments and types from the code that reads them, defaults
//! and ranges from the broker itself.

use crate::programs::root;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use syn::ext::IdentExt;
use syn::{Attribute, Fields, Item, Type};
use toml::{Table, Value};
use weir_broker::{Config, RANGES};

/// Where the types of the configuration are.
const SOURCES: &[&str] = &[
    "crates/access/src/config.rs",
    "crates/broker/src/admission.rs",
    "crates/broker/src/auth.rs",
    "crates/broker/src/bridges/config.rs",
    "crates/broker/src/bridges/kafka.rs",
    "crates/broker/src/cluster.rs",
    "crates/broker/src/config.rs",
    "crates/broker/src/control/config.rs",
    "crates/broker/src/journal/config.rs",
    "crates/broker/src/listener/config.rs",
    "crates/broker/src/rules.rs",
    "crates/broker/src/sys.rs",
    "crates/control/src/tls.rs",
    "crates/control/src/tokens.rs",
    "crates/core/src/features.rs",
    "crates/core/src/limits.rs",
    "crates/core/src/share.rs",
    "crates/flow/src/rule.rs",
];

/// A type, as far as a file shows it.
enum Shape {
    /// A table with these keys.
    Keys(Vec<Key>),
    /// One of these values, each with what it means.
    Choices(Vec<(String, String)>),
}

struct Key {
    name: String,
    about: String,
    of: Kind,
    /// It may be left out.
    has_default: bool,
}

/// A type without what wraps it.
#[derive(Clone)]
struct Kind {
    name: String,
    is_list: bool,
    is_optional: bool,
}

type Shapes = BTreeMap<String, Shape>;

/// Every table of the configuration, as sections with a table each.
pub(super) fn tables() -> anyhow::Result<String> {
    let mut shapes = Shapes::new();
    for source in SOURCES {
        let text = std::fs::read_to_string(root().join(source))
            .with_context(|| format!("cannot read {source}"))?;
        for item in syn::parse_file(&text).with_context(|| (*source).to_owned())?.items {
            read(&item, &mut shapes);
        }
    }
    let defaults = Table::try_from(Config::default())?;
    let Some(Shape::Keys(keys)) = shapes.get("Config") else { anyhow::bail!("there is no Config") };
    let (sections, plain): (Vec<&Key>, Vec<&Key>) =
        keys.iter().partition(|key| table_of(key, &shapes).is_some());
    let mut text = String::from("### At the top of the file\n\n");
    text += &table(&plain, "", &defaults, &shapes)?;
    for key in sections {
        section(key, &key.name, &defaults, &shapes, &mut text)?;
    }
    Ok(text)
}

/// That of a key that stands for a table or some, and those of the tables in it.
fn section(
    key: &Key,
    path: &str,
    defaults: &Table,
    shapes: &Shapes,
    text: &mut String,
) -> anyhow::Result<()> {
    let Some((keys, is_list)) = table_of(key, shapes) else { return Ok(()) };
    let shown = if is_list { format!("[[{path}]]") } else { format!("[{path}]") };
    let keys: Vec<&Key> = keys.iter().collect();
    write!(text, "\n### `{shown}`\n\n{}\n\n", key.about)?;
    *text += &table(&keys, path, defaults, shapes)?;
    for key in keys {
        section(key, &format!("{path}.{}", key.name), defaults, shapes, text)?;
    }
    Ok(())
}

/// The keys of the table, or of each of the tables, that a key stands for.
fn table_of<'a>(key: &Key, shapes: &'a Shapes) -> Option<(&'a [Key], bool)> {
    let mut of = &key.of;
    loop {
        match shapes.get(&of.name)? {
            // A list in a type of its own.
            Shape::Keys(keys) if keys.len() == 1 && keys[0].of.is_list && !of.is_list => {
                of = &keys[0].of;
            }
            Shape::Keys(keys) => return Some((keys, of.is_list)),
            Shape::Choices(_) => return None,
        }
    }
}

fn table(keys: &[&Key], table: &str, defaults: &Table, shapes: &Shapes) -> anyhow::Result<String> {
    let mut text = String::from("| key | default | range | meaning |\n|---|---|---|---|\n");
    for key in keys {
        let path =
            if table.is_empty() { key.name.clone() } else { format!("{table}.{}", key.name) };
        ensure!(!key.about.is_empty(), "{path} has no comment");
        ensure!(!key.about.contains("[`"), "the comment of {path} has a link that no page has");
        let default = match path.split('.').try_fold(None, |at: Option<&Value>, name| match at {
            None => defaults.get(name).map(Some),
            Some(value) => value.get(name).map(Some),
        }) {
            Some(Some(value)) => shown(value, unit(&key.name)),
            _ if key.has_default => "not set".into(),
            _ => "required".into(),
        };
        let mut about = key.about.clone();
        if let Some(Shape::Choices(choices)) = shapes.get(&key.of.name) {
            for (value, what) in choices {
                write!(about, "<br>`{value}`: {what}")?;
            }
        }
        let about = about.replace('|', "\\|");
        writeln!(text, "| `{}` | {default} | {} | {about} |", key.name, range(key, &path, shapes))?;
    }
    Ok(text)
}

/// What a number of this name counts, where it is more than a number.
fn unit(name: &str) -> &'static str {
    let words: Vec<_> = name.split('_').collect();
    let last = words.iter().rev().find(|word| **word != "max");
    match last.copied() {
        _ if words.contains(&"bytes") => " bytes",
        Some("s") if words.contains(&"per") => " per s",
        Some("s") => " s",
        Some("ms") => " ms",
        Some("us") => " us",
        Some("percent") => " %",
        _ => "",
    }
}

fn shown(value: &Value, unit: &str) -> String {
    match value {
        Value::Integer(number) => {
            let exact = format!("{}{unit}", grouped(*number as u64));
            match rounded(*number as u64).filter(|_| unit == " bytes") {
                Some(rounded) => format!("{exact} ({rounded})"),
                None => exact,
            }
        }
        Value::Table(table) if table.is_empty() => "none".into(),
        Value::String(text) if text.is_empty() => "none".into(),
        value => format!("`{value}`"),
    }
}

/// Whole binary units.
fn rounded(bytes: u64) -> Option<String> {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let (size, name) =
        units.into_iter().find(|(size, _)| bytes >= *size && bytes.is_multiple_of(*size))?;
    Some(format!("{} {name}", grouped(bytes / size)))
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn range(key: &Key, path: &str, shapes: &Shapes) -> String {
    if let Some(Shape::Choices(choices)) = shapes.get(&key.of.name) {
        return choices
            .iter()
            .map(|(value, _)| format!("`{value}`"))
            .collect::<Vec<_>>()
            .join(", ");
    }
    let of_type = match &*key.of.name {
        _ if key.name.ends_with("qos") || key.of.name == "QoS" => return "0, 1, 2".into(),
        "u8" => Some(u8::MAX.into()),
        "u16" => Some(u16::MAX.into()),
        "u32" => Some(u32::MAX.into()),
        "u64" | "usize" => None,
        "bool" => return "`true`, `false`".into(),
        "String" | "Algorithm" | "IpNet" if key.of.is_list => return "a list of strings".into(),
        "BTreeMap" => return "a table of strings".into(),
        "HttpConfig" | "JwtConfig" | "ProxyConfig" | "TlsConfig" => return "a table".into(),
        "CertificateConfig" => return "tables".into(),
        "PathBuf" if key.of.is_list => return "a list of paths".into(),
        "PathBuf" => return "a path".into(),
        "f64" => return "a number".into(),
        _ => return "a string".into(),
    };
    let range = RANGES.iter().find(|range| range.key == path);
    let least = range.map_or(0, |range| range.least);
    let zero = if range.is_some_and(|range| range.or_zero) { "0, or " } else { "" };
    match range.and_then(|range| range.most).or(of_type) {
        Some(most) => format!("{zero}{} to {}", grouped(least), grouped(most)),
        None => format!("{zero}{} or more", grouped(least)),
    }
}

fn read(item: &Item, shapes: &mut Shapes) {
    match item {
        Item::Struct(item) => {
            let Fields::Named(fields) = &item.fields else { return };
            let is_default = serde(&item.attrs).iter().any(|word| word == "default");
            let keys = fields.named.iter().filter_map(|field| {
                let words = serde(&field.attrs);
                let of = kind(&field.ty)?;
                let has_default =
                    is_default || of.is_optional || words.iter().any(|word| word == "default");
                let name = field.ident.as_ref()?.unraw().to_string();
                let is_read = !words.iter().any(|word| word == "skip");
                is_read.then(|| Key { name, about: about(&field.attrs), of, has_default })
            });
            shapes.insert(item.ident.to_string(), Shape::Keys(keys.collect()));
        }
        Item::Enum(item) => {
            let words = serde(&item.attrs);
            let separator = if words.iter().any(|word| word == "snake_case") { '_' } else { '-' };
            let choices = item.variants.iter().map(|variant| {
                let name = words_of(&variant.ident.to_string(), separator);
                let mut words = serde(&variant.attrs).into_iter();
                let name = match words.find(|word| word == "rename") {
                    // Behind it is the sign for equal.
                    Some(_) => words.nth(1).unwrap_or(name),
                    None => name,
                };
                let value = match variant.fields.is_empty() {
                    true => format!("\"{name}\""),
                    false => format!("{{ {name} = N }}"),
                };
                (value, about(&variant.attrs))
            });
            shapes.insert(item.ident.to_string(), Shape::Choices(choices.collect()));
        }
        _ => {}
    }
}

/// `IoUring` as `io_uring`.
fn words_of(name: &str, separator: char) -> String {
    let mut text = String::new();
    for (at, char) in name.chars().enumerate() {
        if at > 0 && char.is_uppercase() {
            text.push(separator);
        }
        text.extend(char.to_lowercase());
    }
    text
}

fn kind(of: &Type) -> Option<Kind> {
    let Type::Path(path) = of else { return None };
    let segment = path.path.segments.last()?;
    let inner = || match &segment.arguments {
        syn::PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            syn::GenericArgument::Type(inner) => kind(inner),
            _ => None,
        },
        _ => None,
    };
    match &*segment.ident.to_string() {
        "Vec" => inner().map(|kind| Kind { is_list: true, ..kind }),
        "Option" => inner().map(|kind| Kind { is_optional: true, ..kind }),
        "Box" => inner(),
        name => Some(Kind { name: name.into(), is_list: false, is_optional: false }),
    }
}

/// The words of serde's attributes, and the strings.
fn serde(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    let lists = lists.filter_map(|attribute| attribute.meta.require_list().ok());
    let tokens = lists.flat_map(|list| list.tokens.clone());
    tokens.map(|token| token.to_string().trim_matches('"').to_owned()).collect()
}

/// The first paragraph of a comment, on one line.
fn about(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    });
    let lines = lines.map(|line| line.trim().to_owned()).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_a_configuration_has_is_on_the_page() {
        let text = tables().unwrap();
        let mut at = "";
        let mut rows = std::collections::BTreeSet::new();
        for line in text.lines() {
            if let Some(section) = line.strip_prefix("### `[") {
                at = section.trim_matches(['[', ']', '`']);
            } else if let Some(row) = line.strip_prefix("| `") {
                rows.insert((at, row.split('`').next().unwrap()));
            }
        }
        for (name, value) in Table::try_from(Config::default()).unwrap() {
            let keys = value.as_table();
            let keys: Vec<_> = keys.into_iter().flat_map(Table::keys).map(String::as_str).collect();
            for key in keys.iter().map(|key| (&*name, *key)) {
                assert!(rows.contains(&key), "{key:?}");
            }
            let is_there = rows.contains(&("", &*name)) || rows.iter().any(|row| row.0 == name);
            assert!(is_there, "{name}");
        }
        for key in [
            ("share", "prefix"),
            ("flow", "when"),
            ("control", "socket"),
            ("listener", "address"),
            ("listener.tls", "versions"),
            ("auth.jwt", "in"),
            ("auth.http", "form"),
            ("listener.tls.more", "key"),
        ] {
            assert!(rows.contains(&key), "{key:?}");
        }
    }

    #[test]
    fn numbers_are_shown_with_their_unit() {
        for (value, name, expected) in [
            (1_048_576, "output_bytes_max", "1,048,576 bytes (1 MiB)"),
            (1_000, "client_id_bytes_max", "1,000 bytes"),
            (10, "connect_timeout_s", "10 s"),
            (60, "answer_wait_s_max", "60 s"),
            (10, "latency_budget_ms", "10 ms"),
            (10_000, "queue_messages_max", "10,000"),
        ] {
            assert_eq!(shown(&Value::Integer(value), unit(name)), expected);
        }
    }
}
