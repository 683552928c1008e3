//! Where etcd is, and who this is to it.

use std::fmt;
use std::path::PathBuf;
use weir_http::client::{BadAddress, Identity};

/// How etcd is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdSettings {
    /// Its members, or some of them: `http://HOST:PORT` or `https://HOST:PORT`. They are tried in
    /// turn.
    pub endpoints: Vec<String>,
    /// PEM file of the authorities that its certificates are signed by; without, the system's.
    pub ca_file: Option<PathBuf>,
    /// What it is shown in TLS, if it wants that. Its gateway does not take a user's name from a
    /// certificate.
    pub identity: Option<Identity>,
    /// The user, where it has users.
    pub user: Option<User>,
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for User {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("User").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why it cannot be reached by these settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadEtcd {
    /// Nothing to ask.
    #[error("there must be at least one endpoint, such as http://10.0.0.1:2379")]
    NoEndpoint,
    /// An endpoint.
    #[error("the endpoint {0}: {1}")]
    Endpoint(String, BadAddress),
    /// Something behind the port.
    #[error("the endpoint {0}: it must be http://HOST:PORT or https://HOST:PORT and nothing else")]
    Path(String),
}
