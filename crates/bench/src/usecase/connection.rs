//! Who the clients of a use case say they are. The file names where the password is, so that it
//! can be shared.

use serde::Deserialize;
use std::path::PathBuf;
use weir_load::plan::Credentials;

/// Longest password of CONNECT in bytes.
const PASSWORD_BYTES_MAX: usize = 65_535;

/// For a broker given by a URL that names nobody.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Connection {
    /// User Name of CONNECT.
    pub user_name: Option<String>,
    /// File that holds the password, and at most the end of a line behind it.
    pub password_file: Option<PathBuf>,
    /// Environment variable that holds it.
    pub password_env: Option<String>,
}

impl Connection {
    /// What is wrong with it, and with which key.
    pub(super) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let has_password = self.password_file.is_some() || self.password_env.is_some();
        if self.password_file.is_some() && self.password_env.is_some() {
            return Err(("password_env", "password_env and password_file exclude each other"));
        }
        if has_password && self.user_name.is_none() {
            return Err(("user_name", "a password needs a user_name beside it"));
        }
        Ok(())
    }

    /// Reads the password from where it is.
    ///
    /// # Errors
    /// It is not there, or cannot be one.
    pub(crate) fn credentials(&self) -> anyhow::Result<Credentials> {
        let found = match (&self.password_file, &self.password_env) {
            (Some(path), _) => Some((
                std::fs::read_to_string(path).map_err(|error| error.to_string()),
                format!("the password_file {}", path.display()),
            )),
            (None, Some(name)) => Some((
                std::env::var(name).map_err(|error| error.to_string()),
                format!("the password_env {name}"),
            )),
            (None, None) => None,
        };
        let password = match found {
            None => None,
            Some((Ok(text), place)) => {
                let password = text.strip_suffix('\n').unwrap_or(&text);
                let password = password.strip_suffix('\r').unwrap_or(password);
                anyhow::ensure!(
                    password.len() <= PASSWORD_BYTES_MAX,
                    "{place} holds more than {PASSWORD_BYTES_MAX} bytes, the longest password"
                );
                Some(password.to_owned())
            }
            Some((Err(why), place)) => anyhow::bail!("cannot read {place}: {why}"),
        };
        Ok(Credentials { user_name: self.user_name.clone(), password })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_file_without_the_end_of_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let user_name = Some("me".to_owned());
        let connection =
            Connection { user_name, password_file: Some(path.clone()), password_env: None };
        for (text, password) in [("se cret", "se cret"), ("s\r\n", "s"), ("s\n\n", "s\n")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(connection.credentials().unwrap().password.as_deref(), Some(password));
        }
        std::fs::write(&path, "x".repeat(65_536)).unwrap();
        assert!(connection.credentials().unwrap_err().to_string().contains("longest"));
        std::fs::remove_file(&path).unwrap();
        let error = connection.credentials().unwrap_err().to_string();
        assert!(error.contains("cannot read the password_file"), "{error}");
    }

    #[test]
    fn a_variable_that_is_not_set_is_named() {
        let connection =
            Connection { password_env: Some("WEIR_NO_SUCH_PASSWORD".into()), ..Default::default() };
        let error = connection.credentials().unwrap_err().to_string();
        assert!(error.contains("WEIR_NO_SUCH_PASSWORD"), "{error}");
        assert_eq!(connection.check().unwrap_err().0, "user_name");
        assert_eq!(Connection::default().credentials().unwrap(), Credentials::default());
    }
}
