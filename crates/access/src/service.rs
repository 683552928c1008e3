//! A service that says who may come in: what it is asked, and what its answers mean.

use crate::config::{Form, HttpConfig, Method};
use crate::rules::Names;
use crate::{Answer, Identity, Rights, rules};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::net::IpAddr;
use weir_http::client::{BadAddress, Fault, Server};

/// Bytes of the longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Whoever takes a user out at the service waits for no longer until that holds.
const CACHE_S_MAX: u32 = 3_600;

/// Who wants in, and with what.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// The client identifier, as the client gave it.
    pub client_id: String,
    /// Its user name, if it says one.
    pub user_name: Option<String>,
    /// Its password, if it says one.
    pub password: Option<Vec<u8>>,
    /// Where it comes from, if that is known.
    pub peer: Option<IpAddr>,
}

impl fmt::Debug for Question {
    /// Without what may be a secret: a user name may be a token.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client_id, peer, .. } = self;
        let mut shown = out.debug_struct("Question");
        shown.field("client_id", client_id).field("peer", peer).finish_non_exhaustive()
    }
}

/// Why a service cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadService {
    /// An address.
    #[error("auth.http.{0}: {1}")]
    Address(&'static str, BadAddress),
    /// A header.
    #[error("auth.http.headers: {0}: it is no header of HTTP")]
    Header(String),
    /// Settings that do not go together.
    #[error("auth.http.{0}")]
    Setting(&'static str),
}

/// The service.
pub(crate) struct Service {
    form: Form,
    method: Method,
    headers: HeaderMap,
    user: Place,
    superuser: Option<Place>,
}

/// An address, and the server it is at.
struct Place {
    uri: Uri,
    server: Server,
}

/// An answer that says nothing that could be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("an answer that is not understood")]
    Form,
    #[error("rights that cannot be used: {0}")]
    Rights(#[from] rules::BadRules),
}

impl Service {
    pub(crate) fn new(config: &HttpConfig) -> Result<Self, BadService> {
        let place = |key, url: &str| {
            let bad = |error| BadService::Address(key, error);
            let uri: Uri = url.parse().map_err(|_| bad(BadAddress::Form))?;
            let server = Server::new(&uri, config.ca_file.as_deref(), config.pool.into());
            Ok(Place { server: server.map_err(bad)?, uri })
        };
        if config.superuser_url.is_some() && config.form == Form::Emqx {
            return Err(BadService::Setting(
                "superuser_url is of form = \"mosquitto-go-auth\": with \"emqx\" the answer has \
                 is_superuser",
            ));
        }
        if config.timeout_ms == 0 || config.pool == 0 || config.queue == 0 {
            return Err(BadService::Setting("timeout_ms, pool and queue must be at least 1"));
        }
        if config.cache_s > CACHE_S_MAX {
            return Err(BadService::Setting("cache_s must be 3600 at most"));
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        for (name, value) in &config.headers {
            let bad = || BadService::Header(name.clone());
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
            headers.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
        }
        let superuser = config.superuser_url.as_deref();
        Ok(Self {
            form: config.form,
            method: config.method,
            headers,
            user: place("url", &config.url)?,
            superuser: superuser.map(|url| place("superuser_url", url)).transpose()?,
        })
    }

    /// What the service says of a client.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, NoAnswer> {
        let Question { client_id, user_name, password, peer } = question;
        let password = password.as_deref().map(str::from_utf8);
        let Ok(password) = password.transpose() else {
            // No text of JSON has such a password.
            return Ok(Answer::Deny);
        };
        match self.form {
            Form::Emqx => {
                let peer = peer.map(|peer| peer.to_string());
                let (status, body) = self
                    .send(
                        &self.user,
                        &[
                            ("clientid", Some(client_id)),
                            ("username", user_name.as_deref()),
                            ("password", password),
                            ("peerhost", peer.as_deref()),
                        ],
                    )
                    .await?;
                let names = Names { client_id, user: user_name.as_deref() };
                emqx(status, &body, names)
            }
            Form::MosquittoGoAuth => {
                let user_name = user_name.as_deref().unwrap_or_default();
                let of_user = [
                    ("username", Some(user_name)),
                    ("password", Some(password.unwrap_or_default())),
                    ("clientid", Some(client_id)),
                ];
                let (status, body) = self.send(&self.user, &of_user).await?;
                if !is_yes(status, &body)? {
                    return Ok(Answer::Deny);
                }
                let mut identity = Identity::default();
                if let Some(superuser) = &self.superuser {
                    let (status, body) =
                        self.send(superuser, &[("username", Some(user_name))]).await?;
                    if is_yes(status, &body)? {
                        identity.rights = Rights::All;
                    }
                }
                Ok(Answer::Allow(Box::new(identity)))
            }
        }
    }

    async fn send(
        &self,
        Place { uri, server }: &Place,
        parts: &[(&str, Option<&str>)],
    ) -> Result<(StatusCode, Bytes), Fault> {
        let path = uri.path_and_query().map_or("/", |it| it.as_str());
        let (method, target, body) = match self.method {
            Method::Post => {
                let of = |&(name, value): &(&str, Option<&str>)| (name.to_owned(), json!(value));
                let body: serde_json::Map<String, Value> = parts.iter().map(of).collect();
                (hyper::Method::POST, path.to_owned(), Value::Object(body).to_string())
            }
            Method::Get => {
                let mut target = path.to_owned();
                for (name, value) in
                    parts.iter().filter_map(|(name, value)| Some((name, (*value)?)))
                {
                    target.push(if target.contains('?') { '&' } else { '?' });
                    let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                    target += &format!("{name}={value}");
                }
                (hyper::Method::GET, target, String::new())
            }
        };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        // A target is made of what is encoded, and so always is one; a very long one is not.
        *request.uri_mut() = target.parse().map_err(|_| Fault::Body("too long".into()))?;
        *request.headers_mut() = self.headers.clone();
        if method == hyper::Method::POST {
            let json = HeaderValue::from_static("application/json");
            request.headers_mut().insert(CONTENT_TYPE, json);
        }
        *request.method_mut() = method;
        server.ask(request, ANSWER_BYTES_MAX).await
    }
}

/// What a service of EMQX's form says.
pub(crate) fn emqx(status: StatusCode, body: &[u8], names: Names<'_>) -> Result<Answer, NoAnswer> {
    #[derive(Deserialize)]
    struct Said {
        result: SaidResult,
        #[serde(default)]
        is_superuser: bool,
        acl: Option<Value>,
        expire_at: Option<u64>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum SaidResult {
        Allow,
        Deny,
        Ignore,
    }
    match status {
        StatusCode::OK => {}
        StatusCode::NO_CONTENT => return Ok(Answer::Allow(Box::default())),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Ok(Answer::Deny),
        status => return Err(NoAnswer::Status(status)),
    }
    let said: Said = serde_json::from_slice(body).map_err(|_| NoAnswer::Form)?;
    match said.result {
        SaidResult::Deny => return Ok(Answer::Deny),
        SaidResult::Ignore => return Ok(Answer::Ignore),
        SaidResult::Allow => {}
    }
    let rights = match said.acl {
        _ if said.is_superuser => Rights::All,
        None | Some(Value::Null) => Rights::Policy,
        Some(acl) => Rights::Rules(rules::parse(&acl, names)?),
    };
    Ok(Answer::Allow(Box::new(Identity { user: None, rights, expires_at_s: said.expire_at })))
}

/// Whether a service of mosquitto-go-auth's form says yes: by its status, and by `Ok` or a text
/// where its answer has that.
fn is_yes(status: StatusCode, body: &[u8]) -> Result<bool, NoAnswer> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "Ok", alias = "ok")]
        is_ok: bool,
    }
    match status {
        status if status.is_success() => match serde_json::from_slice::<Said>(body) {
            Ok(said) => Ok(said.is_ok),
            Err(_) if body.is_empty() || body.eq_ignore_ascii_case(b"ok") => Ok(true),
            Err(_) => Err(NoAnswer::Form),
        },
        status if status.is_client_error() => Ok(false),
        status => Err(NoAnswer::Status(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names { client_id: "c1", user: Some("ann") };

    #[test]
    fn what_is_printed_to_find_faults_shows_no_secret() {
        let secret = || "hush".to_owned();
        let question = Question {
            client_id: "c1".into(),
            user_name: Some(secret()),
            password: Some(secret().into()),
            peer: None,
        };
        let config: HttpConfig = serde_json::from_value(json!({
            "url": "http://it/?key=hush",
            "superuser_url": "http://it/?key=hush",
            "headers": {"x-key": "hush"},
        }))
        .unwrap();
        let shown = format!("{question:?} {config:?}");
        assert!(shown.contains("c1") && shown.contains("x-key"), "{shown}");
        let bytes = format!("{:?}", secret().into_bytes());
        assert!(!shown.contains("hush") && !shown.contains(&bytes), "{shown}");
    }

    fn said(status: u16, body: &str) -> String {
        match emqx(StatusCode::from_u16(status).unwrap(), body.as_bytes(), NAMES) {
            Ok(Answer::Allow(identity)) => {
                format!("{:?} {:?}", identity.rights, identity.expires_at_s)
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn answers_of_emqxs_form_are_understood_or_let_nobody_in() {
        for (status, body, expected) in [
            (200, r#"{"result":"allow"}"#, "Policy None"),
            (204, "", "Policy None"),
            (200, r#"{"result":"deny","is_superuser":true}"#, "Deny"),
            (200, r#"{"result":"ignore"}"#, "Ignore"),
            (401, r#"{"result":"allow"}"#, "Deny"),
            (403, "", "Deny"),
            (200, r#"{"result":"allow","is_superuser":true,"acl":[]}"#, "All None"),
            (200, r#"{"result":"allow","acl":[],"expire_at":7}"#, "Rules([]) Some(7)"),
            (200, r#"{"result":"allow","acl":null,"client_attrs":{"a":"b"}}"#, "Policy None"),
            (200, "", "an answer that is not understood"),
            (200, "allow", "an answer that is not understood"),
            (200, r#"{"result":"maybe"}"#, "an answer that is not understood"),
            (200, r#"{"result":"allow","is_superuser":"no"}"#, "an answer that is not understood"),
            (200, r#"{"result":"allow","expire_at":"soon"}"#, "an answer that is not understood"),
            (500, r#"{"result":"allow"}"#, "status 500 Internal Server Error"),
            (302, "", "status 302 Found"),
        ] {
            assert_eq!(said(status, body), expected, "{status} {body}");
        }
        let acl = said(200, r#"{"result":"allow","acl":[{"permission":"allow"}]}"#);
        assert!(acl.starts_with("rights that cannot be used"), "{acl}");
    }

    #[test]
    fn answers_of_mosquitto_go_auths_form_are_a_status_or_say_ok() {
        for (status, body, expected) in [
            (200, "", Some(true)),
            (200, r#"{"Ok":true,"Error":""}"#, Some(true)),
            (200, r#"{"Ok":false,"Error":"no"}"#, Some(false)),
            (200, r#"{"ok":false}"#, Some(false)),
            (401, "", Some(false)),
            (404, r#"{"Ok":true}"#, Some(false)),
            (200, "ok", Some(true)),
            (200, "<html>", None),
            (500, "", None),
            (301, "", None),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_yes(status, body.as_bytes()).ok(), expected, "{status} {body}");
        }
    }
}
