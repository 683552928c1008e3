//! What the claims of a token say of a client, once its signature was found right.

use crate::config::JwtConfig;
use crate::rules::{BadRules, Names};
use crate::{Identity, Rights, rules};
use serde_json::{Map, Value};

/// The claims of a token.
pub type Claims = Map<String, Value>;

/// Bytes of a user name, as MQTT has it.
const USER_BYTES_MAX: usize = 65_535;

/// Why a client is not let in by a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadToken {
    /// It is not three parts of Base64 with JSON in them, or asks for what is not known here.
    #[error("it is no JSON web token")]
    Form,
    /// It is signed by an algorithm that is not among those of the configuration.
    #[error("its algorithm is not among auth.jwt.algorithms")]
    Algorithm,
    /// There is no key for its algorithm by the name that it has.
    #[error("its key is not known")]
    UnknownKey,
    /// The signature is another's.
    #[error("its signature is wrong")]
    Signature,
    /// It is over.
    #[error("it has expired")]
    Expired,
    /// It has no end.
    #[error("it has no exp")]
    NoExpiry,
    /// It is for later.
    #[error("it is not valid yet")]
    NotYet,
    /// A claim is missing, or not what it has to be.
    #[error("its claim {0} is missing or another")]
    Claim(String),
    /// The claim with the rights cannot be used.
    #[error("its rights cannot be used: {0}")]
    Rights(#[from] BadRules),
}

/// Who the client is by these claims. `now_s` is the time of day in seconds since 1970.
///
/// # Errors
/// The first claim that is not as it has to be.
pub fn identify(
    claims: &Claims,
    config: &JwtConfig,
    names: Names<'_>,
    now_s: u64,
) -> Result<Identity, BadToken> {
    let expires_at_s = check_times(claims, config, now_s)?;
    let bad = |claim: &str| BadToken::Claim(claim.to_owned());
    if let Some(issuer) = &config.issuer {
        text(claims, "iss").filter(|it| it == issuer).ok_or_else(|| bad("iss"))?;
    }
    if let Some(audience) = &config.audience {
        let is_it = |value: &Value| value.as_str() == Some(audience);
        let has_it = match claims.get("aud") {
            Some(Value::Array(all)) => all.iter().any(is_it),
            one => one.is_some_and(is_it),
        };
        has_it.then_some(()).ok_or_else(|| bad("aud"))?;
    }
    for (claim, expected) in &config.claims {
        let expected = filled(expected, names).ok_or_else(|| bad(claim))?;
        text(claims, claim).filter(|it| *it == expected).ok_or_else(|| bad(claim))?;
    }
    let user = text(claims, &config.user_claim)
        .filter(|user| !user.is_empty() && user.len() <= USER_BYTES_MAX && !user.contains('\0'));
    let user = user.ok_or_else(|| bad(&config.user_claim))?;
    let rights = match claims.get(&config.acl_claim) {
        None => Rights::Policy,
        Some(value) => {
            let names = Names { user: Some(user), ..names };
            Rights::Rules(rules::parse(value, names)?)
        }
    };
    Ok(Identity { user: Some(user.to_owned()), rights, expires_at_s })
}

/// Returns when a connection by these claims ends.
fn check_times(claims: &Claims, config: &JwtConfig, now_s: u64) -> Result<Option<u64>, BadToken> {
    let leeway_s = u64::from(config.leeway_s);
    for claim in ["nbf", "iat"] {
        if time(claims, claim)?.is_some_and(|from_s| now_s.saturating_add(leeway_s) < from_s) {
            return Err(BadToken::NotYet);
        }
    }
    let Some(expires_at_s) = time(claims, "exp")? else {
        let result = config.allow_without_exp.then_some(None);
        return result.ok_or(BadToken::NoExpiry);
    };
    // The clock of the issuer may be behind for as long as the token is used.
    let ends_at_s = expires_at_s.saturating_add(leeway_s);
    if ends_at_s <= now_s {
        return Err(BadToken::Expired);
    }
    Ok(Some(ends_at_s))
}

/// A time of day in seconds since 1970, which may have a fraction.
fn time(claims: &Claims, claim: &str) -> Result<Option<u64>, BadToken> {
    let Some(value) = claims.get(claim) else { return Ok(None) };
    let seconds = value.as_u64().or_else(|| {
        value.as_f64().filter(|seconds| (0.0..1e15).contains(seconds)).map(|seconds| seconds as u64)
    });
    seconds.map(Some).ok_or_else(|| BadToken::Claim(claim.to_owned()))
}

fn text<'a>(claims: &'a Claims, claim: &str) -> Option<&'a str> {
    claims.get(claim)?.as_str()
}

