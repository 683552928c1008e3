//! The options of TLS, which are mosquitto_pub's, and what they make of an address: its transport.

use crate::Address;
use clap::{Args, ValueEnum};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use weir_client::Scheme;
use weir_transport::tls::{
    Certificates, Client, ClientError, ClientSettings, IdentityText, PemError, PrivateKey,
    SetupError, Version, pem_of_authorities,
};
use weir_transport::{Route, Transport};

/// Tickets for the sessions of one client that connects again.
const TICKETS_MAX: usize = 4;

/// How TLS is spoken, where it is.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Certificates (PEM) of the authorities to trust [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub cafile: Option<PathBuf>,
    /// Folder with such files, *.crt and *.pem
    #[arg(long, value_name = "FOLDER")]
    pub capath: Option<PathBuf>,
    /// Trust the authorities of the system, beside those of --cafile and --capath
    #[arg(long = "tls-use-os-certs")]
    pub uses_system: bool,
    /// Certificate (PEM) to show to the broker
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Key (PEM) of --cert
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Do not check that the broker's certificate is for its host
    #[arg(long)]
    pub insecure: bool,
    /// Only this version
    #[arg(long, value_name = "VERSION")]
    pub tls_version: Option<TlsVersion>,
    /// Application protocol to offer, such as mqtt
    #[arg(long, value_name = "PROTOCOL")]
    pub tls_alpn: Option<String>,
    /// Only these cipher suites, by their names in OpenSSL, with : between
    #[arg(long, value_name = "LIST")]
    pub ciphers: Option<String>,
}

/// As mosquitto_pub names them.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2
    #[value(name = "tlsv1.2")]
    Tls12,
    /// TLS 1.3
    #[value(name = "tlsv1.3")]
    Tls13,
}

/// Why TLS cannot be spoken as it is asked for: an option, and what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", [*option, value.as_str()].join(" ").trim_end())]
pub struct TlsFault {
    /// As it is written at the shell.
    pub option: &'static str,
    /// What was given; empty where the option has no value.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
}

/// TLS as it is to be spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSettings {
    /// For every client.
    pub settings: ClientSettings,
    /// What is shown of this one.
    pub identity: Option<IdentityText>,
}

impl TlsArgs {
    /// An option that only TLS has any use for.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--cafile", self.cafile.is_some()),
            ("--capath", self.capath.is_some()),
            ("--tls-use-os-certs", self.uses_system),
            ("--cert", self.cert.is_some()),
            ("--insecure", self.insecure),
            ("--tls-version", self.tls_version.is_some()),
            ("--tls-alpn", self.tls_alpn.is_some()),
            ("--ciphers", self.ciphers.is_some()),
        ];
        all.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// Reads the files.
    ///
    /// # Errors
    /// One that cannot be read or used, and what else is wrong.
    pub fn read(&self) -> Result<TlsSettings, TlsFault> {
        let versions = match self.tls_version {
            None => vec![Version::Tls12, Version::Tls13],
            Some(TlsVersion::Tls12) => vec![Version::Tls12],
            Some(TlsVersion::Tls13) => vec![Version::Tls13],
        };
        let ciphers = self.ciphers.iter().flat_map(|list| list.split([':', ',', ' ']));
        let settings = ClientSettings {
            checks_host: !self.insecure,
            versions,
            ciphers: ciphers.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            protocols: self.tls_alpn.iter().cloned().collect(),
            tickets_max: TICKETS_MAX,
            ..ClientSettings::new(self.authorities()?)
        };
        let read = TlsSettings { settings, identity: self.identity()? };
        match read.client() {
            Ok(_) => Ok(read),
            Err(error) => Err(self.fault(&error)),
        }
    }

    /// Reads the files, and makes what connections have in common.
    ///
    /// # Errors
    /// As [`TlsArgs::read`].
    pub fn client(&self) -> Result<Client, TlsFault> {
        self.read()?.client().map_err(|error| self.fault(&error))
    }

    fn authorities(&self) -> Result<String, TlsFault> {
        let mut all = String::new();
        if let Some(file) = &self.cafile {
            let text = text_of("--cafile", file)?;
            let fault = |error: PemError| fault("--cafile", file, error.to_string());
            Certificates::from_pem(text.as_bytes()).map_err(fault)?;
            all += &text;
        }
        if let Some(folder) = &self.capath {
            all += &of_folder(folder)?;
        }
        if self.uses_system || all.is_empty() {
            let found = rustls_native_certs::load_native_certs();
            all += &pem_of_authorities(found.certs.into_iter().map(|one| one.to_vec()));
        }
        if all.is_empty() {
            let why = "the system has no certificates of authorities; name them by --cafile".into();
            return Err(TlsFault { option: "TLS", value: String::new(), why });
        }
        Ok(all)
    }

    fn identity(&self) -> Result<Option<IdentityText>, TlsFault> {
        let (Some(certificate), Some(key)) = (&self.cert, &self.key) else { return Ok(None) };
        let identity = IdentityText {
            certificates: text_of("--cert", certificate)?,
            key: text_of("--key", key)?,
        };
        Certificates::from_pem(identity.certificates.as_bytes())
            .map_err(|error| fault("--cert", certificate, error.to_string()))?;
        PrivateKey::from_pem(identity.key.as_bytes())
            .map_err(|error| fault("--key", key, error.to_string()))?;
        Ok(Some(identity))
    }

    /// The option that an error is about.
    fn fault(&self, error: &ClientError) -> TlsFault {
        let shown = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        };
        let (option, value) = match error {
            ClientError::Setup(SetupError::Authorities(_)) => ("--cafile", shown(&self.cafile)),
            ClientError::Setup(SetupError::Key(_) | SetupError::KeyMismatch) => {
                ("--key", shown(&self.key))
            }
            ClientError::Setup(_) | ClientError::Pem(_) => ("--cert", shown(&self.cert)),
            ClientError::NoCipher { .. } | ClientError::OtherVersion => {
                ("--ciphers", self.ciphers.clone().unwrap_or_default())
            }
        };
        TlsFault { option, value, why: error.to_string() }
    }
}

