//! Tokens of all kinds, right and wrong, and sets of keys that come and go.

use crate::desk::{Desk, question};
use crate::fake::{Act, Fake};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_access::{Answer, By, JwtConfig, Setup};

const SECRET: &str = "a secret of more than thirty-two bytes";

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn claims() -> Value {
    json!({"sub": "ann", "exp": now_s() + 600})
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("weir-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next start of the system clears it otherwise.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config(algorithms: &[&str], key: &str, path: &Path) -> JwtConfig {
    serde_json::from_value(json!({"algorithms": algorithms, key: path})).unwrap()
}

fn setup(jwt: JwtConfig) -> Setup {
    Setup { jwt: Some(jwt), http: None }
}

fn desk(jwt: JwtConfig) -> Desk {
    Desk::new(&setup(jwt)).unwrap()
}

fn sign(algorithm: Algorithm, kid: Option<&str>, key: &EncodingKey, claims: &Value) -> String {
    let header = Header { kid: kid.map(Into::into), ..Header::new(algorithm) };
    encode(&header, claims, key).unwrap()
}

fn secret(text: &str) -> EncodingKey {
    EncodingKey::from_secret(text.as_bytes())
}

/// Who is let in by a token.
fn user(desk: &Desk, token: &str) -> Result<String, Answer> {
    match desk.ask(By::Token, &question("c1", "anybody", token)) {
        Answer::Allow(identity) => Ok(identity.user.unwrap()),
        other => Err(other),
    }
}

fn ann() -> Result<String, Answer> {
    Ok("ann".into())
}

const DENIED: Result<String, Answer> = Err(Answer::Deny);
const UNFIT: Result<String, Answer> = Err(Answer::Unfit);

#[test]
fn a_token_of_each_kind_is_right_by_its_own_key_only() {
    let folder = Folder::new("kinds");
    let of = |kind| KeyPair::generate_for(kind).unwrap();
    let (p256, other) = (of(&PKCS_ECDSA_P256_SHA256), of(&PKCS_ECDSA_P256_SHA256));
    let (p384, ed, rsa) = (of(&PKCS_ECDSA_P384_SHA384), of(&PKCS_ED25519), of(&PKCS_RSA_SHA256));
    let signs = |pair: &KeyPair, algorithm: Algorithm| {
        let pem = pair.serialize_pem();
        let key = match algorithm {
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem.as_bytes()),
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_pem(pem.as_bytes()),
            _ => EncodingKey::from_rsa_pem(pem.as_bytes()),
        };
        sign(algorithm, None, &key.unwrap(), &claims())
    };
    let verified_by = |pair: &KeyPair, algorithms: &[&str]| {
        let file = folder.file("public.pem", &pair.public_key_pem());
        desk(config(algorithms, "public_key", &file))
    };
    for (pair, algorithm, name) in [
        (&p256, Algorithm::ES256, "ES256"),
        (&p384, Algorithm::ES384, "ES384"),
        (&ed, Algorithm::EdDSA, "EdDSA"),
        (&rsa, Algorithm::RS256, "RS256"),
        (&rsa, Algorithm::PS512, "PS512"),
    ] {
        let desk = verified_by(pair, &[name]);
        let token = signs(pair, algorithm);
        assert_eq!(user(&desk, &token), ann(), "{name}");
        assert_eq!(user(&desk, &token), ann(), "{name}");
        assert_eq!((desk.count("tokens_checked"), desk.count("tokens_known")), (1, 1));
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let bent = signature.replacen(
            &signature[10..11],
            if &signature[10..11] == "A" { "B" } else { "A" },
            1,
        );
        for wrong in [format!("{signed}.{bent}"), format!("{signed}."), format!("{signed}.AAAA")] {
            assert_eq!(user(&desk, &wrong), DENIED, "{name}: {wrong}");
        }
    }
    assert_eq!(user(&verified_by(&p256, &["ES256"]), &signs(&other, Algorithm::ES256)), DENIED);
    // RS256 and PS256 have keys of one kind, and are still two algorithms.
    assert_eq!(user(&verified_by(&rsa, &["RS256"]), &signs(&rsa, Algorithm::PS256)), DENIED);
    // A key of another curve.
    let desk = verified_by(&p256, &["ES256", "ES384"]);
    assert_eq!(user(&desk, &signs(&p384, Algorithm::ES384)), DENIED);
}

