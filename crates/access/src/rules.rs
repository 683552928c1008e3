//! What a client may do, as a token or a service says it: in EMQX's form, a list of rules or lists
//! of topics by what may be done with them.

use serde::Deserialize;
use serde_json::{Map, Value};

/// Rules of one client; a longer list cannot be used.
pub const RULES_MAX: usize = 1024;

/// A rule of one client, on a topic filter in which no placeholder is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it lets the client do it.
    pub allows: bool,
    /// Which of the two it is about.
    pub action: Action,
    /// The topic filter.
    pub filter: String,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// To publish.
    #[serde(alias = "pub")]
    Publish,
    /// To read, which is what a subscription is for.
    #[serde(alias = "sub")]
    Subscribe,
    /// Both.
    #[serde(alias = "pubsub")]
    All,
}

/// The names that placeholders stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// The client identifier: `${clientid}`, `%c`.
    pub client_id: &'a str,
    /// The user name, if there is one: `${username}`, `%u`.
    pub user: Option<&'a str>,
}

/// Why rights cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRules {
    /// They are neither a list of rules nor lists of topics.
    #[error("it is neither a list of {{permission, action, topic}} nor has it pub, sub and all")]
    Form,
    /// There are too many.
    #[error("it has more than {RULES_MAX} rules")]
    TooMany,
    /// A topic is no topic filter.
    #[error("{0} is no topic filter")]
    Filter(String),
}

#[derive(Deserialize)]
struct Listed {
    permission: Permission,
    #[serde(default = "all")]
    action: Action,
    topic: Option<String>,
    #[serde(default)]
    topics: Vec<String>,
    /// For what else it is to hold only, such as `qos` and `ipaddr`.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Permission {
    Allow,
    Deny,
}

fn all() -> Action {
    Action::All
}

/// Lists of topics, as tokens had them before EMQX 5.5.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ByAction {
    #[serde(default)]
    r#pub: Vec<String>,
    #[serde(default)]
    sub: Vec<String>,
    #[serde(default)]
    all: Vec<String>,
}

impl Listed {
    /// Whether it holds for some messages or clients only, by what this broker does not ask.
    fn has_conditions(&self) -> bool {
        let is_any = |name: &str, value: &Value| {
            value.is_null() || (["qos", "retain"].contains(&name) && *value == "all")
        };
        self.others.iter().any(|(name, value)| !is_any(name, value))
    }
}

