//! What is spoken by a listener, and how its certificates are changed while the broker runs.

use super::config::{ListenerConfig, TlsConfig};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use weir_transport::tls::{
    Certificates, ClientAuth, Identity, PemError, PrivateKey, Server, SetupError,
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
    /// Taken once for each connection, and once for each change.
    server: RwLock<Server>,
}

impl Door {
    /// With what is in the files now; nothing for a listener of plain TCP.
    pub(crate) fn open(config: &ListenerConfig) -> Result<Option<Self>, TlsFault> {
        let tls = match &config.tls {
            None => None,
            Some(config) => {
                Some(Tls { server: RwLock::new(read(config)?), config: config.clone() })
            }
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
        let Some(Tls { config, server }) = &self.tls else { return };
        let certificate = config.certificate.display();
        match read(config) {
            Ok(new) => {
                *server.write().unwrap_or_else(PoisonError::into_inner) = new;
                tracing::info!(%certificate, "read the certificate again");
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

fn read(config: &TlsConfig) -> Result<Server, TlsFault> {
    let certificates = parse(&config.certificate, Certificates::from_pem)?;
    let key = parse(&config.key, PrivateKey::from_pem)?;
    let auth = match &config.client_ca {
        None => ClientAuth::Off,
        Some(file) => {
            let authorities = parse(file, Certificates::from_pem)?;
            match config.require_certificate {
                true => ClientAuth::Required(authorities),
                false => ClientAuth::Optional(authorities),
            }
        }
    };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let identity = Identity { certificates, key };
    Server::new(identity, &auth, &config.versions(), now).map_err(|error| {
        let file = match &error {
            SetupError::Key(_) | SetupError::KeyMismatch => &config.key,
            SetupError::Authorities(_) => config.client_ca.as_ref().unwrap_or(&config.certificate),
            SetupError::Expired | SetupError::NotValidYet | SetupError::Certificate(_) => {
                &config.certificate
            }
        };
        TlsFault { file: file.clone(), why: error.to_string() }
    })
}

fn parse<T>(file: &Path, parse: fn(&[u8]) -> Result<T, PemError>) -> Result<T, TlsFault> {
    let fault = |why| TlsFault { file: file.into(), why };
    let text = std::fs::read(file).map_err(|error| fault(format!("it cannot be read: {error}")))?;
    parse(&text).map_err(|error| fault(error.to_string()))
}
