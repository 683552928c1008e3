//! `weir passwd`: who may come in, a line a user.

use anyhow::{Context, bail, ensure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use weir_broker::{check_passwords, hash_password};
use weir_say::note;

/// Make or change a file of users and their passwords, for [auth] password_file
///
/// It asks for the password of USER twice, and writes a line with a hash of it (Argon2id) into
/// FILE, in the place of the user's line if there is one. Other lines stay as they are: files of
/// mosquitto_passwd can be used and changed. The file is replaced as a whole, with its owner and
/// permissions; if it is not there it is made, readable for its owner alone. A running broker reads
/// it again at SIGHUP.
#[derive(Debug, clap::Args)]
pub(crate) struct PasswdArgs {
    /// File of passwords
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// User name
    #[arg(value_name = "USER")]
    user: String,
    /// Take the user out instead
    #[arg(short = 'D', long)]
    delete: bool,
    /// Read the password from standard input, one line, and ask for nothing
    #[arg(long, conflicts_with = "delete")]
    batch: bool,
}

pub(crate) fn run(args: &PasswdArgs) -> anyhow::Result<()> {
    let PasswdArgs { file, user, .. } = args;
    let is_usable = !user.is_empty()
        && user.trim() == user
        && !user.starts_with('#')
        && !user.contains([':', '\n', '\r', '\0']);
    ensure!(
        is_usable,
        "{user:?} cannot be a user name in a password file: it has a colon, or spaces or # at \
         its ends, or is empty"
    );
    let old = match fs::read_to_string(file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !args.delete => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    };
    let old = old.unwrap_or_default();
    if let Err(bad) = check_passwords(&old) {
        bail!("{}:{}: {}", file.display(), bad.line, bad.message);
    }
    let line = if args.delete {
        ensure!(old.lines().any(|line| is_of(line, user)), "{}: no {user}", file.display());
        None
    } else {
        let password = if args.batch { read_line()? } else { ask_twice(user)? };
        ensure!(!password.is_empty(), "the password is empty");
        let hash = hash_password(password.as_bytes()).context("cannot hash the password")?;
        Some(format!("{user}:{hash}"))
    };
    replace(file, &changed(&old, user, line.as_deref()))
        .with_context(|| format!("cannot write {}", file.display()))
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

/// Puts a file in the place of the old one, whole or not at all.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    // A link stays one: what it leads to is replaced.
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.into());
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let old = fs::metadata(&file).ok();
    let written = write_new(&new, text, old.as_ref()).and_then(|()| fs::rename(&new, &file));
    if written.is_err() {
        // What failed is said; this is only to leave nothing behind.
        let _ = fs::remove_file(&new);
    }
    written
}

/// Whoever could read the old file can read the new one: root may write it for the broker's user.
fn write_new(new: &Path, text: &str, old: Option<&Metadata>) -> io::Result<()> {
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
    if let Some(old) = old {
        let made = out.metadata()?;
        if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
            fchown(&out, Some(old.uid()), Some(old.gid()))?;
        }
        out.set_permissions(old.permissions())?;
    }
    out.write_all(text.as_bytes())?;
    out.sync_all()
}

fn read_line() -> anyhow::Result<String> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("cannot read the password")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn ask_twice(user: &str) -> anyhow::Result<String> {
    ensure!(
        io::stdin().is_terminal(),
        "standard input is no terminal: give --batch to read the password from it"
    );
    let hidden = Hidden::begin().context("cannot hide what is typed")?;
    let asked = |text: &str| {
        note!("{text}: ");
        let line = read_line();
        note!("\n");
        line
    };
    let (first, second) = (asked(&format!("Password of {user}"))?, asked("Once more")?);
    drop(hidden);
    ensure!(first == second, "the two passwords differ");
    Ok(first)
}

/// What is typed is not shown until this is over.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let shown = tcgetattr(io::stdin())?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(shown))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A terminal that is gone shows nothing.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
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
}
