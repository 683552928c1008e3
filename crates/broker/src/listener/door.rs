//! What those who come in by a listener with TLS are shown, and how that is changed while the
//! broker runs.

use super::config::TlsConfig;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use weir_transport::tls::{
    Certificates, ClientAuth, Identity, PemError, PrivateKey, Server, SetupError,
};
use weir_transport::{Layers, Recipe};

/// What is wrong with a file of `[listener.tls]`.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct TlsFault {
    /// The file.
    file: PathBuf,
    /// What is wrong with it.
    why: String,
}

/// A listener's TLS. New connections take what was read last; those there are keep what they have.
#[derive(Debug)]
pub(crate) struct Door {
    config: TlsConfig,
    /// Taken once for each connection, and once for each change.
    server: RwLock<Server>,
}

impl Door {
    /// With what is in the files now.
    pub(crate) fn open(config: &TlsConfig) -> Result<Self, TlsFault> {
        let server = RwLock::new(read(config)?);
        Ok(Self { config: config.clone(), server })
    }

    /// Reads the files again. If something is wrong with one of them, nothing changes.
    pub(crate) fn reload(&self) -> Result<(), TlsFault> {
        let server = read(&self.config)?;
        *self.server.write().unwrap_or_else(PoisonError::into_inner) = server;
        Ok(())
    }

    /// The file that says which listener this is.
    pub(crate) fn certificate(&self) -> &Path {
        &self.config.certificate
    }
}

impl Recipe for Door {
    fn layers(&self) -> Layers {
        let server = self.server.read().unwrap_or_else(PoisonError::into_inner);
        Layers::new([server.layer()])
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
