//! The files that say who may come in and what they may do.

use super::AuthConfig;
use super::acl;
use super::bans::Bans;
use super::passwords::{BadLine, Passwords};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_core::Policy;

/// What is in them.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) passwords: Option<Arc<Passwords>>,
    pub(crate) policy: Option<Arc<Policy>>,
    pub(crate) bans: Option<Arc<Bans>>,
    /// The keys of tokens.
    pub(crate) keys: weir_access::Ready,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{key}: cannot read {}", path.display())]
    Read {
        /// The key that names it, with its table.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of it is not what is expected.
    #[error("{}:{line}: {message}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// Tokens or the service cannot be used.
    #[error(transparent)]
    Access(#[from] weir_access::BadSetup),
}

impl AuthConfig {
    /// Reads the files.
    ///
    /// # Errors
    /// One that cannot be read, or its first line that cannot be used.
    pub(crate) fn read_files(&self) -> Result<Access, FileError> {
        let passwords = self.password_file.as_deref();
        let passwords =
            passwords.map(|path| read("auth.password_file", path, Passwords::parse)).transpose()?;
        let policy = self.acl_file.as_deref();
        let policy = policy.map(|path| read("auth.acl_file", path, acl::parse)).transpose()?;
        let bans = self.bans_file.as_deref();
        let bans = bans.map(|path| read("auth.bans_file", path, Bans::parse)).transpose()?;
        Ok(Access { passwords, policy, bans, keys: self.setup().check()? })
    }
}

fn read<T>(
    key: &'static str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, BadLine>,
) -> Result<Arc<T>, FileError> {
    let text = std::fs::read_to_string(path).map_err(|source| FileError::Read {
        key,
        path: path.into(),
        source,
    })?;
    let bad = |BadLine { line, message }| FileError::Line { path: path.into(), line, message };
    parse(&text).map(Arc::new).map_err(bad)
}