/// The text with the names in it; nothing if one is missing.
fn filled(text: &str, names: Names<'_>) -> Option<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        filled.push_str(before);
        // What is filled in is not looked at again.
        rest = if let Some(after) = after.strip_prefix('c') {
            filled.push_str(names.client_id);
            after
        } else if let Some(after) = after.strip_prefix('u') {
            filled.push_str(names.user?);
            after
        } else {
            filled.push('%');
            after
        };
    }
    filled.push_str(rest);
    Some(filled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{Action, Rule};
    use serde_json::json;

    const NOW: u64 = 1_800_000_000;
    const NAMES: Names<'_> = Names { client_id: "c1", user: Some("ann") };

    fn config(extra: &Value) -> JwtConfig {
        let mut config = json!({"algorithms": ["HS256"]});
        config.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(config).unwrap()
    }

    fn check(config: &JwtConfig, claims: &Value) -> Result<Identity, BadToken> {
        identify(claims.as_object().unwrap(), config, NAMES, NOW)
    }

    #[test]
    fn times_hold_with_the_leeway_and_exp_has_to_be_there() {
        let strict = config(&json!({}));
        let lax = config(&json!({"allow_without_exp": true, "leeway_s": 0}));
        for (config, claims, expected) in [
            (&strict, json!({"sub": "a"}), Err(BadToken::NoExpiry)),
            (&lax, json!({"sub": "a"}), Ok(None)),
            (&strict, json!({"sub": "a", "exp": NOW + 5}), Ok(Some(NOW + 35))),
            (&strict, json!({"sub": "a", "exp": NOW - 29}), Ok(Some(NOW + 1))),
            (&strict, json!({"sub": "a", "exp": NOW - 30}), Err(BadToken::Expired)),
            (&lax, json!({"sub": "a", "exp": NOW}), Err(BadToken::Expired)),
            (&lax, json!({"sub": "a", "exp": 1.9e9 + 0.5}), Ok(Some(1_900_000_000))),
            (&lax, json!({"sub": "a", "exp": u64::MAX}), Ok(Some(u64::MAX))),
            (&strict, json!({"sub": "a", "exp": u64::MAX}), Ok(Some(u64::MAX))),
            (&lax, json!({"sub": "a", "exp": "never"}), Err(BadToken::Claim("exp".into()))),
            (&lax, json!({"sub": "a", "exp": -1}), Err(BadToken::Claim("exp".into()))),
            (&lax, json!({"sub": "a", "exp": null}), Err(BadToken::Claim("exp".into()))),
            (&lax, json!({"sub": "a", "nbf": NOW}), Ok(None)),
            (&lax, json!({"sub": "a", "nbf": NOW + 1}), Err(BadToken::NotYet)),
            (&lax, json!({"sub": "a", "iat": NOW + 1}), Err(BadToken::NotYet)),
            (&strict, json!({"sub": "a", "exp": NOW + 5, "nbf": NOW + 30}), Ok(Some(NOW + 35))),
        ] {
            assert_eq!(check(config, &claims).map(|it| it.expires_at_s), expected, "{claims}");
        }
    }

    #[test]
    fn claims_are_held_against_the_names_of_the_client() {
        let config = config(&json!({
            "allow_without_exp": true, "issuer": "us", "audience": "mqtt", "user_claim": "name",
            "claims": {"sub": "%u", "dev": "d-%c", "odd": "100%"},
        }));
        let right = json!({
            "iss": "us", "aud": "mqtt", "name": "x", "sub": "ann", "dev": "d-c1", "odd": "100%",
        });
        assert_eq!(check(&config, &right).unwrap().user.as_deref(), Some("x"));
        for (claim, value) in [
            ("iss", json!("them")),
            ("iss", json!(["us"])),
            ("aud", json!("http")),
            ("aud", json!(["http", 7])),
            ("name", json!("")),
            ("name", json!(7)),
            ("sub", json!("bob")),
            ("dev", json!("d-%c")),
        ] {
            let mut wrong = right.clone();
            wrong[claim] = value;
            assert_eq!(check(&config, &wrong), Err(BadToken::Claim(claim.into())), "{wrong}");
            wrong.as_object_mut().unwrap().remove(claim);
            assert_eq!(check(&config, &wrong), Err(BadToken::Claim(claim.into())), "{wrong}");
        }
        let mut several = right.clone();
        several["aud"] = json!(["http", "mqtt"]);
        assert!(check(&config, &several).is_ok());
        let nobody = Names { user: None, ..NAMES };
        let unnamed = identify(right.as_object().unwrap(), &config, nobody, NOW);
        assert_eq!(unnamed, Err(BadToken::Claim("sub".into())));
    }

    /// Whoever may choose the identifier cannot name the user by it.
    #[test]
    fn a_name_that_looks_like_a_placeholder_is_not_filled_again() {
        let names = Names { client_id: "%u", user: Some("ann") };
        assert_eq!(filled("%c-%u-%%c", names).unwrap(), "%u-ann-%%u");
    }

    #[test]
    fn rights_are_the_users_of_the_token() {
        let config = config(&json!({"allow_without_exp": true}));
        let rule = Rule { allows: true, action: Action::Publish, filter: "up/eve".into() };
        let acl = json!([{"permission": "allow", "action": "publish", "topic": "up/${username}"}]);
        let claims = json!({"sub": "eve", "acl": acl});
        assert_eq!(check(&config, &claims).unwrap().rights, Rights::Rules(vec![rule]));
        let none = check(&config, &json!({"sub": "eve", "acl": []})).unwrap();
        assert_eq!(none.rights, Rights::Rules(Vec::new()), "an empty list grants nothing");
        let wrong = check(&config, &json!({"sub": "eve", "acl": "all"}));
        assert_eq!(wrong, Err(BadToken::Rights(BadRules::Form)));
    }
}
