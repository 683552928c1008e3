//! The configuration and the files that it names, as the API changes them: each is replaced as a
//! whole, and then everything goes by it.

use crate::auth::users::{self, Unchanged};
use crate::config::{Config, SECTIONS, Section, shown_config};
use crate::reload::Reloader;
use std::path::PathBuf;
use weir_control::{ConfigSection, ListenerPlace, NotKept, PutConfig, Reloaded};

#[derive(Debug)]
pub(crate) struct Keeper(Reloader);

impl Keeper {
    pub(crate) fn new(reloader: Reloader) -> Self {
        Self(reloader)
    }

    /// The file that a key names.
    fn file(
        &self,
        key: &str,
        of: impl FnOnce(&Config) -> Option<PathBuf>,
    ) -> Result<PathBuf, NotKept> {
        let file = of(&self.0.running().config);
        file.ok_or_else(|| NotKept::NoFile(format!("{key} is not set: there is no file to change")))
    }

    fn password_file(&self) -> Result<PathBuf, NotKept> {
        self.file("auth.password_file", |config| config.auth.password_file.clone())
    }

    fn acl_file(&self) -> Result<PathBuf, NotKept> {
        self.file("auth.acl_file", |config| config.auth.acl_file.clone())
    }

    /// A file was changed.
    fn take_up(&self) -> Result<(), NotKept> {
        match self.0.reload().fault() {
            None => Ok(()),
            Some(fault) => {
                Err(NotKept::Failed(format!("it is written, but not in force: {fault}")))
            }
        }
    }
}

impl weir_control::Keeper for Keeper {
    fn reload(&self) -> Reloaded {
        self.0.reload()
    }

    fn config(&self) -> String {
        shown_config(&self.0.running().config)
    }

    fn config_file(&self) -> Result<String, NotKept> {
        self.0.config_file()
    }

    fn may_guests_write(&self) -> bool {
        self.0.running().config.control.may_write_config
    }

    fn sections(&self) -> Vec<ConfigSection> {
        let shown = |section: &Section| ConfigSection {
            key: section.key.into(),
            is_live: section.is_live,
            how: section.how.into(),
        };
        SECTIONS.iter().map(shown).collect()
    }

    fn put_config(&self, text: &str, how: PutConfig) -> Result<Reloaded, NotKept> {
        let PutConfig { is_dry_run, is_guest } = how;
        if is_guest && !self.may_guests_write() {
            let text = "nobody may replace the configuration over TCP: may_write_config = true in \
                        [control] lets those who may change things do it";
            return Err(NotKept::Forbidden(text.into()));
        }
        self.0.replace_config(text, is_dry_run)
    }

    fn users(&self) -> Result<Vec<String>, NotKept> {
        Ok(users::names(&self.password_file()?)?)
    }

    fn put_user(&self, name: &str, password: Option<&str>) -> Result<bool, NotKept> {
        let was_there = users::set_password(&self.password_file()?, name, password)?;
        self.take_up().map(|()| was_there)
    }

    fn rights(&self, user: Option<&str>) -> Result<String, NotKept> {
        Ok(users::rights(&self.acl_file()?, user)?)
    }

    fn put_rights(&self, user: Option<&str>, text: &str) -> Result<(), NotKept> {
        users::set_rights(&self.acl_file()?, user, text)?;
        self.take_up()
    }

    fn listeners(&self) -> Vec<ListenerPlace> {
        self.0.running().listening.shown()
    }
}

impl From<Unchanged> for NotKept {
    fn from(unchanged: Unchanged) -> Self {
        let text = unchanged.to_string();
        match unchanged {
            Unchanged::Name(_) | Unchanged::NoPassword | Unchanged::Line { .. } => {
                Self::Malformed(text)
            }
            Unchanged::NoUser { .. } => Self::Unknown(text),
            Unchanged::File { .. } => Self::Failed(text),
        }
    }
}
