//! The bytes of etcd's JSON gateway: keys and values are base64, whole numbers are texts, and what
//! is zero, false or empty is not there.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use weir_cluster::{Ask, Cas, Change, Failure, LeaseId, Record, Revision, Said};

/// How tokens are had.
pub(crate) const AUTHENTICATE: &str = "/v3/auth/authenticate";

/// Why there is no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The token is not known, or not any more.
    #[error("{0}")]
    Token(String),
    /// This member cannot do it now; another may.
    #[error("{0}")]
    Away(String),
    /// Anything else, such as a right that is missing.
    #[error("{0}")]
    Other(String),
}

/// The path and the body of a question.
pub(crate) fn request(ask: &Ask) -> (&'static str, String) {
    let (path, body) = match ask {
        Ask::Get { key } => ("/v3/kv/range", json!({ "key": encode(key) })),
        Ask::Range { prefix } => ("/v3/kv/range", below(prefix)),
        Ask::Cas(cas) => ("/v3/kv/txn", txn(cas)),
        Ask::Grant { ttl_s } => ("/v3/lease/grant", json!({ "TTL": ttl_s.to_string() })),
        Ask::KeepAlive { lease, .. } => {
            ("/v3/lease/keepalive", json!({ "ID": lease.0.to_string() }))
        }
        Ask::Revoke { lease } => ("/v3/lease/revoke", json!({ "ID": lease.0.to_string() })),
        Ask::Watch { prefix, from } => {
            let mut create = below(prefix);
            create["start_revision"] = json!(from.0.to_string());
            ("/v3/watch", json!({ "create_request": create }))
        }
    };
    (path, body.to_string())
}

