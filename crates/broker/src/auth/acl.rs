//! Mosquitto's file of access rights, as it is.

use super::passwords::BadLine;
use weir_core::{Grant, NoFilter, Policy, PolicyBuilder};

/// Makes a policy of a file's text.
///
/// # Errors
/// The first line that is none of such a file.
pub(super) fn parse(text: &str) -> Result<Policy, BadLine> {
    let mut policy = PolicyBuilder::default();
    let mut user = None;
    for (line, text) in (1..).zip(text.lines()) {
        let bad = |message: String| BadLine { line, message };
        // Mosquitto knows only spaces between words, and a topic may hold others.
        let text = text.trim_start_matches(' ').trim_end();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "user" if rest.is_empty() => return Err(bad("user: the name is missing".into())),
            "user" => user = Some(rest),
            "topic" | "pattern" => {
                let (grant, filter) = rule(rest).map_err(|why| bad(format!("{word}: {why}")))?;
                let added = match word {
                    "topic" => policy.rule(user, grant, filter),
                    _ => policy.pattern(grant, filter),
                };
                added.map_err(|NoFilter| bad(format!("{filter} is no topic filter")))?;
            }
            _ => {
                let rule = "a line begins with user, topic or pattern";
                return Err(bad(format!("{word}: {rule}")));
            }
        }
    }
    Ok(policy.build())
}

/// Whether a text is that of a file of access rights.
///
/// # Errors
/// The first line that cannot be used.
pub fn check_rights(text: &str) -> Result<(), BadLine> {
    parse(text).map(drop)
}

/// What a line of such a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A user, whose rules follow.
    Head,
    /// A rule of the user above it, or of whoever has said no name.
    Rule,
    /// A pattern, which is everybody's, a remark, or nothing.
    Other,
}

/// Every line, with the user that it is about.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (Option<&str>, Kind, &str)> {
    text.lines().scan(None, |user, line| {
        let text = line.trim_start_matches(' ').trim_end();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let kind = match word {
            "user" => Kind::Head,
            "topic" => Kind::Rule,
            _ => Kind::Other,
        };
        if kind == Kind::Head {
            *user = Some(rest.trim());
        }
        Some((*user, kind, line))
    })
}

/// Checks the rules of one user, a line each.
///
/// # Errors
/// The first line that is something else.
pub(super) fn check_rules(text: &str) -> Result<(), BadLine> {
    let is_other = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    };
    for (number, (_, kind, line)) in (1..).zip(lines(text)) {
        if kind != Kind::Rule && is_other(line) {
            let message = "a rule of one user begins with topic".into();
            return Err(BadLine { line: number, message });
        }
    }
    parse(text).map(drop)
}

/// What stands behind `topic` or `pattern`.
fn rule(text: &str) -> Result<(Grant, &str), String> {
    if text.is_empty() {
        return Err("the topic is missing".into());
    }
    // A single word is a topic, whatever it is.
    let Some((word, filter)) = text.split_once(' ') else { return Ok((Grant::ReadWrite, text)) };
    let grant = match word {
        "read" => Grant::Read,
        "write" => Grant::Write,
        "readwrite" => Grant::ReadWrite,
        "deny" => Grant::Deny,
        _ => {
            let ways = "read, write, readwrite or deny stands before a topic that has spaces";
            return Err(format!("{word}: {ways}"));
        }
    };
    Ok((grant, filter.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(rules: &[(Option<&str>, Grant, &str)], patterns: &[(Grant, &str)]) -> Policy {
        let mut policy = PolicyBuilder::default();
        for &(user, grant, filter) in rules {
            policy.rule(user, grant, filter).unwrap();
        }
        for &(grant, filter) in patterns {
            policy.pattern(grant, filter).unwrap();
        }
        policy.build()
    }

    #[test]
    fn rules_are_those_of_the_user_above_them() {
        let text = "# who\ntopic read a\n\nuser ann \r\n  topic deny  b c\n\
            pattern write p/%u\ntopic d\nuser  bob\ntopic readwrite read\nuser ann\ntopic e\n";
        let ann = Some("ann");
        let rules = [
            (None, Grant::Read, "a"),
            (ann, Grant::Deny, "b c"),
            (ann, Grant::ReadWrite, "d"),
            (Some("bob"), Grant::ReadWrite, "read"),
            (ann, Grant::ReadWrite, "e"),
        ];
        assert_eq!(parse(text).unwrap(), built(&rules, &[(Grant::Write, "p/%u")]));
    }

    #[test]
    fn a_single_word_is_a_topic() {
        let rules = [(None, Grant::ReadWrite, "read"), (None, Grant::ReadWrite, "write\ta")];
        assert_eq!(parse("topic read\ntopic write\ta\n").unwrap(), built(&rules, &[]));
    }

    #[test]
    fn what_mosquitto_refuses_is_refused_with_its_line() {
        for (text, line, named) in [
            ("bogus x", 1, "bogus"),
            ("topic", 1, "missing"),
            ("\nuser\n", 2, "missing"),
            ("topic b c", 1, "b: read, write"),
            ("topic none a", 1, "none"),
            ("topic READ a", 1, "READ"),
            ("TOPIC a", 1, "TOPIC"),
            ("topic a # c", 1, "a: read, write"),
            ("user ann\ntopic a#b", 2, "no topic filter"),
            ("pattern", 1, "missing"),
        ] {
            let bad = parse(text).unwrap_err();
            assert!(bad.line == line && bad.message.contains(named), "{text}: {bad:?}");
        }
    }
}
