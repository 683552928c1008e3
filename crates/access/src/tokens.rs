//! Tokens: their signature, their claims, and what was found out of late.

use crate::claims::{BadToken, Claims, identify};
use crate::config::{JwtConfig, TokenPlace};
use crate::counts::add;
use crate::keys::{KeyError, Keys, TOKEN_BYTES_MAX, is_address};
use crate::lasting::Lasting;
use crate::recent::{Digester, Recent};
use crate::rules::Names;
use crate::service::Question;
use crate::{Answer, Identity};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::{Request, Uri};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_http::client::Server;

/// Bytes of the longest set of keys.
const SET_BYTES_MAX: usize = 1024 * 1024;

/// How long a set may take to come.
const FETCH_MAX: Duration = Duration::from_secs(5);

/// The shortest time between two fetches, unless they are to come more often anyway.
const FETCH_AGAIN: Duration = Duration::from_secs(10);

/// Tokens whose claims are known, and for how long: in that time a key is not asked again.
const KNOWN_MAX: usize = 16_384;
const KNOWN_FOR: Duration = Duration::from_secs(600);

/// Whether a text has the form of a token: three parts, of which the first begins as an object of
/// JSON does in Base64.
pub fn is_token(text: &[u8]) -> bool {
    let is_of_it = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    text.starts_with(b"eyJ")
        && text.len() <= TOKEN_BYTES_MAX
        && text.iter().filter(|&&byte| byte == b'.').count() == 2
        && text.iter().all(is_of_it)
}

/// What the configuration and its files say of tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    pub(crate) config: JwtConfig,
    keys: Keys,
}

impl Tokens {
    pub(crate) fn read(config: &JwtConfig) -> Result<Self, KeyError> {
        if config.refresh_s == 0 {
            return Err(KeyError::Setting("refresh_s: it must be at least 1".into()));
        }
        let keys = Keys::read(config)?;
        if let Some(address) = fetched_from(config) {
            // It may have a password in it, which is not for the log.
            uri(address)
                .and_then(|uri| Server::new(&uri, config.ca_file.as_deref(), 0).ok())
                .ok_or_else(|| {
                    let rule = "it is no address that can be asked, or ca_file has no authorities";
                    KeyError::Setting(format!("jwks: {rule}"))
                })?;
        }
        Ok(Self { config: config.clone(), keys })
    }
}

/// Where the set of keys is fetched from, if it is.
fn fetched_from(config: &JwtConfig) -> Option<&str> {
    config.jwks.as_deref().filter(|source| is_address(source))
}

fn uri(address: &str) -> Option<Uri> {
    address.parse().ok()
}

/// Checks tokens.
pub(crate) struct Checker {
    config: JwtConfig,
    keys: RefCell<Keys>,
    known: RefCell<Recent<Arc<Claims>>>,
    digester: Digester,
    /// Of the set, if it is fetched.
    source: Option<(Uri, Server)>,
    fetch: tokio::sync::Mutex<()>,
    fetched_at: Cell<Option<Instant>>,
    lasting: Lasting,
}

impl Checker {
    /// Where its keys are fetched from the same address as those of the thread before, it has them.
    pub(crate) fn new(tokens: &Tokens, lasting: &Lasting) -> Self {
        let (config, mut keys) = (tokens.config.clone(), tokens.keys.clone());
        if let Some((address, set)) = &*lasting.fetched()
            && fetched_from(&config) == Some(address)
        {
            // It was understood before.
            let _ = keys.set_listed(set);
        }
        let source = fetched_from(&config).and_then(|address| {
            let uri = uri(address)?;
            let server = Server::new(&uri, config.ca_file.as_deref(), 0).ok()?;
            Some((uri, server))
        });
        Self {
            keys: RefCell::new(keys),
            known: RefCell::new(Recent::new(KNOWN_MAX)),
            digester: Digester::new(&lasting.secret),
            source,
            fetch: tokio::sync::Mutex::default(),
            fetched_at: Cell::default(),
            lasting: lasting.clone(),
            config,
        }
    }

    /// The files were read again.
    pub(crate) fn reload(&self, tokens: &Tokens) {
        let mut keys = tokens.keys.clone();
        if self.source.is_some() {
            keys.keep_listed(&self.keys.borrow());
        }
        *self.keys.borrow_mut() = keys;
        self.known.borrow_mut().clear();
    }

    /// How long until the set is to be fetched again; nothing if it never is.
    pub(crate) fn refresh(&self) -> Option<Duration> {
        self.source.as_ref()?;
        let refresh = Duration::from_secs(self.config.refresh_s.into());
        Some(if self.keys.borrow().is_empty() { self.again() } else { refresh })
    }

