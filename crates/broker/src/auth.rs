//! The authentication port, answered from the configuration: SCRAM-SHA-256, or nobody in
//! particular. Each answer is a few hashes, so it is given at once, on the shard's thread; what
//! takes longer (passwords, other services) will have to answer from elsewhere.

mod scram;

pub use scram::{Verifier, VerifierError, client_final as scram_client_final};

use scram::{ClientFinal, ClientFirst, Exchange};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use weir_core::{AuthRequest, AuthStep, ConnKey, Verdict};
use weir_wire::ReasonCode;

/// The one method there is (RFC 7677).
const METHOD: &str = "SCRAM-SHA-256";

/// Longest authentication data looked at, in bytes.
const DATA_BYTES_MAX: usize = 4096;

/// The `[auth]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether clients are let in that do not authenticate themselves by SCRAM-SHA-256. Their user
    /// names and passwords are not looked at.
    pub allow_anonymous: bool,
    /// A verifier for each user name, as `weir broker --verifier` prints it. Such a user may
    /// authenticate by SCRAM-SHA-256, for which MQTT 5.0 is needed.
    pub users: BTreeMap<String, String>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { allow_anonymous: true, users: BTreeMap::new() }
    }
}

impl AuthConfig {
    /// Whether anything has to be asked of a client.
    pub fn is_on(&self) -> bool {
        !self.allow_anonymous || !self.users.is_empty()
    }

    /// Checks every verifier.
    ///
    /// # Errors
    /// The first user whose verifier cannot be used, and what it has to be.
    pub(crate) fn check(&self) -> Result<(), (String, &'static str)> {
        let rule = "its verifier is not one that weir broker --verifier prints";
        for (user, text) in &self.users {
            text.parse::<Verifier>().map_err(|_| (user.clone(), rule))?;
        }
        Ok(())
    }
}

/// Answers the shard.
#[derive(Debug)]
pub(crate) struct Authenticator {
    allow_anonymous: bool,
    users: HashMap<String, Verifier>,
    /// Exchanges begun and not finished, by connection.
    exchanges: HashMap<ConnKey, Exchange>,
    /// Makes up a constant salt for users that do not exist, so that nobody can tell.
    secret: [u8; 32],
}

impl Authenticator {
    /// One for a shard; all have the same `secret`, which nobody else knows.
    pub(crate) fn new(config: &AuthConfig, secret: [u8; 32]) -> Self {
        let users = config
            .users
            .iter()
            .filter_map(|(user, text)| Some((user.clone(), text.parse().ok()?)))
            .collect();
        let allow_anonymous = config.allow_anonymous;
        Self { allow_anonymous, users, exchanges: HashMap::new(), secret }
    }

    /// One step of one client. Whatever is wrong is refused; nothing is told of why.
    pub(crate) fn answer(&mut self, request: &AuthRequest<'_>) -> Verdict {
        match (request.method, request.step) {
            (None, _) if self.allow_anonymous => Verdict::Accept(Vec::new()),
            (None, _) => Verdict::Refuse(ReasonCode::NotAuthorized),
            (Some(METHOD), _) if request.data.len() > DATA_BYTES_MAX => {
                Verdict::Refuse(ReasonCode::NotAuthorized)
            }
            (Some(METHOD), AuthStep::Begin | AuthStep::Again) => self.begin(request),
            (Some(METHOD), AuthStep::Continue) => self.finish(request),
            (Some(_), _) => Verdict::Refuse(ReasonCode::BadAuthenticationMethod),
        }
    }

    /// The connection is over.
    pub(crate) fn forget(&mut self, conn: ConnKey) {
        self.exchanges.remove(&conn);
    }

