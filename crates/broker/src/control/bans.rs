//! Bans that are added while the broker runs, and those of other kinds beside them.
//!
//! The control thread alone has the book of them. Each change makes a new value of all, which
//! admission and so every shard goes by, and is written to a file where there is a place for one.

use crate::admission::{AdmissionControl, open};
use crate::auth::{Bans, FileError, Network, Until, Whom};
use crate::kept_file::KeptFile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use weir_control::{Ban, BanPage, By, Changed, NewBan, Unchanged, Whom as Named};
use weir_core::Micros;

/// Bans that may be added. So many are written to the file at each change.
const ADDED_MAX: usize = 10_000;

/// Of whom somebody has said so, until when, and what for.
type Added = BTreeMap<Whom, (Until, Option<String>)>;

const HEAD: &str =
    "# Bans that were added by weir ctl. The broker writes this file anew at each.\n";

/// The file's text.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(default)]
    ban: Vec<KeptBan>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptBan {
    kind: String,
    name: String,
    until: Option<String>,
    reason: Option<String>,
}

/// Bans that were added.
#[derive(Clone, Debug, Default)]
pub(crate) struct BanBook {
    file: Option<PathBuf>,
    added: Added,
}

impl BanBook {
    /// With what is in the file, if it is there.
    ///
    /// # Errors
    /// It cannot be read, or is not what [`BanBook::keep`] has written.
    pub(crate) fn read(file: Option<PathBuf>) -> Result<Self, FileError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let text = match std::fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => {
                return Err(FileError::Read { key: "bans of weir ctl", path, source });
            }
            Ok(text) => text,
        };
        let bad = |line, message| FileError::Line { path: path.clone(), line, message };
        let kept: Kept = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            bad(text[..at].matches('\n').count() + 1, error.message().replace('\n', " "))
        })?;
        let ban = |ban: KeptBan| {
            let until = ban.until.as_deref().map_or(Ok(Until::FOR_EVER), Until::parse)?;
            Ok((Whom::parse(&ban.kind, &ban.name)?, (until, ban.reason)))
        };
        let added: Result<Added, String> = kept.ban.into_iter().map(ban).collect();
        let added = added.map_err(|message| bad(1, message))?;
        Ok(Self { file: Some(path), added })
    }

    /// What admission looks at.
    pub(crate) fn bans(&self) -> Arc<Bans> {
        let mut bans = Bans::default();
        self.added.iter().for_each(|(whom, (until, _))| bans.keep_out(whom, *until));
        Arc::new(bans)
    }

    /// Writes the file. Says why a restart will not find them.
    fn keep(&self) -> Option<String> {
        let Some(path) = &self.file else {
            return Some("neither store.path nor auth.bans_file is set".into());
        };
        let written = KeptFile::open(path).and_then(|file| file.replace(&self.text()));
        let why = written.err()?;
        tracing::error!(path = %path.display(), %why, "bans of weir ctl cannot be written");
        Some(format!("{} cannot be written: {why}", path.display()))
    }

    fn text(&self) -> String {
        let ban = |(whom, (until, reason)): (&Whom, &(Until, Option<String>))| KeptBan {
            kind: whom.kind().into(),
            name: whom.name(),
            until: until.text(),
            reason: reason.clone(),
        };
        let kept = Kept { ban: self.added.iter().map(ban).collect() };
        // Texts and tables of texts can always be written as TOML.
        HEAD.to_owned() + &toml::to_string(&kept).unwrap_or_default()
    }

    /// Takes one more.
    pub(crate) fn ban(
        &mut self,
        NewBan { whom, for_s, reason }: NewBan,
        admission: &Mutex<AdmissionControl>,
    ) -> Result<Changed, Unchanged> {
        let whom = parse(&whom)?;
        self.added.retain(|_, (until, _)| !until.is_over());
        if self.added.len() >= ADDED_MAX && !self.added.contains_key(&whom) {
            return Err(Unchanged::Full(ADDED_MAX));
        }
        let until = for_s.map_or(Until::FOR_EVER, |s| Until::seconds_from_now(s.into()));
        let (kind, name) = (whom.kind(), whom.name());
        tracing::info!(kind, name = ?name, until = until.text(), reason = ?reason, "banned");
        self.added.insert(whom, (until, reason));
        open(admission).set_added(self.bans());
        Ok(Changed { not_kept: self.keep() })
    }

    /// Takes one back, wherever it comes from.
    pub(crate) fn unban(
        &mut self,
        whom: &Named,
        admission: &Mutex<AdmissionControl>,
    ) -> Result<Changed, Unchanged> {
        let whom = parse(whom)?;
        let added = self.added.remove(&whom).filter(|(until, _)| !until.is_over());
        let bans = self.bans();
        let (was_out, is_in_file) = {
            let mut admission = open(admission);
            admission.set_added(bans);
            (admission.pardon(&whom, now()), admission.bans().has(&whom))
        };
        let not_kept = self.file.as_ref().filter(|_| added.is_some()).and_then(|_| self.keep());
        match added.is_some() || was_out {
            _ if is_in_file => Err(Unchanged::InFile),
            true => {
                tracing::info!(kind = whom.kind(), name = ?whom.name(), "no longer banned");
                Ok(Changed { not_kept })
            }
            false => Err(Unchanged::Unknown),
        }
    }

    /// Those in force: what was added first, the file last.
    pub(crate) fn page(
        &self,
        from: usize,
        bans_max: usize,
        admission: &Mutex<AdmissionControl>,
    ) -> BanPage {
        let now = now();
        let (file, [guesses, flapping]) = {
            let admission = open(admission);
            (admission.bans(), admission.kept_out(now))
        };
        let added = self
            .added
            .iter()
            .map(|(whom, (until, reason))| (whom.clone(), *until, reason.clone(), By::Ctl));
        let of_host = |by| {
            move |(host, until): (_, Micros)| {
                let until = Until::seconds_from_now(until.0.saturating_sub(now.0) / 1_000_000);
                (Whom::Address(Network::of_host(host)), until, None, by)
            }
        };
        let guesses = guesses.into_iter().map(of_host(By::Guesses));
        let flapping = flapping.into_iter().map(of_host(By::Flapping));
        let file = file.iter().map(|(whom, until)| (whom, until, None, By::File));
        let all = added.chain(guesses).chain(flapping).chain(file);
        let mut left = all.filter(|(_, until, ..)| !until.is_over()).skip(from);
        let shown = |(whom, until, reason, by): (Whom, Until, _, _)| Ban {
            whom: Named { kind: whom.kind().into(), name: whom.name() },
            until: until.text(),
            reason,
            by,
        };
        let bans: Vec<Ban> = left.by_ref().take(bans_max).map(shown).collect();
        let next = left.next().map(|_| from + bans.len());
        BanPage { bans, next }
    }
}

