//! How the clients of a run come in, and whoever asks a broker something beside them.

use weir_load::plan::{Credentials, Route};

/// How the clients of a run come in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// What is between TCP and MQTT.
    pub route: Route,
    /// Who they say they are.
    pub credentials: Credentials,
    /// If above 0, they are so many users in turn, by numbers behind the name.
    pub users: u32,
}

impl Login {
    /// Of the first client.
    pub(crate) fn first(&self) -> Credentials {
        let Credentials { user_name, password } = self.credentials.clone();
        let user_name = user_name.map(|name| match self.users {
            0 => name,
            _ => format!("{name}-0"),
        });
        Credentials { user_name, password }
    }
}
