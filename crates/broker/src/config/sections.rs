//! Which parts of a configuration a running broker takes up when it reads the file again, and which
//! need a restart: one table, for the reload, for `weir broker --check` and for docs/broker.md.

use super::Config;
use std::collections::BTreeMap;
use std::fmt;
use toml::{Table, Value};

/// A part of the configuration: a key, or all keys below one.
#[derive(Debug)]
pub struct Section {
    /// The key, with its table.
    pub key: &'static str,
    /// Whether a reload takes it up.
    pub is_live: bool,
    /// What goes by it then, or why it takes a restart.
    pub how: &'static str,
    /// Nobody is shown what it is set to.
    is_secret: bool,
}

/// Every part. Of those that begin as a key does, the longest is about it.
pub const SECTIONS: &[Section] = &[
    live(
        "listen",
        "Added addresses are bound before anything else changes: one that is taken \
        changes nothing. A removed one accepts nobody any more, and after 10 s its connections end \
        with DISCONNECT 0x98.",
    ),
    live(
        "listener",
        "As `listen`. New connections go by other certificates, proxies and paths; \
        those there are keep what they have, unless their own certificates count no more.",
    ),
    restart("shards", "Each thread has a part of the sessions, and of the store."),
    live("latency_budget_ms", "At once."),
    live("rest_us", "At once."),
    restart("io", "Connections are in what holds them."),
    live("log", "At once, unless an option or `WEIR_LOG` says the level."),
    live(
        "limits",
        "New connections, new sessions and new messages. What is there already stays, also \
        over a bound. Of `packet_bytes_max`, `receive_maximum` and `topic_alias_maximum`, clients \
        that connect are told the new value, and the highest that any was told is held. \
         A longer packet than files of the store have room for takes a restart.",
    ),
    live(
        "process",
        "New connections. Who is counted is counted on. `memory_bytes_max` holds at once.",
    ),
    restart("features", "Clients were told of them when they connected, and hold them for true."),
    restart("store", "The logs on disk are open, and written by these settings."),
    live(
        "auth",
        "New connections, and rights at once. Clients whose user is gone or has another \
        password end, and those without a user name if these are not let in any more.",
    ),
    secret("auth.users", "As `auth`."),
    live(
        "auth.jwt",
        "New connections; who waits for an answer gets it by the old one. Clients that came by a \
        token end, unless no more has changed than `refresh_s`, `ca_file` and what files say.",
    ),
    live(
        "auth.http",
        "New connections; who waits for an answer gets that of the old service. Clients that a \
        service let in end if there is none now, or `url`, `superuser_url` or `form` is another.",
    ),
    live("share", "Groups whose first member subscribes from now on."),
    live("flow", "At once. Counters and throttles of the rules begin anew."),
    live(
        "bridge",
        "One that is the same stays connected. Another one of the same name connects anew, with \
        the queue that there is. The queue of one that is gone stays if messages wait in it, and \
        the log says how many.",
    ),
    restart("kafka", "Each has a thread, and connections to the brokers of its cluster."),
    restart("cluster", "The node has its place, and the others know its shards."),
    live("sys", "At once. Figures that are not published any more are taken back."),
    restart("control", "It is served already, and maybe to whoever asks for the reload."),
    secret("control.token", "The next request."),
    live("control.may_write_config", "The next request."),
];

const fn live(key: &'static str, how: &'static str) -> Section {
    Section { key, is_live: true, how, is_secret: false }
}

const fn secret(key: &'static str, how: &'static str) -> Section {
    Section { key, is_live: true, how, is_secret: true }
}

const fn restart(key: &'static str, how: &'static str) -> Section {
    Section { key, is_live: false, how, is_secret: false }
}

/// Keys whose values nobody is shown, beside those of secret sections.
const SECRETS: &[&str] = &["headers", "password", "sha256"];

/// Keys of addresses, which may have a password or a token in them.
const ADDRESSES: &[&str] = &["url", "superuser_url", "jwks"];

/// What is printed in the place of a secret, and no value of one.
pub(super) const HIDDEN: &str = "***";

/// What a key is set to, once and now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: String,
    pub(crate) is_live: bool,
    /// As in the file; nothing for tables, for secrets, and where it is not set.
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, from, to, .. } = self;
        match (from, to) {
            (Some(from), Some(to)) => write!(out, "{key} = {to} (was {from})"),
            (None, Some(to)) => write!(out, "{key} = {to}"),
            _ => write!(out, "{key}"),
        }
    }
}

/// What a reload is to do.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What is to run: the new configuration, but for what takes a restart.
    pub(crate) config: Config,
    pub(crate) changes: Vec<Change>,
}

impl Section {
    /// The one that a key is in.
    pub fn of(key: &str) -> Option<&'static Self> {
        let is_below = |section: &&Self| {
            let rest = key.strip_prefix(section.key);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        SECTIONS.iter().filter(is_below).max_by_key(|section| section.key.len())
    }

