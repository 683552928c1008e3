//! A client of the socket: one request a connection, and its caller waits.

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

/// How long an answer may take: longer than the server gives itself.
const ANSWER_MAX: Duration = Duration::from_secs(15);

/// Bytes of the largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Asks the broker behind a socket.
pub struct Caller {
    socket: PathBuf,
    runtime: Runtime,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// JSON; empty with status 204.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no such socket, or nobody listens on it.
    #[error(
        "no broker serves {}; run one with\n  [control]\n  socket = \"{}\"\nin the file of its \
         --config",
        .0.display(), .0.display()
    )]
    Nobody(PathBuf),
    /// The socket is another user's.
    #[error("{} may be used only by the user that the broker runs as, and by root", .0.display())]
    NotAllowed(PathBuf),
    /// The broker does not answer in time.
    #[error("the broker behind {} did not answer within {} s", .0.display(), ANSWER_MAX.as_secs())]
    Late(PathBuf),
    /// Something went wrong between the two.
    #[error("cannot ask the broker behind {}: {text}", path.display())]
    Broken {
        /// The socket.
        path: PathBuf,
        /// What.
        text: String,
    },
}

impl Caller {
    /// Asks behind this socket; it is not looked at yet.
    ///
    /// # Errors
    /// What the system says of what a runtime needs.
    pub fn new(socket: &Path) -> io::Result<Self> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { socket: socket.into(), runtime })
    }

    /// What is at `path`, which begins with a slash.
    ///
    /// # Errors
    /// Nobody answers; a status that says no is a [`Reply`].
    pub fn get(&self, path: &str) -> Result<Reply, CallError> {
        self.call(Method::GET, path)
    }

    /// Deletes what is at `path`.
    ///
    /// # Errors
    /// As [`Caller::get`].
    pub fn delete(&self, path: &str) -> Result<Reply, CallError> {
        self.call(Method::DELETE, path)
    }

    /// Puts what `path` says.
    ///
    /// # Errors
    /// As [`Caller::get`].
    pub fn put(&self, path: &str) -> Result<Reply, CallError> {
        self.call(Method::PUT, path)
    }

    /// Puts this text there, which is of a kind such as `text/plain`.
    ///
    /// # Errors
    /// As [`Caller::get`].
    pub fn put_text(&self, path: &str, kind: &str, text: &str) -> Result<Reply, CallError> {
        self.call_with(Method::PUT, path, (kind, text))
    }

    /// Posts what `path` says.
    ///
    /// # Errors
    /// As [`Caller::get`].
    pub fn post(&self, path: &str) -> Result<Reply, CallError> {
        self.call(Method::POST, path)
    }

    /// The path of bans, with a query of these keys and values.
    pub fn bans_path(query: &[(&str, &str)]) -> String {
        Self::path("/api/v1/bans", query)
    }

    /// A path with a query.
    pub fn path(path: &str, query: &[(&str, &str)]) -> String {
        let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let pairs = query.iter().map(|(key, value)| format!("{key}={}", encode(value)));
        format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
    }

    /// The path of a user, and of something of it if `of` is not empty.
    pub fn user_path(name: &str, of: &str) -> String {
        format!("/api/v1/users/{}{of}", utf8_percent_encode(name, NON_ALPHANUMERIC))
    }

    /// The path of a client.
    pub fn client_path(client_id: &str) -> String {
        format!("/api/v1/clients/{}", utf8_percent_encode(client_id, NON_ALPHANUMERIC))
    }

    /// The path of a node of the cluster.
    pub fn node_path(name: &str) -> String {
        format!("/api/v1/cluster/nodes/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
    }

    fn call(&self, method: Method, path: &str) -> Result<Reply, CallError> {
        self.call_with(method, path, ("text/plain", ""))
    }

    fn call_with(
        &self,
        method: Method,
        path: &str,
        body: (&str, &str),
    ) -> Result<Reply, CallError> {
        self.runtime.block_on(async {
            let exchange = exchange(&self.socket, method, path, body);
            let answer = tokio::time::timeout(ANSWER_MAX, exchange);
            answer.await.unwrap_or_else(|_| Err(CallError::Late(self.socket.clone())))
        })
    }
}

async fn exchange(
    socket: &Path,
    method: Method,
    path: &str,
    (kind, text): (&str, &str),
) -> Result<Reply, CallError> {
    let broken = |text: String| CallError::Broken { path: socket.into(), text };
    let stream = UnixStream::connect(socket).await.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            CallError::Nobody(socket.into())
        }
        io::ErrorKind::PermissionDenied => CallError::NotAllowed(socket.into()),
        _ => broken(error.to_string()),
    })?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| broken(error.to_string()))?;
    // It ends with the sender; what goes wrong on it is told to that.
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "localhost")
        .header(header::CONTENT_TYPE, kind)
        .body(Full::new(Bytes::copy_from_slice(text.as_bytes())))
        .map_err(|error| broken(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| broken(error.to_string()))?.to_bytes().to_vec();
    Ok(Reply { status: head.status.as_u16(), body })
}
