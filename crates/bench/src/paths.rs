//! Paths of a host, cut down to what may be published: a file keeps its name, while the folders
//! above it, which tell who ran it and where, are left out. What a program is, its version and hash
//! say.

use crate::result::RunResult;

/// Folders that are laid out by the system and not by whoever owns it: that a broker is
/// `/usr/sbin/mosquitto` says that it is the distribution's.
const OF_THE_SYSTEM: [&str; 12] =
    ["bin", "dev", "etc", "lib", "lib64", "opt", "proc", "run", "sbin", "sys", "usr", "var"];

/// What a path may stand behind.
const BEFORE: &[char] = &['=', ':', ',', ';', '(', '[', '<', '"', '\'', '`'];
/// What ends it.
const BEHIND: &[char] = &[':', ',', ';', ')', ']', '<', '>', '"', '\'', '`'];

/// A text with the last names of its absolute paths in their place. A path of one name tells
/// nothing of its owner and stays, as do those of the system.
#[must_use]
pub fn without_folders(text: &str) -> String {
    let mut cut = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, path) = rest.split_at(at);
        let begins = before.chars().next_back().or(cut.chars().next_back());
        let may_begin = begins.is_none_or(|of| of.is_whitespace() || BEFORE.contains(&of));
        let end = path.find(|of: char| of.is_whitespace() || BEHIND.contains(&of));
        let (path, behind) = path.split_at(end.unwrap_or(path.len()));
        cut += before;
        cut += if may_begin { last_name(path) } else { path };
        rest = behind;
    }
    cut + rest
}

/// The name at the end of a path of somebody's own; any other as it is.
fn last_name(path: &str) -> &str {
    let mut names = path[1..].trim_end_matches('/').split('/');
    let first = names.next().unwrap_or_default();
    // Two slashes begin the host of a URL.
    let is_kept = first.is_empty() || OF_THE_SYSTEM.contains(&first);
    names.next_back().filter(|_| !is_kept).unwrap_or(path)
}

/// A result as a page shows it and hands it out.
pub(crate) fn published(run: &RunResult) -> RunResult {
    let mut run = run.clone();
    let facts = &mut run.disclosed;
    let texts = [
        &mut facts.broker.executable,
        &mut facts.broker.executable_sha256,
        &mut facts.suite_sha256,
        &mut facts.host.disk,
        &mut run.broker.configuration,
    ];
    let words = run.suite.command.iter_mut().chain(&mut run.broker.command);
    let reasons = run.verdict.reasons.iter_mut().chain(run.not_measured.values_mut());
    for text in texts.into_iter().chain(words).chain(reasons) {
        *text = without_folders(text);
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_somebody_keeps_only_its_last_name() {
        for (text, cut) in [
            ("/home/jane/bin/weir", "weir"),
            ("x=/home/jane/prog", "x=prog"),
            ("exec '/srv/a b/prog' --config=/srv/x/y.conf", "exec 'a b/prog' --config=y.conf"),
            ("/home/jane/results/", "results"),
            ("cannot read /home/jane/a.toml: no such file", "cannot read a.toml: no such file"),
            ("PATH=/home/jane/bin:/home/jane/.local/bin", "PATH=bin:bin"),
            ("ext4 on /dev/vda at /home/jane", "ext4 on /dev/vda at jane"),
        ] {
            assert_eq!(without_folders(text), cut);
        }
    }

    #[test]
    fn what_is_no_path_of_somebody_stays() {
        for text in [
            "",
            "/",
            "ext4 on /dev/vda at /",
            "/usr/sbin/mosquitto",
            "mqtt://broker.example:1883/a/b",
            "512/s and 3/3 runs",
            "results/today/a.toml",
            "../results/a.toml",
        ] {
            assert_eq!(without_folders(text), text);
        }
    }
}
