//! Files and claims that say who may come in: whatever is in them, nothing panics, and a client never
//! gets more than they say.

use crate::auth;
use serde_json::{Value, json};
use weir_access::{Action, JwtConfig, Names, Rights, RULES_MAX, Rule, identify};
use weir_core::{Grant, OwnRules};

/// The files of passwords, rights and bans. The first byte says which.
pub fn files(bytes: &[u8]) {
    let Some((which, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let result = match which % 3 {
        0 => auth::check_passwords(text),
        1 => auth::check_rights(text),
        _ => auth::check_bans(text),
    };
    if let Err(bad) = result {
        assert!((1..=text.lines().count()).contains(&bad.line), "line {}", bad.line);
    }
}

/// The claims of a token whose signature was right. Up to the first two lines they are the names of
/// the client.
pub fn claims(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut parts = text.splitn(3, '\n');
    let (Some(client_id), Some(user), Some(text)) = (parts.next(), parts.next(), parts.next())
    else {
        return;
    };
    let Ok(Value::Object(claims)) = serde_json::from_str(text) else { return };
    let config = json!({"algorithms": ["ES256"], "claims": {"dev": "%c"}, "leeway_s": 5});
    let config: JwtConfig = serde_json::from_value(config).expect("it is one");
    let names = Names { client_id, user: Some(user).filter(|user| !user.is_empty()) };
    const NOW_S: u64 = 1_800_000_000;
    let Ok(identity) = identify(&claims, &config, names, NOW_S) else { return };
    let user = identity.user.expect("a token has one");
    assert_eq!(claims["sub"], user);
    assert_eq!(claims["dev"], client_id);
    assert!(identity.expires_at_s.expect("exp has to be there") > NOW_S);
    let Rights::Rules(rules) = identity.rights else {
        assert!(!claims.contains_key("acl"));
        return;
    };
    assert!(rules.len() <= RULES_MAX);
    let grant = |rule: &Rule| match (rule.allows, rule.action) {
        (true, Action::Publish) => Grant::Write,
        (true, Action::Subscribe) => Grant::Read,
        (true, Action::All) => Grant::ReadWrite,
        (false, _) => Grant::Deny,
    };
    let own = OwnRules::new(rules.iter().map(|rule| (grant(rule), &*rule.filter)));
    assert!(own.is_ok(), "the core knows these filters: {rules:?}");
    // A name brings no wildcard and no level that begins with a dollar sign into a filter.
    let acl = claims["acl"].to_string();
    for rule in rules.iter().filter(|rule| rule.allows) {
        assert!(!rule.filter.contains(['+', '#']) || acl.contains(['+', '#']), "{rule:?}");
        assert!(!rule.filter.starts_with('$') || acl.contains('$'), "{rule:?}");
    }
}
