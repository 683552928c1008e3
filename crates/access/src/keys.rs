//! The keys that tokens are checked by, each for the algorithms of its own kind only.

use crate::claims::{BadToken, Claims};
use crate::config::JwtConfig;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Keys of one set; further ones are left out.
const KEYS_MAX: usize = 256;

/// Keys that one token is held against.
const TRIES_MAX: usize = 8;

/// Bytes of a token; a longer one is none.
pub(crate) const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a secret, as RFC 7518 demands them for HS256.
const SECRET_BYTES_MIN: usize = 32;

/// All keys there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    /// From the files.
    fixed: Vec<Key>,
    /// From the set.
    listed: Vec<Key>,
}

#[derive(Clone, Debug)]
struct Key {
    /// Its name, if it has one.
    id: Option<String>,
    /// The only algorithm it is for, if it says one.
    algorithm: Option<Algorithm>,
    key: DecodingKey,
}

/// Why keys cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read.
    #[error("auth.jwt.{key}: cannot read {}: {source}", path.display())]
    Read {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("auth.jwt.{key}: {}: {rule}", path.display())]
    Unfit {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What it has to be.
        rule: String,
    },
    /// Keys and algorithms do not go together.
    #[error("auth.jwt.{0}")]
    Setting(String),
}

impl Keys {
    /// Those of the files. A set from an address is not there yet.
    ///
    /// # Errors
    /// A file that cannot be used, an algorithm without a key, a key without an algorithm.
    pub(crate) fn read(config: &JwtConfig) -> Result<Self, KeyError> {
        if config.algorithms.is_empty() {
            return Err(KeyError::Setting("algorithms: name at least one".into()));
        }
        let mut keys = Self::default();
        let JwtConfig { secret_file, public_key, jwks, .. } = config;
        if let Some(path) = secret_file {
            keys.fixed.push(secret(config, path)?);
        }
        if let Some(path) = public_key {
            keys.fixed.push(public(config, path)?);
        }
        match jwks {
            Some(source) if !is_address(source) => {
                let path = Path::new(source);
                let unfit = |rule: String| KeyError::Unfit { key: "jwks", path: path.into(), rule };
                keys.listed = parse_set(&read("jwks", path)?).map_err(unfit)?;
            }
            Some(_) => {}
            None => keys.check_all_have_keys(config)?,
        }
        Ok(keys)
    }

    fn check_all_have_keys(&self, config: &JwtConfig) -> Result<(), KeyError> {
        let has_key = |algorithm: &&Algorithm| self.fixed.iter().any(|key| key.fits(**algorithm));
        match config.algorithms.iter().find(|algorithm| !has_key(algorithm)) {
            None => Ok(()),
            Some(algorithm) => {
                let rule = "needs a key: secret_file for HS*, public_key or jwks for others";
                Err(KeyError::Setting(format!("algorithms: {algorithm:?} {rule}")))
            }
        }
    }

    /// The set is another from now on.
    pub(crate) fn set_listed(&mut self, text: &[u8]) -> Result<usize, String> {
        self.listed = parse_set(text)?;
        Ok(self.listed.len())
    }

    /// The set stays that of `old`: nobody has fetched another.
    pub(crate) fn keep_listed(&mut self, old: &Self) {
        self.listed = old.listed.clone();
    }

    /// Whether none is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.listed.is_empty()
    }

    /// The claims of a token that is signed by one of the keys.
    pub(crate) fn verify(&self, token: &[u8], allowed: &[Algorithm]) -> Result<Claims, BadToken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(BadToken::Form);
        }
        let header = decode_header(token).map_err(|_| BadToken::Form)?;
        if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
            return Err(BadToken::Form);
        }
        if !allowed.contains(&header.alg) {
            return Err(BadToken::Algorithm);
        }
        let id = header.kid.as_deref();
        let is_named = |key: &&Key| key.id.is_none() || id.is_none() || key.id.as_deref() == id;
        let fitting = self.fixed.iter().chain(&self.listed);
        let mut fitting = fitting.filter(|key| key.fits(header.alg)).filter(is_named).peekable();
        if fitting.peek().is_none() {
            return Err(BadToken::UnknownKey);
        }
        // The times of the claims are checked with a clock that is given.
        let mut validation = Validation::new(header.alg);
        validation.required_spec_claims.clear();
        (validation.validate_exp, validation.validate_aud) = (false, false);
        let right = fitting.take(TRIES_MAX).find_map(|key| {
            decode::<Claims>(token, &key.key, &validation).ok().map(|token| token.claims)
        });
        right.ok_or(BadToken::Signature)
    }
}