/// The public key is known to all: a token signed by it as if it were a secret is nobody's.
#[test]
fn a_public_key_is_no_secret_and_nothing_is_signed_by_none() {
    let folder = Folder::new("confused");
    let pair = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let pem = pair.public_key_pem();
    let public = folder.file("public.pem", &pem);
    let only = desk(config(&["RS256"], "public_key", &public));
    let mut both = config(&["RS256", "HS256"], "public_key", &public);
    both.secret_file = Some(folder.file("secret", SECRET));
    let both = desk(both);
    for confused in [
        sign(Algorithm::HS256, None, &secret(&pem), &claims()),
        sign(Algorithm::HS256, None, &secret(pem.trim_end()), &claims()),
    ] {
        assert_eq!(user(&only, &confused), DENIED);
        assert_eq!(user(&both, &confused), DENIED);
    }
    let right = sign(Algorithm::HS256, None, &secret(SECRET), &claims());
    assert_eq!((user(&only, &right), user(&both, &right)), (DENIED, ann()));
    let payload = URL_SAFE_NO_PAD.encode(claims().to_string());
    for header in [
        json!({"alg": "none"}),
        json!({"alg": "None"}),
        json!({"alg": "HS256", "crit": ["b64"], "b64": "false"}),
        json!({"typ": "JWT"}),
    ] {
        let header = URL_SAFE_NO_PAD.encode(header.to_string());
        for signature in ["", right.rsplit('.').next().unwrap()] {
            let token = format!("{header}.{payload}.{signature}");
            assert_eq!(user(&both, &token), DENIED, "{token}");
        }
    }
    assert_eq!(both.count("tokens_wrong"), 10);
}

#[test]
fn claims_count_once_the_signature_is_right() {
    let folder = Folder::new("claims");
    let mut config = config(&["HS256"], "secret_file", &folder.file("secret", SECRET));
    config.claims.insert("device".into(), "%c".into());
    let desk = desk(config);
    let now_s = now_s();
    for (claims, expected) in [
        (json!({"sub": "ann", "exp": now_s + 60, "device": "c1"}), ann()),
        (json!({"sub": "ann", "exp": now_s - 10, "device": "c1"}), ann()),
        (json!({"sub": "ann", "exp": now_s - 60, "device": "c1"}), UNFIT),
        (json!({"sub": "ann", "device": "c1"}), UNFIT),
        (json!({"sub": "ann", "exp": now_s + 60, "nbf": now_s + 60, "device": "c1"}), UNFIT),
        (json!({"sub": "ann", "exp": now_s + 60, "device": "c2"}), UNFIT),
        (json!({"exp": now_s + 60, "device": "c1"}), UNFIT),
    ] {
        let token = sign(Algorithm::HS256, None, &secret(SECRET), &claims);
        assert_eq!(user(&desk, &token), expected, "{claims}");
        // The second time its signature is known, and its claims are looked at all the same.
        assert_eq!(user(&desk, &token), expected, "{claims}");
    }
    assert_eq!(desk.count("tokens_known"), 7);
}

fn set_of(keys: &[(&str, &KeyPair)]) -> String {
    let keys: Vec<Value> = keys
        .iter()
        .map(|(kid, pair)| {
            let point = pair.public_key_raw();
            let [x, y] = [&point[1..33], &point[33..65]].map(|part| URL_SAFE_NO_PAD.encode(part));
            let (kty, crv, alg) = ("EC", "P-256", "ES256");
            json!({
                "kty": kty, "crv": crv, "alg": alg, "use": "sig", "kid": kid, "x": x, "y": y,
            })
        })
        .chain([json!({"kty": "odd"}), json!({"kty": "oct", "k": "c2hvcnQ"}), json!(7)])
        .collect();
    json!({"keys": keys}).to_string()
}

fn pair_of(kid: &str) -> (String, KeyPair, EncodingKey) {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let key = EncodingKey::from_ec_pem(pair.serialize_pem().as_bytes()).unwrap();
    (kid.to_owned(), pair, key)
}

#[test]
fn a_file_of_keys_has_them_by_name_and_is_read_again() {
    let folder = Folder::new("set");
    let [(_, first, signs_first), (_, second, signs_second)] = ["1", "2"].map(pair_of);
    let file = folder.file("set", &set_of(&[("1", &first)]));
    let jwt = config(&["ES256", "HS256"], "jwks", &file);
    let desk = desk(jwt.clone());
    let by_first = |kid| sign(Algorithm::ES256, kid, &signs_first, &claims());
    assert_eq!(user(&desk, &by_first(Some("1"))), ann());
    assert_eq!(user(&desk, &by_first(None)), ann(), "all keys are tried");
    assert_eq!(user(&desk, &by_first(Some("2"))), DENIED);
    // A short secret is left out, and an algorithm of another kind has no key.
    assert_eq!(user(&desk, &sign(Algorithm::HS256, None, &secret("short"), &claims())), DENIED);
    folder.file("set", &set_of(&[("2", &second)]));
    desk.asker.reload(setup(jwt).check().unwrap());
    assert_eq!(user(&desk, &by_first(Some("1"))), DENIED, "what was known is forgotten");
    assert_eq!(user(&desk, &sign(Algorithm::ES256, Some("2"), &signs_second, &claims())), ann());
}

