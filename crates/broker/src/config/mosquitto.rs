//! A mosquitto.conf that was given instead of a configuration: it is recognised, and what of it
//! Weir has is written in Weir's own words.
//!
//! Called where a file is not the TOML that is expected. The table of options is also in
//! docs/broker.md, which is made of it.

mod options;

pub use options::{OPTIONS, Options};

use std::fmt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A file of Mosquitto's, in Weir's words.
#[derive(Debug)]
pub struct MosquittoFile {
    path: PathBuf,
    /// What Weir has of it.
    config: Table,
    /// The other lines, each with its number and its option, by what is to be said of them.
    notes: Vec<(&'static str, Vec<(usize, String)>)>,
}

/// An option with its value, on one line.
struct Line<'a> {
    number: usize,
    option: &'a str,
    value: &'a str,
}

const UNKNOWN: &str = "not an option that Weir knows of";
const NO_VALUE: &str = "the value is not one that Mosquitto takes";
const ANONYMOUS: &str = "Mosquitto 2 lets nobody in anonymously if its file has a listener and \
                         does not say allow_anonymous true, so the file above does not either";
const NOT_ANONYMOUS: &str = "where anonymous clients are not allowed, only the users of \
                             auth.password_file are let in, and those of [auth.users], by \
                             SCRAM-SHA-256 (MQTT 5.0)";

impl MosquittoFile {
    /// Reads it if it is one: nothing in it is TOML, and most lines are options of Mosquitto's.
    pub(super) fn recognise(path: &Path, text: &str) -> Option<Self> {
        let lines: Vec<_> = lines(text).collect();
        let known = lines.iter().filter(|line| row(line.option).is_some()).count();
        let has_toml = lines.iter().any(|line| {
            line.option.starts_with('[') || line.option.contains('=') || line.value.starts_with('=')
        });
        if has_toml || known == 0 || 2 * known < lines.len() {
            return None;
        }
        let mut file = Self { path: path.into(), config: Table::new(), notes: Vec::new() };
        lines.iter().for_each(|line| file.take(line, &lines));
        let has = |options: &[&str]| lines.iter().any(|line| options.contains(&line.option));
        if has(&["listener", "port"]) && !has(&["allow_anonymous"]) {
            file.set("auth.allow_anonymous", false.into());
            file.notes.push((ANONYMOUS, Vec::new()));
        }
        let auth = file.config.get("auth").and_then(|auth| auth.get("allow_anonymous"));
        if auth.and_then(Value::as_bool) == Some(false) {
            file.notes.push((NOT_ANONYMOUS, Vec::new()));
        }
        Some(file)
    }

    fn take(&mut self, line: &Line<'_>, all: &[Line<'_>]) {
        let Some(row) = row(line.option) else { return self.note(UNKNOWN, line) };
        let value = match line.option {
            "listener" | "port" => address(line, all),
            _ => (row.value)(line.value),
        };
        match (row.key, value) {
            (Some(key), Some(value)) => self.set(key, value),
            (Some(_), None) if row.note.is_empty() => return self.note(NO_VALUE, line),
            _ => {}
        }
        if !row.note.is_empty() {
            self.note(row.note, line);
        }
    }

    fn note(&mut self, note: &'static str, line: &Line<'_>) {
        let of = (line.number, line.option.to_owned());
        match self.notes.iter_mut().find(|(known, _)| *known == note) {
            Some((_, lines)) => lines.push(of),
            None => self.notes.push((note, vec![of])),
        }
    }

    /// A key that stands there already gets the new value; a list gets one more.
    fn set(&mut self, key: &str, value: Value) {
        let (table, name) = match key.split_once('.') {
            Some((table, name)) => {
                let table = self.config.entry(table).or_insert_with(|| Table::new().into());
                (table.as_table_mut().expect("only tables have keys with a dot"), name)
            }
            None => (&mut self.config, key),
        };
        match (table.get_mut(name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                table.insert(name.into(), value);
            }
        }
    }
}

impl fmt::Display for MosquittoFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "{path} is a configuration of Mosquitto. Weir reads TOML (see docs/broker.md)")?;
        if self.config.is_empty() {
            writeln!(f, ", and has nothing of what this file sets.")?;
        } else {
            writeln!(f, ".\nThis file of Weir's own sets what Weir has of it:\n")?;
            for line in toml::to_string(&self.config).map_err(|_| fmt::Error)?.lines() {
                writeln!(f, "{}", format!("    {line}").trim_end())?;
            }
        }
        if !self.notes.is_empty() {
            write!(f, "\nAbout the rest:")?;
        }
        for (note, lines) in &self.notes {
            let shown = lines.iter().take(LINES_SHOWN_MAX);
            let mut of: Vec<_> =
                shown.map(|(number, option)| format!("{option} (line {number})")).collect();
            if let more @ 1.. = lines.len().saturating_sub(LINES_SHOWN_MAX) {
                of.push(format!("and {more} more"));
            }
            match &of[..] {
                [] => write!(f, "\n  {note}")?,
                of => write!(f, "\n  {}\n      {note}", of.join(", "))?,
            }
        }
        Ok(())
    }
}

/// More lines of one kind than this are counted only.
const LINES_SHOWN_MAX: usize = 5;

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().map(str::trim).zip(1..);
    lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).map(|(line, number)| {
        let (option, value) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        Line { number, option, value: value.trim() }
    })
}

fn row(option: &str) -> Option<&'static Options> {
    OPTIONS.iter().find(|row| row.names.iter().any(|name| is_called(option, name)))
}

fn is_called(option: &str, name: &str) -> bool {
    name.strip_suffix('*').map_or(option == name, |start| option.starts_with(start))
}

/// Where `listener PORT [HOST]` listens, or `port PORT` with the file's `bind_address`; everywhere
/// if neither says.
fn address(line: &Line<'_>, all: &[Line<'_>]) -> Option<Value> {
    let (port, host) = line.value.split_once([' ', '\t']).unwrap_or((line.value, ""));
    let port: u16 = port.parse().ok().filter(|port| *port > 0)?;
    let bind_address = all.iter().find(|line| line.option == "bind_address");
    let host = match (host.trim(), bind_address) {
        ("", Some(bound)) if line.option == "port" => bound.value,
        ("", _) => "0.0.0.0",
        (host, _) => host,
    };
    let host = if host.contains(':') { format!("[{host}]") } else { host.into() };
    Some(vec![Value::from(format!("{host}:{port}"))].into())
}

#[cfg(test)]
mod tests;
