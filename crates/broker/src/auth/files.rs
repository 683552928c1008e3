//! The files that say who may come in and what they may do.

use super::AuthConfig;
use super::acl;
use super::passwords::{BadLine, Passwords};
use crate::config::{ConfigError, Place};
use std::path::Path;
use std::sync::Arc;
use weir_core::Policy;

/// What is in them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub(crate) passwords: Option<Arc<Passwords>>,
    pub(crate) policy: Option<Arc<Policy>>,
}

impl AuthConfig {
    /// Reads the files.
    ///
    /// # Errors
    /// One that cannot be read, or its first line that cannot be used.
    pub(crate) fn read_files(&self) -> Result<Access, ConfigError> {
        let passwords = self.password_file.as_deref();
        let passwords =
            passwords.map(|path| read("auth.password_file", path, Passwords::parse)).transpose()?;
        let policy = self.acl_file.as_deref();
        let policy = policy.map(|path| read("auth.acl_file", path, acl::parse)).transpose()?;
        Ok(Access { passwords, policy })
    }
}

fn read<T>(
    key: &'static str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, BadLine>,
) -> Result<Arc<T>, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::ReadNamed {
        key,
        path: path.into(),
        source,
    })?;
    let parsed = parse(&text).map_err(|BadLine { line, message }| {
        let place = Place::new(path, line);
        ConfigError::Parse { place, message }
    })?;
    Ok(Arc::new(parsed))
}
