//! A mosquitto.conf, in Weir's own words.
//!
//! `weir broker --mosquitto` runs it, `weir import mosquitto` prints it, and a file that was given
//! as Weir's own is recognised. The table of options is also in docs/broker.md, which is made of
//! it.

mod bridges;
mod lines;
mod listeners;
mod options;

pub use options::{OPTIONS, Options};

use super::sections::shown_table;
use super::{Config, ConfigError};
use bridges::Bridge;
use lines::Line;
use listeners::{Block, HalfPair};
use options::Scope;
use std::fmt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A file of Mosquitto's, in Weir's words.
#[derive(Debug)]
pub struct MosquittoFile {
    path: PathBuf,
    /// What Weir has of it.
    config: Table,
    notes: Vec<MosquittoNote>,
    /// File of its log, if that is one.
    log_file: Option<PathBuf>,
}

/// What is to be said of some lines.
#[derive(Debug)]
pub struct MosquittoNote {
    /// What is different, or missing.
    text: &'static str,
    /// Each option with its place.
    lines: Vec<String>,
    /// Whether clients would come in, or do what they may not, without these lines.
    is_guard: bool,
    /// Whether the broker does what the lines are for, or nobody misses it.
    is_harmless: bool,
}

const UNKNOWN: &str = "not an option that Weir knows of";
const NO_VALUE: &str = "the value is not one that Mosquitto takes";
const NO_LISTENER: &str = "it is about a listener, and stands before all of them";
const NO_BRIDGE: &str = "it is about a bridge, and stands before any `connection`";
const HALF_PAIR: &str = "it has certfile or keyfile, and TLS needs both";
const SEVERAL: &str = "the listeners differ in it, or it counts for each of them by itself: Weir \
                       has one setting for all";
const ANONYMOUS: &str = "Mosquitto 2 lets nobody in anonymously if its file has a listener and \
                         does not say allow_anonymous true, so this does not either";
/// What Mosquitto takes `sys_interval` for where no line says it.
const SYS_INTERVAL_S: i64 = 10;

const STORE: &str = "sessions and retained messages begin empty; `weir store import \
                     mosquitto.db --to DIR` brings them along";

impl MosquittoFile {
    /// Whether a text is one: nothing in it is TOML, and most lines are options of Mosquitto's.
    pub(super) fn is_like(text: &str) -> bool {
        let lines = lines::of_text(text);
        let known = lines.iter().filter(|line| row(&line.option).is_some()).count();
        let has_toml = lines.iter().any(|line| {
            line.option.starts_with('[') || line.option.contains('=') || line.value.starts_with('=')
        });
        !has_toml && known > 0 && 2 * known >= lines.len()
    }

