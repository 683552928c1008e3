//! A file of passwords or of rights that is changed by hand of a program: one user at a time, with
//! all other lines as they are.

use super::acl::{self, Kind};
use super::passwords::{Passwords, hash_password};
use crate::kept_file::KeptFile;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum Unchanged {
    /// No line can have this user name.
    #[error(
        "{0:?} cannot be a user name here: it has a colon, or spaces or # at its ends, or is empty"
    )]
    Name(String),
    /// Nobody would ever be refused.
    #[error("the password is empty")]
    NoPassword,
    /// The file has no such user.
    #[error("{}: no {user}", path.display())]
    NoUser {
        /// The file.
        path: PathBuf,
        /// The user.
        user: String,
    },
    /// A line of the file, or of what it is to be, is not what is expected.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// It cannot be read or written.
    #[error(
        "cannot change {}: {source}; the broker changes files that belong to its own user, in a \
         folder of its own, such as /var/lib/weir",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Unchanged {
    move |source| Unchanged::File { path: path.into(), source }
}

/// Whether a line can have this user name.
///
/// # Errors
/// It cannot.
pub fn check_user_name(user: &str) -> Result<(), Unchanged> {
    let is_usable = !user.is_empty()
        && user.trim() == user
        && !user.starts_with('#')
        && !user.contains([':', '\n', '\r', '\0']);
    is_usable.then_some(()).ok_or_else(|| Unchanged::Name(user.into()))
}

/// Gives a user of a file of passwords this one, with a new line if there is none; without one
/// takes the user out. It takes as long as a slow hash does. Says whether the user was there.
///
/// # Errors
/// It cannot be a user's name or password, is not there to be taken out, or the file cannot be
/// used.
pub fn set_password(path: &Path, user: &str, password: Option<&str>) -> Result<bool, Unchanged> {
    check_user_name(user)?;
    if password.is_some_and(str::is_empty) {
        return Err(Unchanged::NoPassword);
    }
    let hash = password.map(|password| hash_password(password.as_bytes()));
    let hash = hash.transpose().map_err(failed(path))?;
    let file = KeptFile::open(path).map_err(failed(path))?;
    let old = Passwords::parse(file.text()).map_err(|bad| {
        let (path, line, message) = (path.into(), bad.line, bad.message);
        Unchanged::Line { path, line, message }
    })?;
    let was_there = old.has(user);
    if !was_there && hash.is_none() {
        return Err(Unchanged::NoUser { path: path.into(), user: user.into() });
    }
    let line = hash.map(|hash| format!("{user}:{hash}"));
    let text = changed(file.text(), user, line.as_deref());
    file.replace(&text).map_err(failed(path))?;
    Ok(was_there)
}

/// The users of a file of passwords, in the order of their names.
///
/// # Errors
/// The file cannot be read or used.
pub(crate) fn names(path: &Path) -> Result<Vec<String>, Unchanged> {
    let text = std::fs::read_to_string(path).map_err(failed(path))?;
    let passwords = Passwords::parse(&text).map_err(|bad| Unchanged::Line {
        path: path.into(),
        line: bad.line,
        message: bad.message,
    })?;
    Ok(passwords.names().map(str::to_owned).collect())
}

fn is_of(line: &str, user: &str) -> bool {
    let name = line.split_once(':').map(|(name, _)| name.trim());
    name == Some(user) && !line.trim_start().starts_with('#')
}

/// The text with the user's line as it is to be, or without it.
fn changed(old: &str, user: &str, line: Option<&str>) -> String {
    let mut new = line;
    let mut text = String::new();
    for old in old.lines() {
        let kept = if is_of(old, user) { new.take() } else { Some(old) };
        kept.into_iter().for_each(|line| text += &format!("{line}\n"));
    }
    new.into_iter().for_each(|line| text += &format!("{line}\n"));
    text
}