    /// A line for each, as remarks of a configuration file.
    pub fn remarks() -> String {
        let mut text = String::from("# What weir ctl reload, and SIGHUP, do with each part:\n");
        for Section { key, is_live, .. } in SECTIONS {
            let takes = if *is_live { "live" } else { "restart" };
            text += &format!("# {takes:8} {key}\n");
        }
        text
    }
}

impl Plan {
    /// From what runs to what the file says. Nothing is read for it, and nothing done.
    pub(crate) fn new(old: &Config, new: Config) -> Self {
        let (old_table, mut table) = (table_of(old), table_of(&new));
        let (from, to) = (leaves(&old_table), leaves(&table));
        let mut changes = Vec::new();
        let keys: std::collections::BTreeSet<&String> = from.keys().chain(to.keys()).collect();
        for &key in &keys {
            let (from, to) = (from.get(key), to.get(key));
            if from == to {
                continue;
            }
            let section = Section::of(key);
            let is_live =
                section.is_some_and(|section| section.is_live) && !is_stuck(key, old, &new);
            let is_shown = section.is_some_and(|section| !section.is_secret) && !is_secret(key);
            let shown = |value: Option<&&Value>| {
                let value = value.filter(|value| is_shown && !is_long(value))?;
                Some(value.to_string())
            };
            let (key, from, to) = (key.clone(), shown(from), shown(to));
            changes.push(Change { key, is_live, from, to });
        }
        let wanted = table.clone();
        for change in changes.iter().filter(|change| !change.is_live) {
            let section = Section::of(&change.key).filter(|section| !section.is_live);
            let path = section.map_or(&*change.key, |section| section.key);
            copy(&old_table, &mut table, path);
            // What is live in it came along.
            let is_within =
                |key: &str| key.strip_prefix(path).is_some_and(|it| it.starts_with('.'));
            let within =
                SECTIONS.iter().filter(|section| section.is_live && is_within(section.key));
            within.for_each(|section| copy(&wanted, &mut table, section.key));
        }
        // Both are configurations, and so is one with parts of each.
        let config = Value::Table(table).try_into().unwrap_or(new);
        Self { config, changes }
    }
}

/// Whether a key that is live in general takes a restart here: the files of the log have no room
/// for longer packets.
fn is_stuck(key: &str, old: &Config, new: &Config) -> bool {
    key == "limits.packet_bytes_max"
        && old.store.folder().is_some()
        && !old.store.has_room_for(old.limits.packet_bytes_max, new.limits.packet_bytes_max)
}

fn table_of(config: &Config) -> Table {
    // It was read from one.
    Table::try_from(config).unwrap_or_default()
}

/// What is set, by its key. A list of tables is one value.
fn leaves(table: &Table) -> BTreeMap<String, &Value> {
    let mut all = BTreeMap::new();
    let mut left: Vec<(String, &Table)> = vec![(String::new(), table)];
    while let Some((path, table)) = left.pop() {
        for (key, value) in table {
            let key = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            match value {
                Value::Table(table) => left.push((key, table)),
                _ => _ = all.insert(key, value),
            }
        }
    }
    all
}

fn is_long(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(Value::is_table) || items.len() > 8,
        Value::String(text) => text.len() > 256,
        _ => false,
    }
}

fn is_secret(key: &str) -> bool {
    key.split('.').any(|word| SECRETS.contains(&word) || ADDRESSES.contains(&word))
}

/// Whether nobody is shown what a key is set to: this text, if it is one.
pub(super) fn is_hidden(key: &str, text: Option<&str>) -> bool {
    let has = |words: &[&str]| key.split('.').any(|word| words.contains(&word));
    let is_plain = |text: &str| text != HIDDEN && text == without_secrets(text);
    key.starts_with("auth.users.")
        || has(SECRETS)
        || (has(ADDRESSES) && !text.is_some_and(is_plain))
}

/// Sets what is at a key to what it is in another table, or takes it out.
fn copy(from: &Table, to: &mut Table, path: &str) {
    let Some((first, rest)) = path.split_once('.') else {
        match from.get(path) {
            Some(value) => _ = to.insert(path.into(), value.clone()),
            None => _ = to.remove(path),
        }
        return;
    };
    let empty = Table::new();
    let from = from.get(first).and_then(Value::as_table).unwrap_or(&empty);
    let entry = to.entry(first.to_owned()).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(to) = entry {
        copy(from, to, rest);
    }
}

/// A configuration as a file has it, without what is secret.
pub(crate) fn shown(config: &Config) -> String {
    shown_table(table_of(config))
}

/// The same of what a configuration is made of.
pub(super) fn shown_table(mut table: Table) -> String {
    hide(&mut table, "");
    // Tables and texts can always be written.
    toml::to_string(&table).unwrap_or_default()
}

fn hide(table: &mut Table, path: &str) {
    for (key, value) in table.iter_mut() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let is_hidden = SECRETS.contains(&&**key) || path == "auth.users";
        hide_value(value, &path, is_hidden, ADDRESSES.contains(&&**key));
    }
}