    /// Reads it, and the files that it includes.
    ///
    /// # Errors
    /// A file or folder that cannot be read.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        Ok(Self::translate(path, &lines::read(path)?))
    }

    /// What Weir has of it, checked as a file of its own.
    ///
    /// # Errors
    /// A line without which more would be let in than the file allows, or a value that cannot be
    /// used.
    pub fn config(&self) -> Result<Config, ConfigError> {
        let guards: Vec<_> = self.notes.iter().filter(|note| note.is_guard).collect();
        if !guards.is_empty() {
            let notes = guards.iter().map(|note| format!("\n  {note}")).collect();
            return Err(ConfigError::MosquittoGuards { path: self.path.clone(), notes });
        }
        let text = toml::to_string(&self.config).unwrap_or_default();
        Config::parse(&self.path, &text)
    }

    /// What is to be said of lines that are not taken, or not quite.
    pub fn notes(&self) -> &[MosquittoNote] {
        &self.notes
    }

    /// The file that its log goes to, if that is one.
    pub fn log_file(&self) -> Option<&Path> {
        self.log_file.as_deref()
    }

    fn translate(path: &Path, lines: &[Line]) -> Self {
        let (config, notes, log_file) = (Table::new(), Vec::new(), None);
        let mut file = Self { path: path.into(), config, notes, log_file };
        let (blocks, block_of) = listeners::blocks(lines);
        let is_per_listener = blocks.iter().any(|block| block.is_true("per_listener_settings"));
        blocks.iter().for_each(|block| file.take_listener(block));
        let (bridges, is_behind) = bridges::blocks(lines);
        bridges.iter().for_each(|bridge| file.take_bridge(bridge));
        for ((line, of), is_behind) in lines.iter().zip(block_of).zip(is_behind) {
            match row(&line.option) {
                None => file.note(UNKNOWN, true, line),
                Some(row) if row.of == Scope::Bridge => {
                    if !is_behind {
                        file.note(NO_BRIDGE, false, line);
                    }
                }
                Some(row) => file.take(row, line, &blocks[of], &blocks, is_per_listener),
            }
        }
        file.settle(&blocks);
        file
    }

    /// One more table, with what the lines of this listener say of it alone.
    fn take_listener(&mut self, block: &Block<'_>) {
        let Some(opened_by) = block.opened_by else { return };
        let Some((key, place)) = block.place() else {
            return self.note(NO_VALUE, true, opened_by);
        };
        let mut listener = Table::new();
        for line in &block.lines {
            let Some(row) = row(&line.option) else { continue };
            let Some(key) = row.key.and_then(|key| key.strip_prefix("listener.")) else { continue };
            match (row.value)(&line.value) {
                // `use_identity_as_username false` takes back what it has said, and no more.
                Some(_) if key == "tls.identity" && !block.is_true(&line.option) => {}
                Some(value) => set(&mut listener, key, value),
                None if row.note.is_empty() => self.note(NO_VALUE, true, line),
                None => self.note(row.note, row.is_guard, line),
            }
        }
        if let Err(HalfPair) = listeners::settle(&mut listener) {
            self.note(HALF_PAIR, true, opened_by);
        }
        // An address alone needs no table.
        if key == "address" && listener.is_empty() {
            return set(&mut self.config, "listen", vec![Value::from(place)].into());
        }
        listener.insert(key.into(), place.into());
        set(&mut self.config, "listener", vec![Value::from(listener)].into());
    }

    /// One more bridge, with what its lines say of it.
    fn take_bridge(&mut self, of: &Bridge<'_>) {
        let mut bridge = Table::new();
        for line in &of.lines {
            let row = row(&line.option).filter(|row| row.of == Scope::Bridge);
            let Some(key) = row.and_then(|row| row.key?.strip_prefix("bridge.")) else { continue };
            let taken = row.and_then(|row| (row.value)(&line.value));
            match taken {
                Some(value) => set(&mut bridge, key, value),
                // They say something together.
                None if ["retry_ms_min", "notifications"].contains(&key) => {}
                None => self.note(NO_VALUE, false, line),
            }
        }
        match of.settle(&mut bridge) {
            Ok(()) => set(&mut self.config, "bridge", vec![Value::from(bridge)].into()),
            Err(why) => self.note(why, false, of.opened_by),
        }
    }

    /// A line that is not about its listener alone.
    fn take(
        &mut self,
        row: &'static Options,
        line: &Line,
        block: &Block<'_>,
        blocks: &[Block<'_>],
        is_per_listener: bool,
    ) {
        if row.key.is_some_and(|key| key.starts_with("listener.")) {
            let opens = ["listener", "port"].contains(&line.option.as_str());
            if block.opened_by.is_none() && !opens {
                self.note(NO_LISTENER, false, line);
            }
            return;
        }
        let is_of_one = match row.of {
            Scope::Broker | Scope::Bridge => false,
            Scope::Listener => true,
            Scope::Access => is_per_listener,
        };
        let is_before_all = block.opened_by.is_none() && blocks.len() > 1;
        if is_of_one && (is_before_all || !is_same_everywhere(row, line, blocks)) {
            return self.note(SEVERAL, row.is_guard, line);
        }
        let is_harmless = match (row.key, (row.value)(&line.value)) {
            (Some(key), Some(value)) => {
                set(&mut self.config, key, value);
                true
            }
            (Some(_), None) if row.note.is_empty() => {
                return self.note(NO_VALUE, row.is_guard, line);
            }
            _ => row.is_harmless,
        };
        if !row.note.is_empty() {
            self.remark(row.note, (row.is_guard && row.key.is_none(), is_harmless), line);
        }
    }

    /// What lines say together.
    fn settle(&mut self, blocks: &[Block<'_>]) {
        let value = |option| blocks.iter().rev().find_map(|block| block.value(option));
        let is_listening = blocks.iter().any(|block| block.opened_by.is_some());
        if is_listening && value("allow_anonymous").is_none() {
            set(&mut self.config, "auth.allow_anonymous", false.into());
            self.notes.push(MosquittoNote::of_file(ANONYMOUS, true));
        }
        if value("sys_interval").is_none() {
            set(&mut self.config, "sys.interval_s", SYS_INTERVAL_S.into());
        }
        if value("persistence") != Some("true") {
            self.config.remove("store");
        } else {
            self.settle_store();
        }
        let file = value("log_dest").and_then(|dest| dest.strip_prefix("file "));
        self.log_file = file.map(|file| file.trim().into());
    }

    /// Bounds of queues count on the disk as well, and what Mosquitto has kept comes by a command:
    /// that is said until there is a store.
    fn settle_store(&mut self) {
        let limits = self.config.get("limits").and_then(Value::as_table).cloned();
        let Some(Value::Table(store)) = self.config.get_mut("store") else { return };
        for key in ["queue_messages_max", "queue_bytes_max"] {
            if let Some(value) = limits.as_ref().and_then(|limits| limits.get(key)) {
                store.insert(key.into(), value.clone());
            }
        }
        let path = store.get("path").and_then(Value::as_str);
        if !path.is_some_and(|path| crate::journal::is_store(Path::new(path))) {
            self.notes.push(MosquittoNote::of_file(STORE, false));
        }
    }

    /// Whether lines that guard the broker are not taken: it would let more in without them.
    pub fn lacks_guards(&self) -> bool {
        self.notes.iter().any(|note| note.is_guard)
    }

    fn note(&mut self, text: &'static str, is_guard: bool, line: &Line) {
        self.remark(text, (is_guard, false), line);
    }

    fn remark(&mut self, text: &'static str, (is_guard, is_harmless): (bool, bool), line: &Line) {
        let same = |note: &&mut MosquittoNote| {
            (note.text, note.is_guard, note.is_harmless) == (text, is_guard, is_harmless)
        };
        match self.notes.iter_mut().find(same) {
            Some(note) => note.lines.push(line.to_string()),
            None => {
                let lines = vec![line.to_string()];
                self.notes.push(MosquittoNote { text, lines, is_guard, is_harmless });
            }
        }
    }
}

/// Whether the listeners, of which Weir has one setting, all say the same.
fn is_same_everywhere(row: &Options, line: &Line, blocks: &[Block<'_>]) -> bool {
    let mut of_listeners = blocks.iter().filter(|block| block.opened_by.is_some());
    let is_one = of_listeners.clone().nth(1).is_none();
    // A number of connections is of each.
    let adds_up = row.key == Some("process.connections_max");
    let value = Some(line.value.as_str());
    is_one || !adds_up && of_listeners.all(|block| block.value(&line.option) == value)
}

/// A key that stands there already gets the new value; a list gets one more.
fn set(table: &mut Table, key: &str, value: Value) {
    if let Some((first, rest)) = key.split_once('.') {
        let inner = table.entry(first).or_insert_with(|| Table::new().into());
        return set(inner.as_table_mut().expect("only tables have keys with a dot"), rest, value);
    }
    match (table.get_mut(key), value) {
        (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
        (_, value) => {
            table.insert(key.into(), value);
        }
    }
}

fn row(option: &str) -> Option<&'static Options> {
    OPTIONS.iter().find(|row| row.names.iter().any(|name| is_called(option, name)))
}

fn is_called(option: &str, name: &str) -> bool {
    name.strip_suffix('*').map_or(option == name, |start| option.starts_with(start))
}

/// A file of Weir's own, with what it does not say as comments. For people: passwords are `***`.
impl fmt::Display for MosquittoFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &shown_table(self.config.clone()))
    }
}