/// One thread of the test says what the server has.
static SET: Mutex<Option<String>> = Mutex::new(None);

#[test]
fn keys_are_fetched_when_one_is_not_known_and_stay_when_they_cannot_be() {
    let [(_, first, signs_first), (_, _, signs_second)] = ["1", "2"].map(pair_of);
    let server = Fake::start(|_| match &*SET.lock().unwrap() {
        Some(set) => Act::Say(200, set.clone()),
        None => Act::Say(503, String::new()),
    });
    let url = server.url("/keys");
    let by = |kid: &str, key| sign(Algorithm::ES256, Some(kid), key, &claims());
    // While it was never fetched, nobody can say who is right.
    let down = desk(config(&["ES256"], "jwks", Path::new(&url)));
    assert_eq!(user(&down, &by("1", &signs_first)), Err(Answer::Unavailable));
    assert_eq!(down.count("keys_failed"), 1);
    *SET.lock().unwrap() = Some(set_of(&[("1", &first)]));
    let desk = desk(config(&["ES256"], "jwks", Path::new(&url)));
    assert_eq!(user(&desk, &by("1", &signs_first)), ann());
    let before = server.requests().len();
    for _ in 0..20 {
        let unfit = Err(Answer::Unfit);
        assert_eq!(user(&desk, &by("2", &signs_second)), unfit, "a key may be there soon");
    }
    assert_eq!(user(&desk, &by("1", &signs_second)), DENIED);
    assert_eq!(server.requests().len(), before, "not so soon again");
    assert_eq!(user(&desk, &by("1", &signs_first)), ann(), "the last good set stays");
    drop(server);
    assert_eq!(user(&desk, &by("1", &signs_first)), ann());
}

#[test]
fn a_new_key_is_fetched_once_a_token_names_it() {
    let [(_, first, signs_first), (_, second, signs_second)] = ["1", "2"].map(pair_of);
    let sets = Mutex::new(vec![set_of(&[("1", &first), ("2", &second)]), set_of(&[("1", &first)])]);
    let server = Fake::start(move |_| {
        let mut sets = sets.lock().unwrap();
        let set = if sets.len() > 1 { sets.pop().unwrap() } else { sets[0].clone() };
        Act::Say(200, set)
    });
    let mut jwt = config(&["ES256"], "jwks", Path::new(&server.url("/keys")));
    jwt.refresh_s = 1;
    let desk = desk(jwt);
    let by = |kid: &str, key| sign(Algorithm::ES256, Some(kid), key, &claims());
    assert_eq!(user(&desk, &by("1", &signs_first)), ann());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while user(&desk, &by("2", &signs_second)) != ann() {
        assert!(std::time::Instant::now() < until, "it is never fetched");
    }
}

#[test]
fn keys_that_cannot_be_used_are_named() {
    let folder = Folder::new("bad");
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let public = folder.file("public.pem", &pair.public_key_pem());
    let private = folder.file("private.pem", &pair.serialize_pem());
    let long = folder.file("long", SECRET);
    let short = folder.file("short", "secret\n");
    let set = folder.file("set", "[]");
    for (algorithms, key, path, part) in [
        (&["HS256"][..], "secret_file", &short, "32 bytes"),
        (&["HS256"], "secret_file", &public, "PEM"),
        (&["ES256"], "secret_file", &long, "no algorithm is HS256"),
        (&["HS256", "RS256"], "secret_file", &long, "RS256 needs a key"),
        (&["ES256"], "public_key", &private, "no public key"),
        (&["RS256"], "public_key", &public, "no public key"),
        (&["HS256"], "public_key", &public, "no public key"),
        (&[], "jwks", &set, "at least one"),
        (&["ES256"], "jwks", &set, "no set of keys"),
        (&["ES256"], "jwks", &folder.0.join("none"), "auth.jwt.jwks: cannot read"),
        (&["ES256"], "jwks", &PathBuf::from("http://"), "no address"),
    ] {
        let error = setup(config(algorithms, key, path)).check().unwrap_err().to_string();
        assert!(error.contains(part), "{key} {algorithms:?}: {error}");
    }
    let nothing: JwtConfig = serde_json::from_value(json!({"algorithms": []})).unwrap();
    assert!(setup(nothing).check().unwrap_err().to_string().contains("at least one"));
    let none = serde_json::from_value::<JwtConfig>(json!({"algorithms": ["none"]}));
    assert!(none.unwrap_err().to_string().contains("HS256"));
}
