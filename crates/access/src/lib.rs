//! Who a client is, by a token that it shows (`jwt`), or by a service that is asked over HTTP
//! (`http`), on one thread for all.
//!
//! It knows nothing of the broker: whoever asks gives each question a tag, and gets the answer with
//! it. What a token or a service grants is a value ([`Identity`]), of which the broker makes
//! rights.

mod claims;
mod config;
mod counts;
mod keys;
mod lasting;
mod recent;
mod rules;
mod service;
mod thread;
mod tokens;

pub use claims::{BadToken, Claims, identify};
pub use config::{Form, HttpConfig, JwtConfig, Method, TokenPlace};
pub use counts::Counts;
pub use keys::KeyError;
pub use lasting::Lasting;
pub use recent::{Digest, Digester, Recent};
pub use rules::{Action, BadRules, Names, RULES_MAX, Rule, parse as parse_rules};
pub use service::{BadService, Question};
pub use thread::{Asker, Busy, By, start};
pub use tokens::is_token;
pub use weir_http::client::{BadAddress, is_open_to_others};

use std::sync::Arc;

/// What is configured, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// Tokens.
    pub jwt: Option<JwtConfig>,
    /// A service.
    pub http: Option<HttpConfig>,
}

impl Setup {
    /// Whether there is neither.
    pub fn is_empty(&self) -> bool {
        self.jwt.is_none() && self.http.is_none()
    }

    /// Reads what files say, and checks what can be without asking anybody.
    ///
    /// # Errors
    /// The first thing that cannot be used.
    pub fn check(&self) -> Result<Ready, BadSetup> {
        let jwt = self.jwt.as_ref().map(tokens::Tokens::read).transpose()?;
        if let Some(http) = &self.http {
            service::Service::new(http)?;
        }
        Ok(Ready(jwt.map(Arc::new)))
    }
}

/// The keys that files have, ready to be used.
#[derive(Clone, Debug)]
pub struct Ready(pub(crate) Option<Arc<tokens::Tokens>>);

/// Why tokens or a service cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BadSetup {
    /// Of tokens.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Of a service.
    #[error(transparent)]
    Service(#[from] BadService),
}

/// What is found out about a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is who it says.
    Allow(Box<Identity>),
    /// It is not, or so it seems: what it says is wrong.
    Deny,
    /// Its token does not let it in, and nobody has guessed it: it is signed as it should be and
    /// has expired, or is for another client; or its key may be one that is not fetched yet.
    Unfit,
    /// Nothing is known of it.
    Ignore,
    /// Nobody could be asked.
    Unavailable,
}

/// Who a client is, and on what terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Its user; nothing if that is the user name of its CONNECT.
    pub user: Option<String>,
    /// What it may do.
    pub rights: Rights,
    /// When its connection ends, in seconds since 1970.
    pub expires_at_s: Option<u64>,
}

/// What a client may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Rights {
    /// What the broker's own policy lets its user.
    #[default]
    Policy,
    /// Everything.
    All,
    /// What these rules say, the first that fits, and what the policy says where none fits.
    Rules(Vec<Rule>),
}