impl TlsSettings {
    fn client(&self) -> Result<Client, ClientError> {
        Client::with(&self.settings, self.identity.as_ref())
    }
}

fn fault(option: &'static str, path: &Path, why: String) -> TlsFault {
    TlsFault { option, value: path.display().to_string(), why }
}

fn text_of(option: &'static str, path: &Path) -> Result<String, TlsFault> {
    std::fs::read_to_string(path).map_err(|error| fault(option, path, error.to_string()))
}

/// The certificates in all files of a folder that are called as such. One that cannot be used is
/// passed over, as OpenSSL does.
fn of_folder(folder: &Path) -> Result<String, TlsFault> {
    let failed = |error: std::io::Error| fault("--capath", folder, error.to_string());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let is_named_so = |path: &&PathBuf| {
        path.extension().is_some_and(|extension| extension == "crt" || extension == "pem")
    };
    let texts =
        paths.iter().filter(is_named_so).filter_map(|path| std::fs::read_to_string(path).ok());
    let is_usable = |text: &String| Certificates::from_pem(text.as_bytes()).is_ok();
    let all: String = texts.filter(is_usable).map(|text| text + "\n").collect();
    if all.is_empty() {
        return Err(fault(
            "--capath",
            folder,
            "no file in it has a certificate (*.crt, *.pem)".into(),
        ));
    }
    Ok(all)
}

impl Address {
    /// What its connections go over, with these options where TLS is part of it.
    ///
    /// # Errors
    /// Options that cannot be used, or that this address has no use for.
    pub fn transport(&self, tls: &TlsArgs) -> Result<Transport, TlsFault> {
        let Self { scheme, host, port, path, .. } = self;
        if !scheme.has_tls()
            && let Some(option) = tls.given()
        {
            let why = "TLS is not spoken to this address; write it as mqtts:// or wss://".into();
            return Err(TlsFault { option, value: String::new(), why });
        }
        let client = match scheme.has_tls() {
            true => Some(tls.client()?),
            false => None,
        };
        let route = Route {
            host: host.clone(),
            port: *port,
            tls: client,
            path: path.clone(),
            // A hasher of the standard library has keys that nobody knows.
            seed: RandomState::new().hash_one("mask"),
        };
        route.transport().ok_or_else(|| TlsFault {
            option: "TLS",
            value: host.clone(),
            why: "this is neither a name nor an address that a certificate could be for".into(),
        })
    }
}

/// What may be wrong with a connection that ended before the broker had answered.
pub(crate) const fn hint(scheme: Scheme) -> &'static str {
    match scheme {
        Scheme::Mqtt => "",
        Scheme::Mqtts => "; it may not speak TLS there",
        Scheme::Ws => "; it may not speak WebSocket there",
        Scheme::Wss => "; it may not speak TLS, or not WebSocket, there",
    }
}