/// The rules that `value` has for a client of these names, in order.
///
/// What can only be granted in part is not granted, and what is denied in part is denied: a rule
/// with `qos`, `retain` or any other field that is not known here, and a topic whose placeholder
/// has no name or one with a wildcard.
///
/// # Errors
/// Something in it that is not understood: nobody can say then what it would forbid.
pub fn parse(value: &Value, names: Names<'_>) -> Result<Vec<Rule>, BadRules> {
    let mut rules = Vec::new();
    match value {
        Value::Array(listed) => {
            for rule in listed {
                let rule = Listed::deserialize(rule).map_err(|_| BadRules::Form)?;
                if rule.topic.is_none() && rule.topics.is_empty() {
                    return Err(BadRules::Form);
                }
                let allows = rule.permission == Permission::Allow;
                if allows && rule.has_conditions() {
                    continue;
                }
                for topic in rule.topic.iter().chain(&rule.topics) {
                    add(&mut rules, (allows, rule.action), topic, names)?;
                }
            }
        }
        Value::Object(_) => {
            let ByAction { r#pub, sub, all } =
                ByAction::deserialize(value).map_err(|_| BadRules::Form)?;
            let lists = [(Action::Publish, r#pub), (Action::Subscribe, sub), (Action::All, all)];
            for (action, topics) in lists {
                for topic in &topics {
                    add(&mut rules, (true, action), topic, names)?;
                }
            }
        }
        _ => return Err(BadRules::Form),
    }
    Ok(rules)
}

fn add(
    rules: &mut Vec<Rule>,
    (allows, action): (bool, Action),
    topic: &str,
    names: Names<'_>,
) -> Result<(), BadRules> {
    if rules.len() >= RULES_MAX {
        return Err(BadRules::TooMany);
    }
    let (topic, is_exact) = match topic.strip_prefix("eq ") {
        Some(topic) => (topic, true),
        None => (topic, false),
    };
    if !is_filter(topic) {
        return Err(BadRules::Filter(topic.into()));
    }
    // No topic of a message is a wildcard: what is said of the filter alone says nothing here.
    if is_exact && topic.contains(['+', '#']) {
        return Ok(());
    }
    match filled(topic, names) {
        Some(filter) => rules.push(Rule { allows, action, filter }),
        None if allows => {}
        None => {
            // Who knows what the name would have reached.
            let filter = dollar_level(topic).map_or("#".into(), |level| format!("{level}/#"));
            rules.push(Rule { allows, action, filter });
        }
    }
    Ok(())
}

/// The filter with the names in it; nothing if one is missing, or would be more than a name.
fn filled(topic: &str, names: Names<'_>) -> Option<String> {
    let levels: Option<Vec<String>> =
        topic.split('/').map(|level| filled_level(level, names)).collect();
    let filter = levels?.join("/");
    // A name must not make a topic one of the broker's own.
    (filter.starts_with('$') == dollar_level(topic).is_some()).then_some(filter)
}

fn filled_level(level: &str, names: Names<'_>) -> Option<String> {
    match level {
        "%c" => return plain(names.client_id.to_owned()),
        "%u" => return plain(names.user?.to_owned()),
        level if !level.contains("${") => return Some(level.to_owned()),
        _ => {}
    }
    let (mut filled, mut rest) = (String::new(), level);
    // What is filled in is not looked at again.
    while let Some((before, after)) = rest.split_once("${")
        && let Some((placeholder, after)) = after.split_once('}')
    {
        filled += before;
        filled += match placeholder {
            "clientid" => names.client_id,
            "username" => names.user?,
            _ => return None,
        };
        rest = after;
    }
    plain(filled + rest)
}

/// The name, unless it would be more than one.
fn plain(name: String) -> Option<String> {
    (!name.is_empty() && !name.contains(['+', '#'])).then_some(name)
}

/// The first level of a filter of topics that begin with `$`.
fn dollar_level(topic: &str) -> Option<&str> {
    let first = topic.split('/').next()?;
    (first.starts_with('$') && !first.contains("${")).then_some(first)
}

/// Whether it is a topic filter. `+` and `#` are levels of their own, `#` the last.
fn is_filter(text: &str) -> bool {
    let mut levels = text.split('/').peekable();
    let mut is_one = !text.is_empty() && text.len() <= 65_535 && !text.contains('\0');
    while let Some(level) = levels.next() {
        is_one &= !level.contains(['+', '#'])
            || level == "+"
            || (level == "#" && levels.peek().is_none());
    }
    is_one
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMES: Names<'_> = Names { client_id: "c1", user: Some("ann") };

    fn rule(allows: bool, action: Action, filter: &str) -> Rule {
        Rule { allows, action, filter: filter.into() }
    }

    #[test]
    fn a_list_of_rules_keeps_its_order_and_names_are_filled_in() {
        let value = json!([
            {"permission": "deny", "action": "subscribe", "topic": "a/b"},
            {"permission": "allow", "action": "all", "topic": "x/${clientid}/${username}/#"},
            {"permission": "allow", "action": "publish", "topics": ["%u/t", "eq t/%c"]},
            {"permission": "allow", "topic": "dev-${clientid}", "retain": "all"},
        ]);
        let expected = [
            rule(false, Action::Subscribe, "a/b"),
            rule(true, Action::All, "x/c1/ann/#"),
            rule(true, Action::Publish, "ann/t"),
            rule(true, Action::Publish, "t/c1"),
            rule(true, Action::All, "dev-c1"),
        ];
        assert_eq!(parse(&value, NAMES).unwrap(), expected);
    }

    #[test]
    fn lists_by_action_are_taken() {
        let value = json!({"pub": ["a"], "sub": ["b/+"], "all": ["c/#"]});
        let expected = [
            rule(true, Action::Publish, "a"),
            rule(true, Action::Subscribe, "b/+"),
            rule(true, Action::All, "c/#"),
        ];
        assert_eq!(parse(&value, NAMES).unwrap(), expected);
        assert_eq!(parse(&json!({}), NAMES).unwrap(), []);
    }

    #[test]
    fn what_can_only_be_granted_in_part_is_not_and_what_is_denied_in_part_is() {
        let value = json!([
            {"permission": "allow", "action": "publish", "topic": "a", "qos": [0]},
            {"permission": "allow", "action": "publish", "topic": "a", "retain": false},
            {"permission": "deny", "action": "publish", "topic": "b", "retain": true},
            {"permission": "deny", "action": "subscribe", "topic": "eq #"},
            {"permission": "allow", "topic": "c", "ipaddr": "10.0.0.0/8"},
            {"permission": "allow", "topic": "c", "clientid_re": "^d"},
            {"permission": "allow", "topic": "c", "whatever_comes": true},
            {"permission": "deny", "topic": "d", "username_re": "^e"},
            {"permission": "allow", "topic": "e", "ipaddr": null, "qos": "all"},
        ]);
        let expected = [
            rule(false, Action::Publish, "b"),
            rule(false, Action::All, "d"),
            rule(true, Action::All, "e"),
        ];
        assert_eq!(parse(&value, NAMES).unwrap(), expected);
    }

    #[test]
    fn a_name_that_is_a_wildcard_reaches_nothing() {
        for (client_id, user) in
            [("#", None), ("+", Some("a+")), ("a/#", Some("")), ("#", Some("$SYS"))]
        {
            let names = Names { client_id, user };
            for topic in ["x/${clientid}", "x/%c", "${username}/y", "%u"] {
                let of = |permission| json!([{"permission": permission, "topic": topic}]);
                let filled = filled(topic, names);
                assert!(filled.is_none(), "{topic} {names:?}: {filled:?}");
                assert_eq!(parse(&of("allow"), names).unwrap(), []);
                assert_eq!(parse(&of("deny"), names).unwrap(), [rule(false, Action::All, "#")]);
            }
            let dollar = json!([{"permission": "deny", "topic": "$q/${clientid}"}]);
            assert_eq!(parse(&dollar, names).unwrap(), [rule(false, Action::All, "$q/#")]);
        }
    }

    /// Whoever may choose the identifier cannot name the user by it.
    #[test]
    fn a_name_that_looks_like_a_placeholder_is_not_filled_again() {
        let names = Names { client_id: "${username}", user: Some("ann") };
        let topic = "x/${clientid}/a-${clientid}-${username}/%c/${username";
        let expected = "x/${username}/a-${username}-ann/${username}/${username";
        assert_eq!(filled(topic, names).unwrap(), expected);
        assert_eq!(filled("x/${cert_common_name}", names), None, "a name that is not known here");
    }

    #[test]
    fn what_is_not_understood_is_not_guessed() {
        for value in [
            json!(null),
            json!("a"),
            json!([{"permission": "perhaps", "topic": "a"}]),
            json!([{"permission": "allow", "action": "fly", "topic": "a"}]),
            json!([{"permission": "allow", "action": "all"}]),
            json!([{"permission": "allow", "topic": 7}]),
            json!({"pub": "a"}),
            json!({"publish": ["a"]}),
        ] {
            assert_eq!(parse(&value, NAMES), Err(BadRules::Form), "{value}");
        }
        for topic in ["", "a#", "#/a", "a+/b", "a\0"] {
            let value = json!([{"permission": "deny", "topic": topic}]);
            assert_eq!(parse(&value, NAMES), Err(BadRules::Filter(topic.into())));
        }
        let many = json!({"all": vec!["a"; RULES_MAX + 1]});
        assert_eq!(parse(&many, NAMES), Err(BadRules::TooMany));
    }
}
