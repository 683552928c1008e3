//! The members of etcd, asked in turn: the one that answered last is asked first.

use crate::messages::{self, AUTHENTICATE, Refusal};
use crate::settings::{BadEtcd, EtcdSettings, User};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::time::Duration;
use weir_cluster::{Ask, Said};
use weir_http::client::{Fault, Server, Stream};

/// How long one member is waited for: no longer than etcd's election timeout, which is a second
/// unless an operator has set it, so that `is_in_office` says what it says.
const TRY_MAX: Duration = Duration::from_secs(1);

/// How long an answer may take with all tries.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// Bytes of the longest answer: 16 members and a table are some 10 KB.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Connections of each member that are kept for later.
const IDLE_MAX: usize = 4;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error(transparent)]
    Refusal(#[from] Refusal),
}

impl NoAnswer {
    /// Whether it is worth to ask another member.
    fn is_of_member(&self) -> bool {
        match self {
            Self::Fault(_) | Self::Refusal(Refusal::Away(_)) => true,
            Self::Refusal(Refusal::Token(_) | Refusal::Other(_)) => false,
        }
    }
}

pub(crate) struct Gateway {
    members: Vec<(String, Server)>,
    /// Which is asked first.
    at: Cell<usize>,
    user: Option<User>,
    token: RefCell<Option<HeaderValue>>,
}

impl Gateway {
    pub(crate) fn new(settings: &EtcdSettings) -> Result<Self, BadEtcd> {
        let EtcdSettings { endpoints, ca_file, identity, user } = settings;
        let member = |endpoint: &String| {
            let bad = |error| BadEtcd::Endpoint(endpoint.clone(), error);
            let form = |_| bad(weir_http::client::BadAddress::Form);
            let uri: Uri = endpoint.parse().map_err(form)?;
            if uri.path_and_query().is_some_and(|path| path != "/") {
                return Err(BadEtcd::Path(endpoint.clone()));
            }
            let (ca_file, identity) = (ca_file.as_deref(), identity.as_ref());
            let server = Server::known_by(&uri, ca_file, identity, IDLE_MAX).map_err(bad)?;
            Ok((endpoint.clone(), server))
        };
        let members = endpoints.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() {
            return Err(BadEtcd::NoEndpoint);
        }
        let (at, token) = (Cell::new(0), RefCell::new(None));
        Ok(Self { members, at, user: user.clone(), token })
    }

    /// The member that is asked first.
    pub(crate) fn endpoint(&self) -> &str {
        &self.members[self.at.get()].0
    }

    /// The answer to anything but a watch.
    pub(crate) async fn answer(&self, ask: &Ask) -> Result<Said, NoAnswer> {
        let (path, body) = messages::request(ask);
        let answering = self.in_turn(async |server: &Server| {
            if let Ask::KeepAlive { key, .. } = ask {
                self.is_in_office(server, key).await?;
            }
            let (status, answer) = self.post(server, path, &body).await?;
            Ok(messages::said(ask, status, &answer)?)
        });
        tokio::time::timeout(ANSWER_MAX, answering).await.unwrap_or(Err(Fault::Late.into()))
    }

    /// Whether a member knows what the others have agreed on. One that has led, and hangs, renews
    /// leases that are another's by now, but cannot read; and no other leads so soon after it has.
    async fn is_in_office(&self, server: &Server, key: &str) -> Result<(), NoAnswer> {
        let get = Ask::Get { key: key.to_owned() };
        let (path, body) = messages::request(&get);
        let (status, answer) = self.post(server, path, &body).await?;
        messages::said(&get, status, &answer)?;
        Ok(())
    }

    /// The lines of a watch.
    pub(crate) async fn watch(&self, ask: &Ask) -> Result<Lines, NoAnswer> {
        let (path, body) = messages::request(ask);
        let opening = self.in_turn(async |server: &Server| {
            let stream = server.stream(self.request(path, &body)).await?;
            let mut lines = Lines { stream, read: Vec::new() };
            let status = lines.stream.status();
            if status != StatusCode::OK {
                let error = lines.next().await?;
                messages::said(ask, status, &error)?;
            }
            Ok(lines)
        });
        tokio::time::timeout(ANSWER_MAX, opening).await.unwrap_or(Err(Fault::Late.into()))
    }

    /// Tries until somebody answers, each member once, and once more with a new token.
    async fn in_turn<T>(
        &self,
        ask: impl AsyncFn(&Server) -> Result<T, NoAnswer>,
    ) -> Result<T, NoAnswer> {
        let mut tries = self.members.len();
        let mut has_new_token = false;
        loop {
            let at = self.at.get();
            let server = &self.members[at].1;
            let asking = async {
                if self.token.borrow().is_none() {
                    self.authenticate(server).await?;
                }
                ask(server).await
            };
            let answer = tokio::time::timeout(TRY_MAX, asking).await;
            let error = match answer.unwrap_or(Err(Fault::Late.into())) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_token = matches!(error, NoAnswer::Refusal(Refusal::Token(_)));
            if is_token && self.user.is_some() && !has_new_token {
                has_new_token = true;
                *self.token.borrow_mut() = None;
                continue;
            }
            tries -= 1;
            if !error.is_of_member() || tries == 0 {
                return Err(error);
            }
            // Whoever asked at the same time may have turned already.
            if self.at.get() == at {
                self.at.set((at + 1) % self.members.len());
            }
        }
    }

    async fn authenticate(&self, server: &Server) -> Result<(), NoAnswer> {
        let Some(User { name, password }) = &self.user else { return Ok(()) };
        let body = json!({ "name": name, "password": password }).to_string();
        let (status, answer) = self.post(server, AUTHENTICATE, &body).await?;
        let token = messages::token(status, &answer)?;
        let token = HeaderValue::try_from(token);
        let mut token = token.map_err(|_| Refusal::Other("a token that is none".into()))?;
        token.set_sensitive(true);
        *self.token.borrow_mut() = Some(token);
        Ok(())
    }

    async fn post(
        &self,
        server: &Server,
        path: &'static str,
        body: &str,
    ) -> Result<(StatusCode, Bytes), Fault> {
        server.ask(self.request(path, body), ANSWER_BYTES_MAX).await
    }

    fn request(&self, path: &'static str, body: &str) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(Bytes::from(body.to_owned())));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_static(path);
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(token) = &*self.token.borrow() {
            headers.insert(AUTHORIZATION, token.clone());
        }
        request
    }
}

/// An answer that goes on, a line at a time.
pub(crate) struct Lines {
    stream: Stream,
    read: Vec<u8>,
}

impl Lines {
    /// The next line, or what is left at the end; an error behind that.
    pub(crate) async fn next(&mut self) -> Result<Vec<u8>, Fault> {
        loop {
            if let Some(at) = self.read.iter().position(|&byte| byte == b'\n') {
                let mut line: Vec<u8> = self.read.drain(..=at).collect();
                line.pop();
                return Ok(line);
            }
            if self.read.len() > ANSWER_BYTES_MAX {
                return Err(Fault::Body(format!("a line of over {ANSWER_BYTES_MAX} bytes")));
            }
            match self.stream.piece().await {
                Some(piece) => self.read.extend_from_slice(&piece?),
                None if self.read.is_empty() => return Err(Fault::Body("it has ended".into())),
                None => return Ok(std::mem::take(&mut self.read)),
            }
        }
    }
}