/// The text of a file of rights; of one user only its rules, a line each.
///
/// # Errors
/// The file cannot be read, or has no rules of this user.
pub(crate) fn rights(path: &Path, user: Option<&str>) -> Result<String, Unchanged> {
    let text = std::fs::read_to_string(path).map_err(failed(path))?;
    let Some(user) = user else { return Ok(text) };
    let (mut rules, mut is_there) = (String::new(), false);
    for (_, kind, line) in acl::lines(&text).filter(|(of, ..)| *of == Some(user)) {
        is_there = true;
        if kind == Kind::Rule {
            rules += &format!("{}\n", line.trim());
        }
    }
    let absent = || Unchanged::NoUser { path: path.into(), user: user.into() };
    is_there.then_some(rules).ok_or_else(absent)
}

/// Puts another text in the place of a file of rights; of one user only other rules, of which none
/// takes the user out.
///
/// # Errors
/// A line that is no rule, or the file cannot be used.
pub(crate) fn set_rights(path: &Path, user: Option<&str>, new: &str) -> Result<(), Unchanged> {
    let bad = |bad: super::BadLine| {
        let (path, line, message) = (path.into(), bad.line, bad.message);
        Unchanged::Line { path, line, message }
    };
    if let Some(user) = user {
        check_user_name(user)?;
        acl::check_rules(new).map_err(bad)?;
    }
    let file = KeptFile::open(path).map_err(failed(path))?;
    let text = match user {
        None => new.to_owned(),
        Some(user) => with_rules(file.text(), user, new),
    };
    acl::parse(&text).map_err(bad)?;
    file.replace(&text).map_err(failed(path))
}

/// The text with these rules of a user where its first ones were, or at its end.
fn with_rules(old: &str, user: &str, rules: &str) -> String {
    let mut new = String::new();
    if rules.lines().any(|line| !line.trim().is_empty()) {
        new = format!("user {user}\n{}\n", rules.trim_end());
    }
    let mut text = String::new();
    for (of, kind, line) in acl::lines(old) {
        if of == Some(user) && kind != Kind::Other {
            text += &std::mem::take(&mut new);
        } else {
            text += &format!("{line}\n");
        }
    }
    text + &new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_changed_in_its_place_and_a_new_one_comes_last() {
        let old = "# ann:x\nann:1\nbob:2\n";
        assert_eq!(changed(old, "ann", Some("ann:3")), "# ann:x\nann:3\nbob:2\n");
        assert_eq!(changed(old, "eve", Some("eve:3")), "# ann:x\nann:1\nbob:2\neve:3\n");
        assert_eq!(changed(old, "bob", None), "# ann:x\nann:1\n");
        assert_eq!(changed("", "eve", Some("eve:3")), "eve:3\n");
    }

    #[test]
    fn rules_of_one_user_are_changed_and_everything_else_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rights");
        let old = "topic read news\n# of ann\nuser ann\ntopic a\npattern p/%u\ntopic b\n\
            user bob\ntopic c\nuser ann\ntopic d\n";
        std::fs::write(&path, old).unwrap();
        assert_eq!(rights(&path, Some("ann")).unwrap(), "topic a\ntopic b\ntopic d\n");
        assert!(matches!(rights(&path, Some("eve")), Err(Unchanged::NoUser { .. })));
        set_rights(&path, Some("ann"), "topic read x\n").unwrap();
        let new = "topic read news\n# of ann\nuser ann\ntopic read x\npattern p/%u\n\
            user bob\ntopic c\n";
        assert_eq!(rights(&path, None).unwrap(), new);
        set_rights(&path, Some("eve"), "topic read y").unwrap();
        assert_eq!(rights(&path, None).unwrap(), format!("{new}user eve\ntopic read y\n"));
        set_rights(&path, Some("ann"), "").unwrap();
        assert!(rights(&path, Some("ann")).is_err());
        for (bad, line) in [("topic sing a", 1), ("topic a\nuser bob", 2), ("pattern a", 1)] {
            let error = set_rights(&path, Some("bob"), bad).unwrap_err();
            assert!(matches!(error, Unchanged::Line { line: at, .. } if at == line), "{error}");
        }
        assert_eq!(rights(&path, Some("bob")).unwrap(), "topic c\n");
    }
}
