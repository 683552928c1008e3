//! Requests over HTTP/1.1 to one server, on connections that are used again for a while.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// How long a connection is used. Behind it the server's name is looked up again, so that a service
/// that moves is followed.
const LIFE_MAX: Duration = Duration::from_secs(30);

/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM_AUTHORITIES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The server is not there, or its certificate is not one that is trusted.
    #[error("cannot connect: {0}")]
    Connect(#[from] std::io::Error),
    /// It speaks something else, or has ended the connection.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// It is longer than it may be, or was cut.
    #[error("the answer cannot be read: {0}")]
    Body(String),
    /// For whoever asks and gives up.
    #[error("no answer in time")]
    Late,
}

/// Why an address cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadAddress {
    /// It is none.
    #[error("it must be http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH")]
    Form,
    /// The authorities cannot be had.
    #[error("{0}: its certificates cannot be used; name a PEM file of authorities as ca_file")]
    Authorities(String),
    /// What this side shows of itself cannot be had.
    #[error("{0}: it cannot be used as the certificate or the key of a client")]
    Identity(String),
}

/// What a client shows of itself in TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PEM file with the certificate, and behind it those between it and its authority.
    pub certificate: PathBuf,
    /// PEM file with its key, without a passphrase.
    pub key: PathBuf,
}

/// Whether what is said with the server at `address` can be read and changed on its way: it is not
/// encrypted, and leaves this host.
pub fn is_open_to_others(address: &str) -> bool {
    let Ok(uri) = address.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    let is_here = host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(is_loopback);
    uri.scheme_str() == Some("http") && !is_here
}

/// A server, and the connections to it that are free.
pub struct Server {
    host: String,
    port: u16,
    /// As the header has it.
    authority: HeaderValue,
    tls: Option<TlsConnector>,
    idle: Mutex<Vec<Idle>>,
    idle_max: usize,
}

type Sender = SendRequest<Full<Bytes>>;

struct Idle {
    to: Sender,
    born: Instant,
}

impl Server {
    /// The one of an address, of which at most `idle_max` connections are kept for later.
    ///
    /// # Errors
    /// It is no address; the authorities, those of the system without a file, cannot be had.
    pub fn new(uri: &Uri, ca_file: Option<&Path>, idle_max: usize) -> Result<Self, BadAddress> {
        Self::known_by(uri, ca_file, None, idle_max)
    }

    /// The same, for a server that wants to know who asks.
    ///
    /// # Errors
    /// As those of [`Server::new`], or the identity cannot be had.
    pub fn known_by(
        uri: &Uri,
        ca_file: Option<&Path>,
        identity: Option<&Identity>,
        idle_max: usize,
    ) -> Result<Self, BadAddress> {
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(BadAddress::Form)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(connector(ca_file, identity)?), 443),
            _ => return Err(BadAddress::Form),
        };
        let authority = uri.authority().map_or("", |it| it.as_str());
        if authority.contains('@') {
            // A name and password in an address stand in logs; a header does not.
            return Err(BadAddress::Form);
        }
        let authority = HeaderValue::from_str(authority).map_err(|_| BadAddress::Form)?;
        let port = uri.port_u16().unwrap_or(port);
        Ok(Self { host, port, authority, tls, idle: Mutex::default(), idle_max })
    }

    /// The answer to a request whose path is that of an address, with at most `bytes_max` of body.
    ///
    /// # Errors
    /// There is none, or a longer one.
    pub async fn ask(
        &self,
        mut request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), Fault> {
        request.headers_mut().insert(HOST, self.authority.clone());
        let (response, idle) = loop {
            let Some(mut idle) = self.take_idle() else {
                let (to, _) = self.connect(2 * LIFE_MAX).await?;
                let mut new = Idle { to, born: Instant::now() };
                break (new.to.send_request(request).await?, new);
            };
            match idle.to.try_send_request(request).await {
                Ok(response) => break (response, idle),
                // It was closed meanwhile, and the request never left.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
        };
        let status = response.status();
        let body = Limited::new(response.into_body(), bytes_max).collect().await;
        let body = body.map_err(|error| Fault::Body(error.to_string()))?.to_bytes();
        self.keep(idle).await;
        Ok((status, body))
    }

    /// The answer to a request, piece by piece as it comes, for as long as it goes on.
    ///
    /// # Errors
    /// There is none.
    pub async fn stream(&self, mut request: Request<Full<Bytes>>) -> Result<Stream, Fault> {
        request.headers_mut().insert(HOST, self.authority.clone());
        let (mut to, connection) = self.connect(Duration::MAX).await?;
        let connection = Connection(connection);
        let answer = to.send_request(request).await?;
        Ok(Stream { answer, _connection: connection })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_idle(&self) -> Option<Idle> {
        let mut idle = self.idle();
        let is_usable = |it: &Idle| it.born.elapsed() < LIFE_MAX && !it.to.is_closed();
        std::iter::from_fn(|| idle.pop()).find(is_usable)
    }

    async fn keep(&self, mut idle: Idle) {
        if idle.born.elapsed() < LIFE_MAX && idle.to.ready().await.is_ok() {
            let mut all = self.idle();
            if all.len() < self.idle_max {
                all.push(idle);
            }
        }
    }

    /// A connection that is used for so long at most.
    async fn connect(&self, life: Duration) -> Result<(Sender, JoinHandle<()>), Fault> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        // An answer must not wait for others.
        stream.set_nodelay(true)?;
        match &self.tls {
            None => open(TokioIo::new(stream), life).await,
            Some(connector) => {
                let name = ServerName::try_from(self.host.clone());
                let name = name.map_err(std::io::Error::other)?;
                open(TokioIo::new(connector.connect(name, stream).await?), life).await
            }
        }
    }
}

