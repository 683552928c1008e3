//! What is spoken by a listener, and who may come. A reload makes another one of it.

mod dates;

use super::config::{ListenerConfig, ProxyConfig, RecordLayerConfig, TlsConfig};
use super::users::Users;
use crate::admission::Carrier;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use weir_control::ShownCertificate;
use weir_transport::tls::{
    Certificates, Certified, ClientAuth, Identity, PemError, PrivateKey, RecordLayer, Revoked,
    Server, Setup, SetupError, Shown,
};
use weir_transport::{Layers, Recipe, proxy, ws};

/// What is wrong with a file of `[listener.tls]`.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct TlsFault {
    /// The file.
    file: PathBuf,
    /// What is wrong with it.
    why: String,
}

impl TlsFault {
    fn new(file: &Path, why: &impl ToString) -> Self {
        Self { file: file.into(), why: why.to_string() }
    }
}

/// The layers of those who come in by a listener, with the certificates as they were when it was
/// made. Connections keep what they have.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    tls: Option<Tls>,
    /// Of WebSocket, if that is spoken.
    rules: Option<Arc<ws::Rules>>,
    proxy: Option<ProxyConfig>,
    /// Of this host, if clients are known by them.
    users: Option<Arc<Users>>,
}

/// Who is at the other end of a connection's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Front {
    /// Its client.
    Client,
    /// Somebody who says where the client is.
    Proxy,
    /// Somebody who may not connect.
    Stranger,
}

#[derive(Clone, Debug)]
struct Tls {
    /// The file of the certificate that everybody is shown.
    certificate: PathBuf,
    /// Whom that is for.
    subject: String,
    /// When it expires.
    end: Option<Duration>,
    server: Server,
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

impl Door {
    /// With what is in the files now; nothing for a listener of plain TCP. What is odd about the
    /// files goes to `warnings`, a line each.
    pub(crate) fn open(
        config: &ListenerConfig,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, TlsFault> {
        let protocol = if config.websocket { "http/1.1" } else { "mqtt" };
        let tls = match &config.tls {
            None => None,
            Some(config) => Some(read(config, protocol, warnings)?),
        };
        let rules = || {
            let ListenerConfig { paths, origins, forwarded_from, .. } = config.clone();
            Arc::new(ws::Rules { paths, origins, forwarded_from })
        };
        let (rules, proxy) = (config.websocket.then(rules), config.proxy.clone());
        let users = config.identity.map(|_| Arc::new(Users::read()));
        let door = Self { tls, rules, proxy, users };
        Ok((door.has_layers() || door.users.is_some()).then_some(door))
    }

    /// The same, whose handshakes are counted on with those of the door that it replaces.
    pub(crate) fn following(self: Arc<Self>, before: &Self) -> Arc<Self> {
        let (Some(tls), Some(old)) = (&self.tls, &before.tls) else { return self };
        let server = tls.server.clone().following(&old.server);
        Arc::new(Self { tls: Some(Tls { server, ..tls.clone() }), ..Self::clone(&self) })
    }

    /// Whether there is something between socket and MQTT.
    pub(crate) fn has_layers(&self) -> bool {
        self.tls.is_some() || self.rules.is_some() || self.proxy.is_some()
    }

    /// Who it is that connects from this address.
    pub(crate) fn front(&self, peer: IpAddr) -> Front {
        let peer = peer.to_canonical();
        match &self.proxy {
            Some(proxy) if proxy.from.iter().any(|network| network.contains(&peer)) => Front::Proxy,
            Some(_) => Front::Stranger,
            None if self.forwards(peer) => Front::Proxy,
            None => Front::Client,
        }
    }

    /// Whether a request of WebSocket from this address is a proxy's.
    pub(crate) fn forwards(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        let networks = self.rules.iter().flat_map(|rules| &rules.forwarded_from);
        networks.into_iter().any(|network| network.contains(&peer))
    }

    /// Whether clients are known by the user of their process.
    pub(crate) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// The name of a user of this host, if clients are known by that.
    pub(crate) fn user(&self, number: u32) -> Option<Box<str>> {
        self.users.as_ref().map(|users| users.name(number))
    }

    /// What carries the bytes of those who come in over TCP.
    pub(crate) fn carrier(&self) -> Carrier {
        match (&self.tls, &self.rules) {
            (None, None) => Carrier::Tcp,
            (Some(_), None) => Carrier::Tls,
            (None, Some(_)) => Carrier::WebSocket,
            (Some(_), Some(_)) => Carrier::SecureWebSocket,
        }
    }

    /// Handshakes of TLS so far: full, resumed and failed ones.
    pub(crate) fn handshakes(&self) -> [u64; 3] {
        let Some(tls) = &self.tls else { return [0; 3] };
        let counts = tls.server.handshakes();
        [counts.full(), counts.resumed(), counts.failed()]
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether clients are asked for certificates.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.server.asks_for_certificates())
    }