fn txn(Cas { key, value, lease, compared }: &Cas) -> Value {
    let compare = |(key, revision): &(String, Revision)| {
        json!({
            "key": encode(key),
            "target": "MOD",
            "result": "EQUAL",
            "mod_revision": revision.0.to_string(),
        })
    };
    let compared: Vec<Value> = compared.iter().map(compare).collect();
    let success = match value {
        Some(value) => {
            let lease = lease.map_or(0, |lease| lease.0).to_string();
            json!({ "request_put": { "key": encode(key), "value": encode(value), "lease": lease } })
        }
        None => json!({ "request_delete_range": { "key": encode(key) } }),
    };
    json!({ "compare": compared, "success": [success] })
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// All keys that begin so.
fn below(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    // The first key behind them. No text has the byte 255; behind the empty one is no end.
    match end.last_mut() {
        Some(last) => *last += 1,
        None => end.push(0),
    }
    let key = if prefix.is_empty() { "\0" } else { prefix };
    json!({ "key": encode(key), "range_end": encode(end) })
}

/// What an answer says of a question. A watch has [`changes`].
pub(crate) fn said(ask: &Ask, status: StatusCode, body: &[u8]) -> Result<Said, Refusal> {
    if status != StatusCode::OK {
        return match (ask, failure(status, body)?) {
            (Ask::Revoke { .. }, Failure::LeaseGone) => Ok(Said::Revoked),
            (_, failure) => Ok(Said::Failed(failure)),
        };
    }
    Ok(match ask {
        Ask::Get { .. } | Ask::Range { .. } => {
            let Ranged { header, kvs } = read(body)?;
            let records = kvs.into_iter().filter_map(KeyValue::record).collect();
            Said::Found { records, revision: header.revision() }
        }
        Ask::Cas(_) => match read(body)? {
            Written { header, succeeded: true } => Said::Written { revision: header.revision() },
            Written { .. } => Said::Failed(Failure::Different),
        },
        Ask::Grant { .. } => {
            let Leased { id, .. } = read(body)?;
            Said::Granted { lease: LeaseId(id) }
        }
        Ask::KeepAlive { .. } => match read::<Kept>(body)?.result {
            // Of one that has ended it says only so.
            Leased { ttl, .. } if ttl <= 0 => Said::Failed(Failure::LeaseGone),
            Leased { .. } => Said::Renewed,
        },
        Ask::Revoke { .. } => Said::Revoked,
        Ask::Watch { .. } => return Err(Refusal::Other("an answer to a watch as a whole".into())),
    })
}

/// What a line of a watch tells; nothing if it only says that it has begun or goes on.
pub(crate) fn changes(line: &[u8]) -> Result<Said, Refusal> {
    let told: Told = read(line)?;
    let Some(watched) = told.result else {
        return failure(StatusCode::INTERNAL_SERVER_ERROR, line).map(Said::Failed);
    };
    if watched.compact_revision > 0 {
        return Ok(Said::Failed(Failure::Compacted));
    }
    if watched.canceled {
        return Err(Refusal::Other(format!("the watch has ended: {}", watched.cancel_reason)));
    }
    let changes = watched.events.into_iter().filter_map(|Event { kind, kv }| {
        let record = kv.record()?;
        let Record { key, revision, .. } = record;
        Some(match kind {
            Kind::Put => Change::Put(Record { key, ..record }),
            Kind::Delete => Change::Gone { key, revision },
        })
    });
    Ok(Said::Changed { changes: changes.collect() })
}

/// The token of a user who was let in.
pub(crate) fn token(status: StatusCode, body: &[u8]) -> Result<String, Refusal> {
    #[derive(Deserialize)]
    struct Authenticated {
        token: String,
    }
    if status == StatusCode::OK {
        return Ok(read::<Authenticated>(body)?.token);
    }
    Err(failure(status, body).map_or_else(|it| it, |it| Refusal::Other(it.to_string())))
}

/// What an error means.
fn failure(status: StatusCode, body: &[u8]) -> Result<Failure, Refusal> {
    let error: Value = serde_json::from_slice(body).unwrap_or_default();
    // Errors have been written in three ways.
    let texts = [&error["message"], &error["error"], &error["error"]["message"]];
    let text = texts.into_iter().find_map(Value::as_str).unwrap_or("no reason");
    if text.contains("requested lease not found") {
        return Ok(Failure::LeaseGone);
    }
    if text.contains("required revision has been compacted") {
        return Ok(Failure::Compacted);
    }
    let said = format!("{status}: {text}");
    Err(if status == StatusCode::UNAUTHORIZED || text.contains("invalid auth token") {
        Refusal::Token(said)
    } else if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        Refusal::Away(said)
    } else {
        Refusal::Other(said)
    })
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::Other(format!("an answer that is not etcd's: {error}")))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Header {
    #[serde(deserialize_with = "number")]
    revision: i64,
}

impl Header {
    fn revision(&self) -> Revision {
        Revision(self.revision.unsigned_abs())
    }
}

#[derive(Deserialize)]
struct Ranged {
    header: Header,
    #[serde(default)]
    kvs: Vec<KeyValue>,
}

#[derive(Deserialize)]
struct Written {
    header: Header,
    #[serde(default)]
    succeeded: bool,
}

#[derive(Deserialize)]
struct Leased {
    #[serde(rename = "ID", deserialize_with = "number")]
    id: i64,
    #[serde(rename = "TTL", default, deserialize_with = "number")]
    ttl: i64,
}

