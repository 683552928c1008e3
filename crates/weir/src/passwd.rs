//! `weir passwd`: who may come in, a line a user.

use anyhow::{Context, bail, ensure};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use weir_broker::{check_passwords, check_user_name, set_password};
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
    // Before anything is asked.
    check_user_name(user)?;
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !args.delete => String::new(),
        text => text.with_context(|| format!("cannot read {}", file.display()))?,
    };
    if let Err(bad) = check_passwords(&text) {
        bail!("{}:{}: {}", file.display(), bad.line, bad.message);
    }
    let password = match (args.delete, args.batch) {
        (true, _) => None,
        (false, true) => Some(read_line()?),
        (false, false) => Some(ask_twice(user)?),
    };
    set_password(file, user, password.as_deref())?;
    Ok(())
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