    /// Whether a client that has shown these would be let in by them now.
    pub(crate) fn lets_in(&self, shown: &Shown) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.server.lets_in(shown, since_1970()))
    }

    /// What is spoken by it.
    pub(crate) fn name(&self) -> Option<String> {
        let layers = [
            self.rules.as_ref().map(|_| "WebSocket"),
            self.tls.as_ref().map(|_| "TLS"),
            self.proxy.as_ref().map(|_| "PROXY"),
        ];
        let layers: Vec<&str> = layers.into_iter().flatten().collect();
        (!layers.is_empty()).then(|| layers.join(" over "))
    }

    /// What it shows, if it speaks TLS.
    pub(crate) fn shown(&self) -> Option<ShownCertificate> {
        let Tls { certificate, subject, end, .. } = self.tls.as_ref()?;
        let days_left = |end: Duration| {
            let left_s = end.as_secs() as i64 - since_1970().as_secs() as i64;
            left_s.div_euclid(dates::DAY.as_secs() as i64)
        };
        Some(ShownCertificate {
            file: certificate.display().to_string(),
            subject: subject.clone(),
            days_left: end.map(days_left),
        })
    }

    /// The file of its certificate, if it has one.
    pub(crate) fn certificate(&self) -> Option<&Path> {
        self.tls.as_ref().map(|tls| &*tls.certificate)
    }
}

impl Recipe for Door {
    fn layers(&self) -> Layers {
        let tls = self.tls.as_ref().map(|tls| tls.server.layer());
        let proxy = self.proxy.as_ref().map(|proxy| proxy::server(proxy.identity));
        let rules = self.rules.as_ref().map(|rules| ws::server(Arc::clone(rules)));
        Layers::new(proxy.into_iter().chain(tls).chain(rules))
    }
}

fn read(config: &TlsConfig, protocol: &str, warnings: &mut Vec<String>) -> Result<Tls, TlsFault> {
    let now = since_1970();
    let mut shown = Vec::new();
    for (certificate, key) in config.certificates() {
        let certified = certify(certificate, key)?;
        warnings.extend(dates::of_certificate(certificate, certified.dates(), now));
        shown.push(certified);
    }
    // There is one at least.
    let first = shown.first();
    let subject = first.and_then(Certified::subject).unwrap_or_default();
    let end = first.and_then(Certified::dates).map(|dates| dates.end);
    let mut revoked = Revoked::default();
    for file in &config.crl {
        let lists = parse(file, Revoked::from_pem)?;
        warnings.extend(dates::of_list(file, lists.end(), now)?);
        revoked.extend(lists);
    }
    let setup = Setup {
        certified: shown,
        auth: auth(config)?,
        revoked,
        versions: config.versions(),
        suites: config.suites(),
        protocols: vec![protocol.into()],
        naming: config.naming(),
        record_layer: match config.record_layer {
            RecordLayerConfig::Rustls => RecordLayer::Rustls,
            RecordLayerConfig::Compact => RecordLayer::Compact,
        },
    };
    let server = Server::new(setup).map_err(|error| {
        let file = match &error {
            SetupError::Authorities(_) => config.client_ca.as_ref(),
            SetupError::Revoked(_) => config.crl.first(),
            _ => None,
        };
        TlsFault::new(file.unwrap_or(&config.certificate), &error)
    })?;
    Ok(Tls { certificate: config.certificate.clone(), subject, end, server })
}

fn certify(certificate: &Path, key: &Path) -> Result<Certified, TlsFault> {
    let identity = Identity {
        certificates: parse(certificate, Certificates::from_pem)?,
        key: parse(key, PrivateKey::from_pem)?,
    };
    identity.certify().map_err(|error| {
        let is_of_key = matches!(error, SetupError::Key(_) | SetupError::KeyMismatch);
        TlsFault::new(if is_of_key { key } else { certificate }, &error)
    })
}

fn auth(config: &TlsConfig) -> Result<ClientAuth, TlsFault> {
    let Some(file) = &config.client_ca else { return Ok(ClientAuth::Off) };
    let authorities = parse(file, Certificates::from_pem)?;
    Ok(match config.require_certificate {
        true => ClientAuth::Required(authorities),
        false => ClientAuth::Optional(authorities),
    })
}

fn parse<T>(file: &Path, parse: fn(&[u8]) -> Result<T, PemError>) -> Result<T, TlsFault> {
    let text = std::fs::read(file)
        .map_err(|error| TlsFault::new(file, &format!("it cannot be read: {error}")))?;
    parse(&text).map_err(|error| TlsFault::new(file, &error))
}