fn parse(Named { kind, name }: &Named) -> Result<Whom, Unchanged> {
    Whom::parse(kind, name).map_err(Unchanged::Malformed)
}

fn now() -> Micros {
    Micros(weir_reactor::now_us())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::ProcessLimits;

    fn named(kind: &str, name: &str) -> Named {
        Named { kind: kind.into(), name: name.into() }
    }

    fn new(kind: &str, name: &str, for_s: Option<u32>) -> NewBan {
        let reason = Some("because \"it\"\n= bad".into());
        NewBan { whom: named(kind, name), for_s, reason }
    }

    fn admission() -> Mutex<AdmissionControl> {
        Mutex::new(AdmissionControl::new(ProcessLimits::default(), 75, Default::default()))
    }

    #[test]
    fn what_is_added_is_kept_in_the_file_and_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = Some(folder.path().join("bans.toml"));
        let (mut book, admission) = (BanBook::read(file.clone()).unwrap(), admission());
        for ban in [
            new("client", "a b\u{1b}", None),
            new("user", "", Some(9)),
            new("address", "198.51.100.9/24", Some(600)),
        ] {
            let is_named = !ban.whom.name.is_empty();
            let banned = book.ban(ban, &admission);
            assert_eq!(banned.is_ok(), is_named, "{banned:?}");
            assert!(banned.is_err() || banned == Ok(Changed::default()));
        }
        let again = BanBook::read(file).unwrap();
        assert_eq!(again.added, book.added);
        assert!(again.bans().has_client("a b\u{1b}"));
        let page = again.page(0, 1, &admission);
        assert_eq!((page.bans.len(), page.next), (1, Some(1)));
        assert_eq!(page.bans[0].whom, named("address", "198.51.100.0/24"));
        let page = again.page(1, 1, &admission);
        assert_eq!((page.bans[0].by, page.next, &page.bans[0].until), (By::Ctl, None, &None));
        let one = named("address", "198.51.100.0");
        assert_eq!(book.unban(&one, &admission), Err(Unchanged::Unknown));
        let all = named("address", "198.51.100.1/24");
        assert_eq!(book.unban(&all, &admission), Ok(Changed::default()));
        assert_eq!(book.unban(&all, &admission), Err(Unchanged::Unknown));
        assert!(!open(&admission).is_out("198.51.100.7".parse().unwrap(), now()));
    }

    #[test]
    fn what_is_in_the_file_of_bans_is_shown_and_stays() {
        let admission = admission();
        open(&admission).set_bans(Arc::new(Bans::parse("user ann\nclient c\n").unwrap()));
        (0..20).for_each(|_| {
            open(&admission).guessed_wrong("2001:db8::7".parse().unwrap(), now());
        });
        let mut book = BanBook::default();
        let kept = book.ban(new("user", "bob", Some(1_000)), &admission).unwrap();
        assert!(kept.not_kept.unwrap().contains("store.path"));
        let bans = book.page(0, 10, &admission).bans;
        let shown: Vec<_> =
            bans.iter().map(|ban| (ban.whom.name.as_str(), ban.by, ban.until.is_some())).collect();
        let expected = [
            ("bob", By::Ctl, true),
            ("2001:db8::/64", By::Guesses, true),
            ("c", By::File, false),
            ("ann", By::File, false),
        ];
        assert_eq!(shown, expected);
        assert_eq!(book.unban(&named("user", "ann"), &admission), Err(Unchanged::InFile));
        let guesser = named("address", "2001:db8::/64");
        assert_eq!(book.unban(&guesser, &admission), Ok(Changed::default()));
        assert_eq!(book.page(0, 10, &admission).bans.len(), 3);
    }

    #[test]
    fn no_more_are_added_than_there_is_room_for() {
        let (mut book, admission) = (BanBook::default(), admission());
        let all = (0..ADDED_MAX).map(|at| Whom::Client(at.to_string().into()));
        book.added = all.map(|whom| (whom, (Until::FOR_EVER, None))).collect();
        let more = || new("client", "more", None);
        assert_eq!(book.ban(more(), &admission), Err(Unchanged::Full(ADDED_MAX)));
        assert!(book.ban(new("client", "7", None), &admission).is_ok(), "it is there already");
        let over = Whom::Client("8".into());
        book.added.insert(over, (Until::parse("2001-01-01T00:00:00Z").unwrap(), None));
        assert!(book.ban(more(), &admission).is_ok());
    }

    #[test]
    fn a_file_that_is_none_of_such_bans_is_an_error_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bans.toml");
        for (text, part) in [
            ("\n[[ban]]\nkind = 7", ":3: "),
            ("[[ban]]\nkind = \"host\"\nname = \"x\"", "address, client or user"),
            ("[[ban]]\nkind = \"user\"\nname = \"x\"\nuntil = \"never\"", "RFC 3339"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = BanBook::read(Some(path.clone())).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
