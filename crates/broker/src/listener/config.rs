//! The `[[listener]]` tables.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use weir_transport::tls::{CipherSuite, Naming, Version};

/// One `[[listener]]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerConfig {
    /// Address to listen on, `HOST:PORT`, as in `listen`. Each table has this, `unix` or `systemd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Network device whose connections are taken, such as `eth0`, and no others. It goes with
    /// `address`, and may take the capability `CAP_NET_RAW`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_device: Option<String>,
    /// File of a unix socket to listen on, for clients of this host. One that was left by a broker
    /// that is gone is replaced; it is removed at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<PathBuf>,
    /// Permissions of that file, octal: whoever may write to it may connect.
    #[serde(default = "default_mode")]
    pub mode: String,
    /// `peer` has each client of the unix socket come in as the user that its process has in this
    /// host's `/etc/passwd`, or as the number of that user if it has no name there, whatever user
    /// name it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<PeerIdentity>,
    /// Name of a socket that systemd listens on (`FileDescriptorName` in the unit of the socket, by
    /// default the unit's name) and passes to the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub systemd: Option<String>,
    /// Whether clients speak WebSocket here, as those in browsers do, and nothing else.
    #[serde(default)]
    pub websocket: bool,
    /// Paths that such a client's request may name, by default `/mqtt` and `/`.
    #[serde(default = "all_paths")]
    pub paths: Vec<String>,
    /// Origins whose pages may connect by WebSocket, such as `https://app.example`. With none,
    /// those of every page may. Programs other than browsers say no origin, and are let in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
    /// Networks of proxies of HTTP, such as `10.0.0.0/8`. Of a WebSocket that comes from there, the
    /// client's address is the one that the headers `X-Forwarded-For` or `Forwarded` say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwarded_from: Vec<IpNet>,
    /// With this table, every connection begins with a header of the PROXY protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyConfig>,
    /// With this table, the listener speaks TLS and nothing else, below WebSocket if it has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsConfig>,
}

/// What clients of a unix socket are known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerIdentity {
    /// The user of their process.
    Peer,
}

/// The `[listener.proxy]` table: clients come by proxies or balancers that say where each one is
/// (PROXY protocol, versions 1 and 2). Bounds, rights and log go by the client's address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyConfig {
    /// Networks of the proxies, such as `10.0.0.0/8`. Whoever else connects is cut before anything
    /// is read.
    pub from: Vec<IpNet>,
    /// Whether the name in a client's certificate, which the proxy has verified, is its user (the
    /// common name in version 2).
    #[serde(default)]
    pub identity: bool,
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
    /// What in its certificate makes a client the user that it is. Such a client needs no
    /// password, has the rights of that user, and what its CONNECT says of a user is ignored; one
    /// whose certificate has no such name is not let in. By default certificates name nobody. It
    /// takes `client_ca`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<IdentityConfig>,
    /// PEM files with lists of certificates that those authorities have revoked. With one, there
    /// has to be one of each authority that has signed something of what a client shows, and once
    /// a list has expired nobody comes in whose certificate it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub crl: Vec<PathBuf>,
    /// Versions of TLS that clients may speak, by default both, or 1.3 with the compact record
    /// layer. There are no older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<Vec<TlsVersion>>,
    /// Cipher suites that clients may speak, the best first, such as `TLS13_AES_128_GCM_SHA256`. By
    /// default all that are known to be good, of which the client chooses; with the compact record
    /// layer AES-128-GCM, if the client has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ciphers: Vec<String>,
    /// What seals and opens records once the handshake is over.
    #[serde(default)]
    pub record_layer: RecordLayerConfig,
    /// `[[listener.tls.more]]` tables: certificates for clients that ask for another host than
    /// those of `certificate`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<CertificateConfig>,
}

/// What names a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdentityConfig {
    /// The common name of its subject, which has one only.
    Cn,
    /// The first DNS name, e-mail address or URI among its alternative names.
    San,
    /// All of the subject as OpenSSL and Mosquitto write it: `CN=ann,OU=Workshop,O=Example`.
    Subject,
}

/// One `[[listener.tls.more]]` table: a certificate that is shown to clients that ask for a host
/// that it names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateConfig {
    /// PEM file, as `certificate` of `[listener.tls]`.
    pub certificate: PathBuf,
    /// PEM file with the key of that certificate.
    pub key: PathBuf,
}

/// A record layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordLayerConfig {
    /// The TLS library.
    #[default]
    Rustls,
    /// Code of Weir's own, for TLS 1.3 alone: an idle connection takes 0.4 KB instead of 3.9 KB.
    /// Nobody outside has reviewed it.
    Compact,
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

fn default_mode() -> String {
    "0660".into()
}

fn all_paths() -> Vec<String> {
    vec!["/mqtt".into(), "/".into()]
}