/// An answer that comes piece by piece, on a connection of its own, which ends with it.
pub struct Stream {
    answer: Response<Incoming>,
    _connection: Connection,
}

impl Stream {
    /// What the server says of the request.
    pub fn status(&self) -> StatusCode {
        self.answer.status()
    }

    /// The next piece; none at the end.
    pub async fn piece(&mut self) -> Option<Result<Bytes, Fault>> {
        loop {
            let frame = self.answer.body_mut().frame().await?;
            match frame.map(Frame::into_data) {
                Ok(Ok(data)) => return Some(Ok(data)),
                // Trailers are no part of the answer.
                Ok(Err(_)) => {}
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}

/// A connection that is ended when nobody needs it any more.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn open<T>(io: T, life: Duration) -> Result<(Sender, JoinHandle<()>), Fault>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (to, connection) = handshake(io).await?;
    // What goes wrong there, whoever asked is told; the thread's end ends it as well.
    let connection = tokio::spawn(async move {
        let _ = tokio::time::timeout(life, connection).await;
    });
    Ok((to, connection))
}

fn connector(
    ca_file: Option<&Path>,
    identity: Option<&Identity>,
) -> Result<TlsConnector, BadAddress> {
    let system = || SYSTEM_AUTHORITIES.map(Path::new).into_iter().find(|path| path.exists());
    let path = ca_file.or_else(system).unwrap_or(Path::new(SYSTEM_AUTHORITIES[0]));
    let unfit = || BadAddress::Authorities(path.display().to_string());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|_| unfit())? {
        // A system's file has some that nobody can use.
        let _ = roots.add(certificate.map_err(|_| unfit())?);
    }
    if roots.is_empty() {
        return Err(unfit());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|_| unfit())?.with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let unfit = |path: &Path| BadAddress::Identity(path.display().to_string());
            let chain = CertificateDer::pem_file_iter(certificate)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|_| unfit(certificate))?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|_| unfit(key))?;
            config.with_client_auth_cert(chain, secret).map_err(|_| unfit(certificate))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_on_this_host_or_is_encrypted_is_open_to_nobody() {
        for address in [
            "http://127.example.org/",
            "http://localhost.example.org/",
            "http://localhost@example.org/",
            "HTTP://192.0.2.1:80/a",
            "http://[2001:db8::1]/",
        ] {
            assert!(is_open_to_others(address), "{address}");
        }
        for address in [
            "https://example.org/",
            "http://localhost:8080/a",
            "http://LOCALHOST/",
            "http://127.1.2.3/",
            "http://[::1]:80/",
            "no address",
        ] {
            assert!(!is_open_to_others(address), "{address}");
        }
    }
}