/// The same with its passwords.
struct Whole<'a>(&'a MosquittoFile);

impl fmt::Display for Whole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, &toml::to_string(&self.0.config).map_err(|_| fmt::Error)?)
    }
}

impl MosquittoFile {
    /// Whether it has passwords, which nobody is shown.
    pub fn has_secrets(&self) -> bool {
        self.to_string() != self.whole()
    }

    /// As it is shown, with its passwords: for a file that only its owner may read.
    pub fn whole(&self) -> String {
        Whole(self).to_string()
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, config: &str) -> fmt::Result {
        writeln!(f, "# Made of {}.", self.path.display())?;
        if self.lacks_guards() {
            // No key of Weir's: a broker does not start with it.
            writeln!(
                f,
                "\n# The broker would let more in than Mosquitto does: see the end. Once you have"
            )?;
            writeln!(f, "# dealt with that, take this line out.\nis_unguarded = true")?;
        }
        if !self.config.is_empty() {
            writeln!(f, "\n{}", config.trim_end())?;
        }
        let (guards, others): (Vec<_>, Vec<_>) = self.notes.iter().partition(|it| it.is_guard);
        let groups = [
            (guards, "These guard the broker, and are not taken: without them it lets more in"),
            (others, "Not taken, or different"),
        ];
        for (notes, title) in groups.into_iter().filter(|(notes, _)| !notes.is_empty()) {
            writeln!(f, "\n# {title}:")?;
            for note in notes {
                if !note.lines.is_empty() {
                    writeln!(f, "#   {}", note.lines())?;
                }
                writeln!(f, "#       {}", note.text)?;
            }
        }
        Ok(())
    }
}

/// More lines of one kind than this are counted only.
const LINES_SHOWN_MAX: usize = 5;

impl MosquittoNote {
    /// Of what the file says or does not say as a whole.
    const fn of_file(text: &'static str, is_harmless: bool) -> Self {
        Self { text, lines: Vec::new(), is_guard: false, is_harmless }
    }

    /// Writes it to the log: a warning, unless the broker does what the lines are for.
    pub fn log(&self) {
        if self.is_harmless {
            tracing::info!("{self}");
        } else {
            tracing::warn!("{self}");
        }
    }

    fn lines(&self) -> String {
        let mut shown = self.lines.iter().take(LINES_SHOWN_MAX).cloned().collect::<Vec<_>>();
        if let more @ 1.. = self.lines.len().saturating_sub(LINES_SHOWN_MAX) {
            shown.push(format!("and {more} more"));
        }
        shown.join(", ")
    }
}

impl fmt::Display for MosquittoNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.lines[..] {
            [] => write!(f, "{}", self.text),
            _ => write!(f, "{}: {}", self.lines(), self.text),
        }
    }
}

#[cfg(test)]
mod tests;