impl Key {
    fn fits(&self, algorithm: Algorithm) -> bool {
        self.key.family() == algorithm.family() && self.algorithm.is_none_or(|it| it == algorithm)
    }
}

/// Whether a set of keys is fetched, and no file.
pub(crate) fn is_address(source: &str) -> bool {
    source.starts_with("http://") || source.starts_with("https://")
}

fn read(key: &'static str, path: &Path) -> Result<Vec<u8>, KeyError> {
    std::fs::read(path).map_err(|source| KeyError::Read { key, path: path.into(), source })
}

fn secret(config: &JwtConfig, path: &Path) -> Result<Key, KeyError> {
    let unfit = |rule: &str| KeyError::Unfit {
        key: "secret_file",
        path: path.into(),
        rule: rule.to_owned(),
    };
    if !config.algorithms.iter().any(|it| it.family() == AlgorithmFamily::Hmac) {
        return Err(KeyError::Setting("secret_file: no algorithm is HS256, HS384 or HS512".into()));
    }
    let text = read("secret_file", path)?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.starts_with(b"-----BEGIN") {
        return Err(unfit("it is a key in PEM, and no secret; name it as public_key"));
    }
    if text.len() < SECRET_BYTES_MIN {
        return Err(unfit("a secret has 32 bytes at least, so that nobody finds it by trying"));
    }
    Ok(Key { id: None, algorithm: None, key: DecodingKey::from_secret(text) })
}

type ParsePem = fn(&[u8]) -> jsonwebtoken::errors::Result<DecodingKey>;

fn public(config: &JwtConfig, path: &Path) -> Result<Key, KeyError> {
    let text = read("public_key", path)?;
    let is_public = text.windows(10).any(|part| part == b"PUBLIC KEY");
    let kinds: [(AlgorithmFamily, ParsePem); 3] = [
        (AlgorithmFamily::Rsa, DecodingKey::from_rsa_pem),
        (AlgorithmFamily::Ec, DecodingKey::from_ec_pem),
        (AlgorithmFamily::Ed, DecodingKey::from_ed_pem),
    ];
    let is_asked = |kind| config.algorithms.iter().any(|it| it.family() == kind);
    let mut asked = kinds.into_iter().filter(|(kind, _)| is_asked(*kind));
    let key = asked.find_map(|(_, parse)| parse(&text).ok()).filter(|_| is_public);
    let rule = "it is no public key in PEM (SubjectPublicKeyInfo) for one of auth.jwt.algorithms";
    let unfit = || KeyError::Unfit { key: "public_key", path: path.into(), rule: rule.to_owned() };
    Ok(Key { id: None, algorithm: None, key: key.ok_or_else(unfit)? })
}

/// The keys of a set that are for signatures of a kind that is known. Others are left out: a set
/// may have keys for other uses.
fn parse_set(text: &[u8]) -> Result<Vec<Key>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(text)
        .map_err(|_| "it is no set of keys: {\"keys\": [...]} (RFC 7517)".to_owned())?;
    Ok(set.keys.into_iter().filter_map(key_of).take(KEYS_MAX).collect())
}

fn key_of(value: Value) -> Option<Key> {
    let names_algorithm = value.get("alg").is_some();
    let jwk = Jwk::deserialize(value).ok()?;
    if jwk.common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
        return None;
    }
    let algorithm = jwk.common.key_algorithm.and_then(|it| it.to_string().parse().ok());
    if names_algorithm && algorithm.is_none() {
        return None;
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    let is_weak = key.try_get_hmac_secret().is_ok_and(|it| it.len() < SECRET_BYTES_MIN);
    (!is_weak).then_some(Key { id: jwk.common.key_id, algorithm, key })
}
