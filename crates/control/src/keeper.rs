//! Whoever keeps the configuration and the files that it names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// What may wait for a disk, or for a slow hash: none of it is called where somebody else waits.
pub trait Keeper: Debug + Send + Sync + 'static {
    /// Has everything go by the configuration and its files as they are now, or if something is
    /// wrong with one of them nothing.
    fn reload(&self) -> Reloaded;

    /// The configuration that runs, as a file has it, without what is secret.
    fn config(&self) -> String;

    /// The text of the configuration file, with `***` for each secret in it.
    ///
    /// # Errors
    /// There is no such file, or it cannot be read.
    fn config_file(&self) -> Result<String, NotKept>;

    /// Whether whoever comes by the network may put another configuration.
    fn may_guests_write(&self) -> bool;

    /// The parts of a configuration.
    fn sections(&self) -> Vec<ConfigSection>;

    /// Puts another text in the place of the configuration file, and has everything go by it, or
    /// says what that would change.
    ///
    /// # Errors
    /// Nobody may, or there is no such file, or it cannot be written.
    fn put_config(&self, text: &str, how: PutConfig) -> Result<Reloaded, NotKept>;

    /// The users of the file of passwords.
    ///
    /// # Errors
    /// There is no such file, or it cannot be used.
    fn users(&self) -> Result<Vec<String>, NotKept>;

    /// Gives a user this password; without one, takes the user out. Says whether it was there.
    ///
    /// # Errors
    /// As those of [`Keeper::users`]; the name or the password cannot be one.
    fn put_user(&self, name: &str, password: Option<&str>) -> Result<bool, NotKept>;

    /// The text of the file of rights; of one user, its rules.
    ///
    /// # Errors
    /// There is no such file, or no such user in it.
    fn rights(&self, user: Option<&str>) -> Result<String, NotKept>;

    /// Puts others in their place.
    ///
    /// # Errors
    /// There is no such file, or a line is no rule.
    fn put_rights(&self, user: Option<&str>, text: &str) -> Result<(), NotKept>;

    /// Where clients come in.
    fn listeners(&self) -> Vec<ListenerPlace>;
}

/// How a configuration is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutConfig {
    /// Nothing is written and nothing changes.
    pub is_dry_run: bool,
    /// Whoever asks has come by the network.
    pub is_guest: bool,
}

/// Something that was read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reread {
    /// What.
    pub what: String,
    /// Why it cannot be used, so that everything stays as it was.
    pub error: Option<String>,
}

/// A key of the configuration that is set to something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigChange {
    /// The key, with its table.
    pub key: String,
    /// Whether it needs no restart.
    pub is_live: bool,
    /// What it was, as a file has it; nothing for tables and for secrets.
    pub from: Option<String>,
    /// What it is, or will be.
    pub to: Option<String>,
}

/// A part of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigSection {
    /// A key, or the table that keys are in. Of those that begin as a key does, the longest is
    /// about it.
    pub key: String,
    /// Whether a change of it needs no restart.
    pub is_live: bool,
    /// How it is taken up, or why it takes a restart.
    pub how: String,
}

/// What a reload has come to, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// What was read. If one of them cannot be used, nothing has changed.
    pub read: Vec<Reread>,
    /// What the configuration changes. Those that are not live were left out.
    pub changes: Vec<ConfigChange>,
}

impl Reloaded {
    /// Something cannot be used.
    pub fn failed(what: &str, error: String) -> Self {
        let read = vec![Reread { what: what.into(), error: Some(error) }];
        Self { read, changes: Vec::new() }
    }

    /// What cannot be used, if something cannot.
    pub fn fault(&self) -> Option<String> {
        let of = |one: &Reread| Some(format!("{}: {}", one.what, one.error.as_ref()?));
        let faults: Vec<_> = self.read.iter().filter_map(of).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}

/// Why a file stays as it was, with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// What is to be in it cannot be.
    Malformed(String),
    /// The configuration does not let anybody.
    Forbidden(String),
    /// There is no such thing in it.
    Unknown(String),
    /// The configuration names no such file.
    NoFile(String),
    /// The file cannot be read or written, or was written and cannot be used.
    Failed(String),
}

/// A place where clients come in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListenerPlace {
    /// Its number, which is no other's as long as the broker runs.
    pub id: u16,
    /// An address, the file of a unix socket, or the name of a socket of systemd's.
    pub address: String,
    /// What is spoken, such as `MQTT` or `WebSocket over TLS`.
    pub speaks: String,
    /// What it shows, where it speaks TLS.
    pub certificate: Option<ShownCertificate>,
}

/// A certificate of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownCertificate {
    /// Its file.
    pub file: String,
    /// Whom it is for, as RFC 4514 has it.
    pub subject: String,
    /// Whole days until it expires; below 0 it has. Nothing if that cannot be read.
    pub days_left: Option<i64>,
}