#[derive(Deserialize)]
struct Kept {
    result: Leased,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct KeyValue {
    key: String,
    value: String,
    #[serde(deserialize_with = "number")]
    mod_revision: i64,
    #[serde(deserialize_with = "number")]
    lease: i64,
}

impl KeyValue {
    /// None if its key is no text, and so none of ours.
    fn record(self) -> Option<Record> {
        let key = BASE64_STANDARD.decode(self.key).ok()?;
        Some(Record {
            key: String::from_utf8(key).ok()?,
            value: BASE64_STANDARD.decode(self.value).ok()?,
            revision: Revision(self.mod_revision.unsigned_abs()),
            lease: Some(self.lease).filter(|&lease| lease != 0).map(LeaseId),
        })
    }
}

#[derive(Deserialize)]
struct Told {
    result: Option<Watched>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Watched {
    canceled: bool,
    cancel_reason: String,
    #[serde(deserialize_with = "number")]
    compact_revision: i64,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: Kind,
    kv: KeyValue,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    #[default]
    Put,
    Delete,
}

/// A whole number, which is written as a text.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Number(i64),
    }
    match Either::deserialize(from)? {
        Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
        Either::Number(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: StatusCode = StatusCode::OK;

    fn range() -> Ask {
        Ask::Range { prefix: "foo".into() }
    }

    #[test]
    fn a_range_asks_for_all_keys_that_begin_so() {
        let body = r#"{"key":"Zm9v","range_end":"Zm9w"}"#;
        assert_eq!(request(&range()), ("/v3/kv/range", body.to_owned()));
        let body = r#"{"key":"AA==","range_end":"AA=="}"#;
        assert_eq!(request(&Ask::Range { prefix: String::new() }).1, body);
        assert_eq!(request(&Ask::Get { key: "foo".into() }).1, r#"{"key":"Zm9v"}"#);
    }

    #[test]
    fn a_cas_compares_all_its_keys_and_writes_one() {
        let compared = vec![("foo".to_owned(), Revision::NONE), ("bar".to_owned(), Revision(7))];
        let (key, lease) = ("foo".to_owned(), Some(LeaseId(12)));
        let cas = Cas { key: key.clone(), value: Some(b"x".to_vec()), lease, compared };
        let (path, body) = request(&Ask::Cas(cas));
        assert_eq!(path, "/v3/kv/txn");
        let equal = r#""target":"MOD","result":"EQUAL","mod_revision""#;
        let compare = format!(r#"[{{"key":"Zm9v",{equal}:"0"}},{{"key":"YmFy",{equal}:"7"}}]"#);
        let put = r#"{"request_put":{"key":"Zm9v","value":"eA==","lease":"12"}}"#;
        assert_eq!(body, format!(r#"{{"compare":{compare},"success":[{put}]}}"#));
        let cas = Cas { key, value: None, lease: None, compared: Vec::new() };
        let delete = r#"{"compare":[],"success":[{"request_delete_range":{"key":"Zm9v"}}]}"#;
        assert_eq!(request(&Ask::Cas(cas)).1, delete);
    }

    #[test]
    fn a_watch_begins_at_its_revision() {
        let watch = Ask::Watch { prefix: "foo".into(), from: Revision(8) };
        let create = r#"{"key":"Zm9v","range_end":"Zm9w","start_revision":"8"}"#;
        let body = format!(r#"{{"create_request":{create}}}"#);
        assert_eq!(request(&watch), ("/v3/watch", body));
    }

    #[test]
    fn what_was_found_has_revisions_and_leases() {
        let body = r#"{"header":{"cluster_id":"1","revision":"9"},"kvs":[
            {"key":"Zm9v","create_revision":"2","mod_revision":"5","version":"3","value":"YmFy",
             "lease":"77"},
            {"key":"Zm9vMg==","create_revision":"2","mod_revision":"2","version":"1"},
            {"key":"/w==","mod_revision":"3"}],"count":"3"}"#;
        let record = |key: &str, value: &[u8], revision, lease| Record {
            key: key.into(),
            value: value.into(),
            revision: Revision(revision),
            lease,
        };
        let records =
            vec![record("foo", b"bar", 5, Some(LeaseId(77))), record("foo2", b"", 2, None)];
        let found = Said::Found { records, revision: Revision(9) };
        assert_eq!(said(&range(), OK, body.as_bytes()), Ok(found));
        let none = Said::Found { records: Vec::new(), revision: Revision(1) };
        assert_eq!(said(&range(), OK, br#"{"header":{"revision":"1"}}"#), Ok(none));
    }

    #[test]
    fn answers_to_writes_and_leases_are_understood() {
        let lease = LeaseId(7);
        let keep_alive = Ask::KeepAlive { lease, key: "a".into() };
        let cas = Ask::Cas(Cas { key: "a".into(), value: None, lease: None, compared: vec![] });
        let gone = r#"{"error":"etcdserver: requested lease not found","code":5}"#;
        let newer = r#"{"code":5,"message":"etcdserver: requested lease not found","details":[]}"#;
        let written = Said::Written { revision: Revision(4) };
        let lease_gone = || Said::Failed(Failure::LeaseGone);
        for (ask, status, body, expected) in [
            (&cas, 200, r#"{"header":{"revision":"4"},"succeeded":true,"responses":[]}"#, written),
            (&cas, 200, r#"{"header":{"revision":"4"}}"#, Said::Failed(Failure::Different)),
            (&cas, 404, gone, lease_gone()),
            (&cas, 404, newer, lease_gone()),
            (&Ask::Grant { ttl_s: 6 }, 200, r#"{"ID":"7","TTL":"6"}"#, Said::Granted { lease }),
            (&keep_alive, 200, r#"{"result":{"ID":"7","TTL":"6"}}"#, Said::Renewed),
            (&keep_alive, 200, r#"{"result":{"ID":"7"}}"#, lease_gone()),
            (&Ask::Revoke { lease }, 200, r#"{"header":{}}"#, Said::Revoked),
            (&Ask::Revoke { lease }, 404, gone, Said::Revoked),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(said(ask, status, body.as_bytes()), Ok(expected), "{status} {body}");
        }
    }

    #[test]
    fn refusals_say_whether_another_member_or_another_token_would_help() {
        let refused = |status, body: &str| {
            said(&range(), StatusCode::from_u16(status).unwrap(), body.as_bytes()).unwrap_err()
        };
        let text = r#"{"error":"etcdserver: no leader","code":14}"#;
        assert!(matches!(refused(503, text), Refusal::Away(text) if text.contains("no leader")));
        let text = r#"{"error":"etcdserver: invalid auth token","code":16}"#;
        assert!(matches!(refused(401, text), Refusal::Token(_)));
        let text = r#"{"error":"etcdserver: permission denied","code":7}"#;
        assert!(matches!(refused(403, text), Refusal::Other(text) if text.contains("permission")));
        for body in ["", "[]", "{", r#"{"header":{"revision":"x"}}"#, "<html>"] {
            assert!(matches!(refused(200, body), Refusal::Other(_)), "{body}");
        }
    }

    #[test]
    fn lines_of_a_watch_tell_what_was_written_and_what_is_gone() {
        let created = br#"{"result":{"header":{"revision":"3"},"created":true}}"#;
        assert_eq!(changes(created), Ok(Said::Changed { changes: Vec::new() }));
        let line = br#"{"result":{"header":{"revision":"5"},"events":[
            {"kv":{"key":"Zm9v","mod_revision":"4","value":"YmFy"}},
            {"type":"DELETE","kv":{"key":"Zm9v","mod_revision":"5"}}]}}"#;
        let Ok(Said::Changed { changes: told }) = changes(line) else { panic!("no changes") };
        let (key, revision) = ("foo".to_owned(), Revision(5));
        assert!(matches!(&told[0], Change::Put(record) if record.value == b"bar"));
        assert_eq!(told[1], Change::Gone { key, revision });
        let compacted = br#"{"result":{"canceled":true,"compact_revision":"12"}}"#;
        assert_eq!(changes(compacted), Ok(Said::Failed(Failure::Compacted)));
        assert!(changes(br#"{"result":{"canceled":true}}"#).is_err());
        assert!(changes(br#"{"error":{"grpc_code":14,"message":"no leader"}}"#).is_err());
    }

    #[test]
    fn a_token_is_had_for_the_right_password() {
        assert_eq!(token(OK, br#"{"header":{},"token":"abc.9"}"#), Ok("abc.9".to_owned()));
        let wrong =
            br#"{"error":"etcdserver: authentication failed, invalid user ID or password"}"#;
        assert!(matches!(token(StatusCode::BAD_REQUEST, wrong), Err(Refusal::Other(_))));
    }
}