fn hide_value(value: &mut Value, path: &str, is_hidden: bool, is_address: bool) {
    match value {
        Value::Table(table) if is_hidden => {
            table.iter_mut().for_each(|(_, value)| *value = HIDDEN.into());
        }
        Value::Table(table) => hide(table, path),
        Value::Array(items) => {
            for item in items.iter_mut().filter_map(Value::as_table_mut) {
                hide(item, path);
            }
        }
        Value::String(text) if is_hidden => *text = HIDDEN.into(),
        Value::String(text) if is_address => *text = without_secrets(text),
        _ => {}
    }
}

/// An address without user, password and query. Who has not encoded a password may have any letter
/// in it: what could be one is left out.
fn without_secrets(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        return address.split(['?', '#']).next().unwrap_or_default().to_owned();
    };
    let (plain, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    match plain.rsplit_once('@') {
        Some((_, place)) => format!("{scheme}://{place}"),
        None if query.contains('@') => format!("{scheme}://{HIDDEN}"),
        None => format!("{scheme}://{plain}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn every_key_of_the_configuration_is_in_a_section() {
        for key in leaves(&table_of(&Config::default())).keys() {
            assert!(Section::of(key).is_some(), "{key} has no section");
        }
        let is_used = |section: &Section| {
            let table = section.key.split('.').next().unwrap();
            let text = include_str!("../config.rs");
            text.contains(&format!("pub {table}: "))
        };
        assert!(SECTIONS.iter().all(is_used));
        assert!(Section::of("limitsx").is_none());
        assert_eq!(Section::of("auth.jwt.leeway_s").unwrap().key, "auth.jwt");
    }

    #[test]
    fn what_takes_a_restart_stays_and_the_rest_is_new() {
        let old = config("shards = 2\n[limits]\nqueue_messages_max = 5\n[auth.users]\na = \"x\"\n");
        let new = config(
            "shards = 4\n[limits]\nqueue_messages_max = 7\nclient_share_percent = 50\n\
             [auth.http]\nurl = \"http://u:p@h/\"\n[auth.users]\na = \"y\"\n[store]\ngap_ms = 9\n",
        );
        let Plan { config: plan, changes } = Plan::new(&old, new);
        assert_eq!((plan.shards, plan.limits.queue_messages_max), (2, 7));
        assert_eq!(plan.limits.client_share_percent, 50);
        assert_eq!((plan.auth.http.unwrap().pool, &*plan.auth.users["a"]), (64, "y"));
        assert_eq!(plan.store, old.store);
        let token = "[[control.token]]\nname = \"n\"\nrole = \"admin\"\nsha256 = \"ab\"\n";
        let served = config(&format!("[control]\nhttp = [\"127.0.0.1:1\"]\n{token}"));
        let Plan { config: without, .. } = Plan::new(&served, Config::default());
        assert_eq!((&without.control.http, without.control.token.len()), (&served.control.http, 0));
        let shown = |is_live| {
            let of = changes.iter().filter(move |change| change.is_live == is_live);
            of.map(ToString::to_string).collect::<Vec<_>>()
        };
        for live in ["auth.users.a", "auth.http.url", "limits.queue_messages_max = 7 (was 5)"] {
            assert!(shown(true).contains(&live.to_owned()), "{live}: {:?}", shown(true));
        }
        let restart = shown(false);
        assert!(restart.contains(&"shards = 4 (was 2)".to_owned()), "{restart:?}");
        assert!(restart.contains(&"store.gap_ms = 9 (was 1)".to_owned()), "{restart:?}");
    }

    #[test]
    fn an_address_is_shown_without_what_may_be_a_password() {
        for (address, shown) in [
            ("http://h:1/p", "http://h:1/p"),
            ("http://me:pass@h:1/p?k=key#x", "http://h:1/p"),
            ("http://me:pa/ss@h:1/p", "http://h:1/p"),
            ("http://me:pa@ss@h", "http://h"),
            ("http://me:pa?ss@h:1/p", "http://***"),
            ("http://me:pa#ss@h:1/p?k=key", "http://***"),
            ("/etc/keys?k=key", "/etc/keys"),
        ] {
            assert_eq!(without_secrets(address), shown, "{address}");
        }
    }

    #[test]
    fn what_is_shown_has_no_secrets() {
        let text = shown(&config(
            "[auth.users]\nann = \"verifier\"\n[auth.http]\nurl = \"http://me:pass@h:1/p?k=key\"\n\
             [auth.http.headers]\nAuthorization = \"Bearer t\"\n\
             [[control.token]]\nname = \"n\"\nrole = \"admin\"\nsha256 = \"abcd\"\n\
             [[bridge]]\nname = \"up\"\naddresses = [\"mqtt://h\"]\npassword = \"hush\"\n\
             topics = [{ pattern = \"#\" }]\n",
        ));
        for secret in ["verifier", "me:pass", "k=key", "Bearer", "abcd", "hush"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
        assert!(text.contains("http://h:1/p") && text.contains("ann = \"***\""), "{text}");
    }
}
