//! Tokens for tests.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const SECRET: &str = "a secret of more than thirty-two bytes";

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// With these claims, signed with this secret.
pub(crate) fn token(secret: &str, claims: &serde_json::Value) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    encode(&Header::new(Algorithm::HS256), claims, &key).unwrap()
}