    fn begin(&mut self, request: &AuthRequest<'_>) -> Verdict {
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        let Some(first) = ClientFirst::parse(request.data) else { return refused };
        let mut random = [0; 18];
        if getrandom::fill(&mut random).is_err() {
            return Verdict::Refuse(ReasonCode::ServerUnavailable);
        }
        let verifier = match self.users.get(&first.user) {
            Some(verifier) => verifier.clone(),
            None => Verifier::of_nobody(&self.secret, &first.user),
        };
        let exchange = Exchange::new(first, verifier, &random);
        let data = exchange.server_first().into_bytes();
        self.exchanges.insert(request.conn, exchange);
        Verdict::Continue(data)
    }

    fn finish(&mut self, request: &AuthRequest<'_>) -> Verdict {
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        let Some(exchange) = self.exchanges.remove(&request.conn) else { return refused };
        let Some(last) = ClientFinal::parse(request.data) else { return refused };
        match exchange.finish(&last) {
            Some(server_final) => Verdict::Accept(server_final.into_bytes()),
            None => refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::Ticket;

    fn request<'a>(method: Option<&'a str>, step: AuthStep, data: &'a [u8]) -> AuthRequest<'a> {
        let conn = ConnKey(1);
        let (ticket, client_id) = (Ticket::default(), "c");
        AuthRequest { conn, ticket, step, client_id, user_name: None, password: None, method, data }
    }

    fn authenticator(allow_anonymous: bool) -> Authenticator {
        let verifier = Verifier::new("pencil", &[7; 16], 4096).to_string();
        let users = BTreeMap::from([("ann".to_owned(), verifier)]);
        let config = AuthConfig { allow_anonymous, users };
        config.check().unwrap();
        Authenticator::new(&config, [7; 32])
    }

    #[test]
    fn anonymous_clients_come_in_only_where_that_is_set() {
        let begin = request(None, AuthStep::Begin, b"");
        assert_eq!(authenticator(true).answer(&begin), Verdict::Accept(Vec::new()));
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        assert_eq!(authenticator(false).answer(&begin), refused);
    }

    #[test]
    fn another_method_is_a_bad_one() {
        let refused = Verdict::Refuse(ReasonCode::BadAuthenticationMethod);
        for method in ["SCRAM-SHA-1", "", "PLAIN"] {
            let begin = request(Some(method), AuthStep::Begin, b"");
            assert_eq!(authenticator(true).answer(&begin), refused);
        }
    }

    #[test]
    fn the_right_password_is_let_in_and_the_exchange_is_forgotten() {
        let mut server = authenticator(false);
        for (password, is_right) in [("pencil", true), ("pen", false)] {
            let first = request(Some(METHOD), AuthStep::Begin, b"n,,n=ann,r=abc");
            let Verdict::Continue(data) = server.answer(&first) else { panic!("no challenge") };
            let last = scram::client_final("ann", password, "abc", &data).unwrap();
            let verdict =
                server.answer(&request(Some(METHOD), AuthStep::Continue, last.as_bytes()));
            assert_eq!(matches!(verdict, Verdict::Accept(_)), is_right, "{verdict:?}");
            assert!(server.exchanges.is_empty());
        }
    }

    #[test]
    fn a_user_that_does_not_exist_looks_like_one_that_does() {
        let mut server = authenticator(false);
        let first = request(Some(METHOD), AuthStep::Begin, b"n,,n=bob,r=abc");
        let salt = |verdict| match verdict {
            Verdict::Continue(data) => {
                String::from_utf8(data).unwrap().split(',').nth(1).unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(salt(server.answer(&first)), salt(server.answer(&first)));
    }

    #[test]
    fn data_that_is_no_scram_is_refused() {
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        for data in [&b""[..], b"n,,", b"p=tls-unique,,n=ann,r=x", b"n,,n=ann,r=", &[0xFF; 5000]] {
            let mut server = authenticator(false);
            assert_eq!(server.answer(&request(Some(METHOD), AuthStep::Begin, data)), refused);
            assert_eq!(server.answer(&request(Some(METHOD), AuthStep::Continue, data)), refused);
        }
    }
}