    /// The shortest time between two fetches.
    fn again(&self) -> Duration {
        FETCH_AGAIN.min(Duration::from_secs(self.config.refresh_s.into()))
    }

    /// Fetches the set, unless that was done since `asked` or too short a time ago. One at a time;
    /// who comes meanwhile waits for it.
    pub(crate) async fn fetch(&self, asked: Instant) {
        let Some((uri, server)) = &self.source else { return };
        let _one = self.fetch.lock().await;
        let is_fresh = |at: Instant| at >= asked || at.elapsed() < self.again();
        if self.fetched_at.get().is_some_and(is_fresh) {
            return;
        }
        let path = uri.path_and_query().map_or("/", |it| it.as_str());
        let Ok(path) = path.parse() else { return };
        let mut request = Request::new(Full::new(Bytes::new()));
        *request.uri_mut() = path;
        let answer = tokio::time::timeout(FETCH_MAX, server.ask(request, SET_BYTES_MAX)).await;
        self.fetched_at.set(Some(Instant::now()));
        let host = uri.host();
        let read = match answer {
            Err(_) => Err("no answer in time".to_owned()),
            Ok(Err(fault)) => Err(fault.to_string()),
            Ok(Ok((status, _))) if !status.is_success() => Err(format!("status {status}")),
            Ok(Ok((_, body))) => {
                let keys = self.keys.borrow_mut().set_listed(&body);
                keys.inspect(|_| self.keep(body))
            }
        };
        match read {
            Ok(keys) => {
                add(&self.lasting.counts.keys_fetched);
                // A key may have been taken out.
                self.known.borrow_mut().clear();
                tracing::debug!(host, keys, "fetched the keys of tokens");
            }
            Err(error) => {
                add(&self.lasting.counts.keys_failed);
                tracing::warn!(host, error, "the keys of tokens cannot be fetched, and stay");
            }
        }
    }

    /// For the next thread, if it fetches its keys from the same address.
    fn keep(&self, set: Bytes) {
        if let Some(address) = fetched_from(&self.config) {
            *self.lasting.fetched() = Some((address.to_owned(), set));
        }
    }

    /// Who shows this token.
    pub(crate) async fn check(&self, question: &Question) -> Answer {
        let asked = Instant::now();
        let mut result = self.identify(question);
        if result == Err(BadToken::UnknownKey) && self.source.is_some() {
            self.fetch(asked).await;
            result = self.identify(question);
        }
        match result {
            Ok(identity) => Answer::Allow(Box::new(identity)),
            Err(_) if self.keys.borrow().is_empty() => Answer::Unavailable,
            Err(error) => {
                add(&self.lasting.counts.tokens_wrong);
                let client_id = &question.client_id[..question.client_id.floor_char_boundary(128)];
                tracing::debug!(client_id, %error, "a token lets nobody in");
                match error {
                    // Whoever signs may have a new one that has not been fetched yet.
                    BadToken::UnknownKey if self.source.is_some() => Answer::Unfit,
                    BadToken::Form
                    | BadToken::Algorithm
                    | BadToken::UnknownKey
                    | BadToken::Signature => Answer::Deny,
                    BadToken::Expired
                    | BadToken::NoExpiry
                    | BadToken::NotYet
                    | BadToken::Claim(_)
                    | BadToken::Rights(_) => Answer::Unfit,
                }
            }
        }
    }

    fn identify(&self, question: &Question) -> Result<Identity, BadToken> {
        let token = match self.config.r#in {
            TokenPlace::Password => question.password.as_deref(),
            TokenPlace::UserName => question.user_name.as_deref().map(str::as_bytes),
        };
        let token = token.ok_or(BadToken::Form)?;
        let now = Instant::now();
        let digest = self.digester.digest(&[token]);
        let known = self.known.borrow().get(&digest, now).cloned();
        let claims = if let Some(claims) = known {
            add(&self.lasting.counts.tokens_known);
            claims
        } else {
            add(&self.lasting.counts.tokens_checked);
            let claims = Arc::new(self.keys.borrow().verify(token, &self.config.algorithms)?);
            self.known.borrow_mut().add(digest, Arc::clone(&claims), now + KNOWN_FOR, now);
            claims
        };
        let user = match self.config.r#in {
            TokenPlace::Password => question.user_name.as_deref(),
            TokenPlace::UserName => None,
        };
        let names = Names { client_id: &question.client_id, user };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        identify(&claims, &self.config, names, since.as_secs())
    }
}