impl ListenerConfig {
    /// Whether only those come in by it that an authority of its own vouches for.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.require_certificate)
    }

    /// Whether clients come by proxies, from wherever these are reached.
    pub(crate) fn has_proxies(&self) -> bool {
        self.proxy.is_some() || !self.forwarded_from.is_empty()
    }

    /// What is wrong with it without a look at its files.
    pub(crate) fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        let is_path = |path: &String| path.starts_with('/') && !path.contains('?');
        if self.paths.is_empty() || !self.paths.iter().all(is_path) {
            let rule = "name paths that begin with / and have no ?";
            return Some(("listener.paths", format!("{:?}", self.paths), rule));
        }
        let is_origin = |origin: &String| {
            origin
                .split_once("://")
                .is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'))
        };
        if let Some(origin) = self.origins.iter().find(|origin| !is_origin(origin)) {
            let rule = "name origins as browsers do, such as https://app.example, without a path";
            return Some(("listener.origins", origin.clone(), rule));
        }
        let needs_websocket = [
            ("listener.origins", !self.origins.is_empty()),
            ("listener.forwarded_from", !self.forwarded_from.is_empty()),
        ];
        if let Some((key, _)) = needs_websocket.into_iter().find(|&(_, is_set)| is_set)
            && !self.websocket
        {
            return Some((key, "set".into(), "it is for listeners with websocket = true"));
        }
        if let Some(ProxyConfig { from, .. }) = &self.proxy
            && from.is_empty()
        {
            return Some(("listener.proxy.from", "[]".into(), "name the networks of the proxies"));
        }
        self.place_fault().or_else(|| self.tls.as_ref().and_then(TlsConfig::fault))
    }

    /// What is wrong with where it listens.
    fn place_fault(&self) -> Option<(&'static str, String, &'static str)> {
        let (unix, places) = (self.unix.as_ref(), [self.address.is_some(), self.unix.is_some()]);
        if places.into_iter().chain([self.systemd.is_some()]).filter(|&is_set| is_set).count() != 1
        {
            let rule = "each [[listener]] has one of address, unix and systemd";
            return Some(("listener", "a table".into(), rule));
        }
        if let Some(path) = unix
            && !(1..=107).contains(&path.as_os_str().len())
        {
            let rule = "it must be a path of 1 to 107 bytes";
            return Some(("listener.unix", path.display().to_string(), rule));
        }
        if self.mode().is_none() {
            let rule = "it must be permissions of a file, such as 0660";
            return Some(("listener.mode", self.mode.clone(), rule));
        }
        if self.identity.is_some() && unix.is_none() {
            let rule = "it is for listeners with unix: others know no users of this host";
            return Some(("listener.identity", "peer".into(), rule));
        }
        if unix.is_some() && self.proxy.is_some() {
            let rule = "it goes by the addresses of proxies, which a unix socket has not";
            return Some(("listener.proxy", "set".into(), rule));
        }
        match &self.bind_device {
            Some(device) if self.address.is_none() || !(1..=15).contains(&device.len()) => {
                let rule = "it must be the name of a device, 1 to 15 bytes, and goes with address";
                Some(("listener.bind_device", device.clone(), rule))
            }
            _ => None,
        }
    }

    /// What it is called where something is wrong with it.
    pub(crate) fn name(&self) -> String {
        let unix = self.unix.as_ref().map(|path| path.display().to_string());
        self.address.clone().or(unix).or(self.systemd.clone()).unwrap_or_default()
    }

    /// Permissions of the file of a unix socket.
    pub(super) fn mode(&self) -> Option<u32> {
        u32::from_str_radix(&self.mode, 8).ok().filter(|mode| *mode <= 0o777)
    }
}

impl TlsConfig {
    fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        if self.require_certificate && self.client_ca.is_none() {
            let rule = "name the authorities of client certificates in listener.tls.client_ca";
            return Some(("listener.tls.require_certificate", "true".into(), rule));
        }
        if self.identity.is_some() && self.client_ca.is_none() {
            let rule = "name the authorities of client certificates in listener.tls.client_ca";
            return Some(("listener.tls.identity", format!("{:?}", self.identity), rule));
        }
        if !self.crl.is_empty() && self.client_ca.is_none() {
            let rule = "name the authorities whose lists they are in listener.tls.client_ca";
            return Some(("listener.tls.crl", format!("{:?}", self.crl), rule));
        }
        let versions = self.versions();
        if versions.is_empty() {
            let rule = "name \"1.3\", \"1.2\" or both";
            return Some(("listener.tls.versions", "[]".into(), rule));
        }
        let is_compact = self.record_layer == RecordLayerConfig::Compact;
        if is_compact && versions.contains(&Version::Tls12) {
            let rule = "the compact record layer is for \"1.3\" alone";
            return Some(("listener.tls.versions", "with \"1.2\"".into(), rule));
        }
        if let Some(name) = self.ciphers.iter().find(|name| CipherSuite::named(name).is_none()) {
            let rule = "docs/broker.md#tls has the cipher suites that there are";
            return Some(("listener.tls.ciphers", format!("{name:?}"), rule));
        }
        let is_spoken = |suite: &CipherSuite| versions.contains(&suite.version());
        if !self.ciphers.is_empty() && !self.suites().iter().any(is_spoken) {
            let rule = "name one of a version in listener.tls.versions";
            return Some(("listener.tls.ciphers", format!("{:?}", self.ciphers), rule));
        }
        None
    }

    pub(super) fn versions(&self) -> Vec<Version> {
        let of = |version: &TlsVersion| match version {
            TlsVersion::Tls12 => Version::Tls12,
            TlsVersion::Tls13 => Version::Tls13,
        };
        match (&self.versions, self.record_layer) {
            (Some(versions), _) => versions.iter().map(of).collect(),
            (None, RecordLayerConfig::Rustls) => vec![Version::Tls12, Version::Tls13],
            (None, RecordLayerConfig::Compact) => vec![Version::Tls13],
        }
    }

    pub(super) fn naming(&self) -> Option<Naming> {
        self.identity.map(|identity| match identity {
            IdentityConfig::Cn => Naming::CommonName,
            IdentityConfig::San => Naming::AlternativeName,
            IdentityConfig::Subject => Naming::Subject,
        })
    }

    pub(super) fn suites(&self) -> Vec<CipherSuite> {
        self.ciphers.iter().filter_map(|name| CipherSuite::named(name)).collect()
    }

    /// The files of its certificates, that for everybody first.
    pub(super) fn certificates(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let more = self.more.iter().map(|it| (&*it.certificate, &*it.key));
        std::iter::once((&*self.certificate, &*self.key)).chain(more)
    }
}
