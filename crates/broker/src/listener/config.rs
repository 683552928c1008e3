//! The `[[listener]]` tables.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weir_transport::tls::Version;

/// One `[[listener]]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerConfig {
    /// Address to listen on, `HOST:PORT`, as in `listen`.
    pub address: String,
    /// Whether clients speak WebSocket here, as those in browsers do, and nothing else.
    #[serde(default)]
    pub websocket: bool,
    /// Paths that such a client's request may name, by default `/mqtt` and `/`.
    #[serde(default = "all_paths")]
    pub paths: Vec<String>,
    /// With this table, the listener speaks TLS and nothing else, below WebSocket if it has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
}

/// The `[listener.tls]` table. SIGHUP has its files read again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// PEM file with the broker's certificate, and behind it those between it and the authority
    /// that clients trust.
    pub certificate: PathBuf,
    /// PEM file with the key of that certificate, without a passphrase.
    pub key: PathBuf,
    /// PEM file with certificates of authorities. Clients are asked for a certificate of theirs,
    /// and whoever shows another one is not let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_ca: Option<PathBuf>,
    /// Whether a client that shows no certificate is not let in. It takes `client_ca`.
    #[serde(default)]
    pub require_certificate: bool,
    /// Versions of TLS that clients may speak, by default both. There are no older ones.
    #[serde(default = "all_versions")]
    pub versions: Vec<TlsVersion>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// Of 2008.
    #[serde(rename = "1.2")]
    Tls12,
    /// Of 2018: a round trip less, and what both show of themselves is hidden.
    #[serde(rename = "1.3")]
    Tls13,
}

fn all_versions() -> Vec<TlsVersion> {
    vec![TlsVersion::Tls12, TlsVersion::Tls13]
}

fn all_paths() -> Vec<String> {
    vec!["/mqtt".into(), "/".into()]
}

impl ListenerConfig {
    /// What is wrong with it without a look at its files.
    pub(crate) fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        let is_path = |path: &String| path.starts_with('/') && !path.contains('?');
        if self.paths.is_empty() || !self.paths.iter().all(is_path) {
            let rule = "name paths that begin with / and have no ?";
            return Some(("listener.paths", format!("{:?}", self.paths), rule));
        }
        self.tls.as_ref().and_then(TlsConfig::fault)
    }
}

impl TlsConfig {
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        if self.require_certificate && self.client_ca.is_none() {
            let rule = "name the authorities of client certificates in listener.tls.client_ca";
            return Some(("listener.tls.require_certificate", "true".into(), rule));
        }
        let rule = "name \"1.3\", \"1.2\" or both";
        self.versions.is_empty().then(|| ("listener.tls.versions", "[]".into(), rule))
    }

    pub(super) fn versions(&self) -> Vec<Version> {
        let of = |version: &TlsVersion| match version {
            TlsVersion::Tls12 => Version::Tls12,
            TlsVersion::Tls13 => Version::Tls13,
        };
        self.versions.iter().map(of).collect()
    }
}
