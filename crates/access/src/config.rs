//! What tokens and services may be told: tables of the broker's configuration.

use jsonwebtoken::Algorithm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The `[auth.jwt]` table: clients that show a token. Needs one of `secret_file`, `public_key` and
/// `jwks`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JwtConfig {
    /// The algorithms that a token may be signed by, such as `["ES256"]`: HS256, HS384, HS512,
    /// RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA.
    pub algorithms: Vec<Algorithm>,
    /// Where a client says its token; by default in the password.
    #[serde(default)]
    pub r#in: TokenPlace,
    /// A file with the secret of HS256, HS384 and HS512, of 32 bytes at least. A line's end behind
    /// it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<PathBuf>,
    /// A PEM file with a public key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_key: Option<PathBuf>,
    /// A set of keys (JWKS): a file, or an address that begins with `http://` or `https://`. From
    /// an address it is fetched again every `refresh_s`, and when a token names a key that is not
    /// known, every 10 s at most. If it cannot be had, the keys stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks: Option<String>,
    /// A PEM file of the authorities that may vouch for the server behind `https://`. Without it,
    /// those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// How long keys from an address are used before they are fetched again, in seconds; by default
    /// 300.
    #[serde(default = "refresh_s")]
    pub refresh_s: u32,
    /// How far the clocks of broker and issuer may be apart, in seconds; by default 30.
    #[serde(default = "leeway_s")]
    pub leeway_s: u32,
    /// Whether a token may have no `exp`: it is valid for ever then.
    #[serde(default)]
    pub allow_without_exp: bool,
    /// What `iss` has to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What `aud` has to be, or has to have among others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The claim that has the user name; by default `sub`.
    #[serde(default = "user_claim")]
    pub user_claim: String,
    /// The claim that has the rights of the client, if it has some; by default `acl`.
    #[serde(default = "acl_claim")]
    pub acl_claim: String,
    /// What other claims have to be. In a text, `%c` stands for the client identifier, and `%u` for
    /// the user name that CONNECT has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
}

impl JwtConfig {
    /// Whether it lets the same clients in as another one does, whatever that says of how keys are
    /// fetched.
    pub fn judges_as(&self, other: &Self) -> bool {
        let Self { refresh_s, ca_file, .. } = other.clone();
        Self { refresh_s, ca_file, ..self.clone() } == *other
    }
}

/// Where a token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenPlace {
    /// In the password.
    #[default]
    Password,
    /// In the user name.
    UserName,
}

fn refresh_s() -> u32 {
    300
}

fn leeway_s() -> u32 {
    30
}

fn user_claim() -> String {
    "sub".into()
}

fn acl_claim() -> String {
    "acl".into()
}

/// The `[auth.http]` table: a service that says who may come in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// Where the service is asked: an address that begins with `http://` or `https://`.
    pub url: String,
    /// How it is asked and answers; by default as EMQX has it.
    #[serde(default)]
    pub form: Form,
    /// The method of HTTP; by default `post`. What `get` sends, password included, stands in the
    /// logs of many servers.
    #[serde(default)]
    pub method: Method,
    /// With `mosquitto-go-auth`: where it is asked whether a user may do everything. Without it
    /// nobody may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superuser_url: Option<String>,
    /// Headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A PEM file of the authorities that may vouch for the server behind `https://`. Without it,
    /// those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// How long a client waits for the answer, in milliseconds, by default 2,000.
    /// Then it is refused.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u32,
    /// Requests, and connections to the service, at a time; by default 64.
    #[serde(default = "pool")]
    pub pool: u16,
    /// Clients that wait for an answer, by default 4,096. More are told that the server is busy.
    #[serde(default = "queue")]
    pub queue: u16,
    /// How long an answer that lets a client in is known, in seconds, by default 30, at most
    /// 3,600. 0 asks each time.
    #[serde(default = "cache_s")]
    pub cache_s: u32,
}

impl HttpConfig {
    /// Whether it asks the same service the same as another one does, however long it waits for it
    /// and whatever it shows of itself.
    pub fn judges_as(&self, other: &Self) -> bool {
        let Self { url, form, superuser_url, .. } = self;
        (url, form, superuser_url) == (&other.url, &other.form, &other.superuser_url)
    }
}

impl fmt::Debug for HttpConfig {
    /// Without what may be a secret: what headers say, and what is behind an address.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |url: &str| url.split('?').next().unwrap_or_default().to_owned();
        out.debug_struct("HttpConfig")
            .field("url", &plain(&self.url))
            .field("form", &self.form)
            .field("method", &self.method)
            .field("superuser_url", &self.superuser_url.as_deref().map(plain))
            .field("headers", &self.headers.keys())
            .field("ca_file", &self.ca_file)
            .field("timeout_ms", &self.timeout_ms)
            .field("pool", &self.pool)
            .field("queue", &self.queue)
            .field("cache_s", &self.cache_s)
            .finish()
    }
}

/// What the service speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// As EMQX 5 asks its HTTP authenticator.
    #[default]
    Emqx,
    /// As the HTTP backend of mosquitto-go-auth asks for users and superusers.
    MosquittoGoAuth,
}

/// How a request is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The question is a body of JSON.
    #[default]
    Post,
    /// The question is a query.
    Get,
}

fn timeout_ms() -> u32 {
    2_000
}

fn pool() -> u16 {
    64
}

fn queue() -> u16 {
    4_096
}

fn cache_s() -> u32 {
    30
}
