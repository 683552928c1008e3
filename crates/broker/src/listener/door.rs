//! What is spoken by a listener, and how its certificates are changed while the broker runs.

mod dates;

use super::config::{ListenerConfig, RecordLayerConfig, TlsConfig};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use weir_transport::tls::{
    Certificates, Certified, ClientAuth, Identity, PemError, PrivateKey, RecordLayer, Revoked,
    Server, Setup, SetupError,
};
use weir_transport::{Layers, Recipe, ws};

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

/// The layers of those who come in by a listener. New connections take the certificates that were
/// read last; those there are keep what they have.
#[derive(Debug)]
pub(crate) struct Door {
    tls: Option<Tls>,
    /// Of WebSocket, if that is spoken.
    paths: Option<Arc<[Box<str>]>>,
}

#[derive(Debug)]
struct Tls {
    config: TlsConfig,
    /// What clients may ask to speak over it.
    protocol: &'static str,
    /// Taken once for each connection, and once for each change.
    server: RwLock<Server>,
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
            Some(config) => Some(Tls {
                server: RwLock::new(read(config, protocol, warnings)?),
                config: config.clone(),
                protocol,
            }),
        };
        let paths = || config.paths.iter().map(|path| path.as_str().into()).collect();
        let paths = config.websocket.then(paths);
        Ok((tls.is_some() || paths.is_some()).then_some(Self { tls, paths }))
    }

    pub(crate) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// What is spoken by it.
    pub(crate) fn name(&self) -> &'static str {
        match (&self.tls, &self.paths) {
            (Some(_), None) => "TLS",
            (None, _) => "WebSocket",
            (Some(_), Some(_)) => "WebSocket over TLS",
        }
    }

    /// Reads the files again, and says so in the log. If something is wrong with one of them,
    /// nothing changes.
    pub(crate) fn reload(&self) {
        let Some(Tls { config, protocol, server }) = &self.tls else { return };
        let certificate = config.certificate.display();
        let mut warnings = Vec::new();
        match read(config, protocol, &mut warnings) {
            Ok(new) => {
                *server.write().unwrap_or_else(PoisonError::into_inner) = new;
                tracing::info!(%certificate, "read the certificate again");
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
            }
            Err(error) => {
                tracing::error!(%certificate, %error, "the certificate stays as it was");
            }
        }
    }
}

impl Recipe for Door {
    fn layers(&self) -> Layers {
        let layer = |tls: &Tls| tls.server.read().unwrap_or_else(PoisonError::into_inner).layer();
        let tls = self.tls.as_ref().map(layer);
        let paths = self.paths.as_ref();
        Layers::new(tls.into_iter().chain(paths.map(|paths| ws::server(Arc::clone(paths)))))
    }
}

fn read(
    config: &TlsConfig,
    protocol: &str,
    warnings: &mut Vec<String>,
) -> Result<Server, TlsFault> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut shown = Vec::new();
    for (certificate, key) in config.certificates() {
        let certified = certify(certificate, key)?;
        warnings.extend(dates::of_certificate(certificate, certified.dates(), now));
        shown.push(certified);
    }
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
    Server::new(setup).map_err(|error| {
        let file = match &error {
            SetupError::Authorities(_) => config.client_ca.as_ref(),
            SetupError::Revoked(_) => config.crl.first(),
            _ => None,
        };
        TlsFault::new(file.unwrap_or(&config.certificate), &error)
    })
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
