//! The authentication port, answered from the configuration: SCRAM-SHA-256, passwords of a file,
//! tokens, a service, or nobody in particular. What takes a few hashes is answered at once, on the
//! shard's thread; a password takes thousands, and the hasher answers later ([`hasher`]); so does
//! the thread that checks tokens and asks the service ([`access`]).

pub(crate) mod access;
mod acl;
mod bans;
mod files;
pub(crate) mod hasher;
mod passwords;
mod scram;
#[cfg(test)]
mod tally;
pub(crate) mod users;
mod waits;

pub use acl::check_rights;
pub use bans::check_bans;
pub(crate) use bans::{Bans, Network, Until, Whom};
pub(crate) use files::Access;
pub use files::FileError;
pub use passwords::{BadLine, check_passwords};

pub use users::{Unchanged as UserUnchanged, check_user_name, set_password};

pub use scram::{Verifier, VerifierError, client_final as scram_client_final};

use crate::shrink;
use access::{AccessWay, Answered};
use foldhash::fast::RandomState;
use hasher::{Checked, HasherWay, PasswordCounts};
use scram::{ClientFinal, ClientFirst, Exchange, Shown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use waits::Waits;
use weir_access::{By, Counts, HttpConfig, JwtConfig, Setup, is_open_to_others};
use weir_core::{AuthRequest, AuthStep, ConnKey, Micros, Verdict};
use weir_wire::ReasonCode;

/// The one method there is (RFC 7677).
const METHOD: &str = "SCRAM-SHA-256";

/// Longest authentication data looked at, in bytes.
const DATA_BYTES_MAX: usize = 1024;

/// The `[auth]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    /// Whether clients are let in that say no user name. Without `password_file`, `jwt` and `http`
    /// they may say one, which is not checked. Not set, they are if all addresses of `listen` are
    /// loopback and nothing below is set; with other addresses, the broker does not start until it
    /// knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_anonymous: Option<bool>,
    /// A file with a line for each user and its password, as `weir passwd` and Mosquitto's
    /// `mosquitto_passwd` write it. [security.md](security.md) says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A file of access rights, as Mosquitto has it: who may publish and read what. Without it,
    /// whoever is let in may use every topic. [security.md](security.md) says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acl_file: Option<PathBuf>,
    /// A file of addresses, clients and users that may not come in.
    /// [security.md](security.md#bans) says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bans_file: Option<PathBuf>,
    /// A verifier for each user name, as `weir broker --verifier` prints it. Such a user may
    /// authenticate by SCRAM-SHA-256, for which MQTT 5.0 is needed.
    pub users: BTreeMap<String, String>,
    /// Clients that show a token (JWT), which somebody else has signed. SIGHUP has the files of its
    /// keys read again. [security.md](security.md#tokens) says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jwt: Option<JwtConfig>,
    /// A service that is asked over HTTP who may come in. [security.md](security.md#a-service) says
    /// more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpConfig>,
}

impl AuthConfig {
    /// Whether anything has to be asked of a client.
    pub(crate) fn is_on(&self, allows_anonymous: bool) -> bool {
        !allows_anonymous
            || !self.users.is_empty()
            || self.password_file.is_some()
            || self.bans_file.is_some()
            || !self.setup().is_empty()
    }

    /// What is asked on another thread.
    pub(crate) fn setup(&self) -> Setup {
        Setup { jwt: self.jwt.clone(), http: self.http.clone() }
    }

    /// Whether it names files that may change.
    pub(crate) fn has_files(&self) -> bool {
        self.bans_file.is_some() || self.names_rights()
    }

    /// Whether it matters whose client each is.
    pub(crate) fn knows_users(&self) -> bool {
        self.password_file.is_some() || self.bans_file.is_some() || !self.setup().is_empty()
    }

    /// Whether somebody looks at whether clients are the users that they say.
    pub(crate) fn checks_names(&self) -> bool {
        self.password_file.is_some() || !self.setup().is_empty()
    }

    fn names_rights(&self) -> bool {
        self.password_file.is_some() || self.acl_file.is_some() || !self.setup().is_empty()
    }

    /// Whether it says who may come in, or what they may do.
    pub(crate) fn names_users(&self) -> bool {
        self.names_rights() || !self.users.is_empty()
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

    /// What is odd about it, a line each.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let is_unproven = self.acl_file.is_some()
            && self.password_file.is_none()
            && self.setup().is_empty()
            && self.allow_anonymous == Some(true);
        let text = "auth.acl_file without auth.password_file: whoever says a user name has the \
            rights of that user";
        let jwks = self.jwt.iter().map(|jwt| ("auth.jwt.jwks", jwt.jwks.as_deref()));
        let services = self.http.iter().flat_map(|http| {
            let (url, superuser_url) = (Some(&*http.url), http.superuser_url.as_deref());
            [("auth.http.url", url), ("auth.http.superuser_url", superuser_url)]
        });
        let is_open = |(_, address): &(_, Option<&str>)| address.is_some_and(is_open_to_others);
        let open = jwks.chain(services).filter(is_open).map(|(key, _)| {
            format!("{key}: over http:// whoever is between can read and change what is said")
        });
        is_unproven.then(|| text.to_owned()).into_iter().chain(open)
    }
}

/// The verifiers of a configuration, and what challenges show of them.
fn verifiers(config: &AuthConfig) -> (HashMap<String, Verifier>, Vec<Shown>) {
    let users = config.users.iter();
    let users: Vec<(String, Verifier)> =
        users.filter_map(|(user, text)| Some((user.clone(), text.parse().ok()?))).collect();
    let shown = users.iter().map(|(_, verifier)| verifier.shown()).collect();
    (users.into_iter().collect(), shown)
}

/// Answers the shard.
pub(crate) struct Authenticator {
    allow_anonymous: bool,
    users: HashMap<String, Verifier>,
    /// What challenges show of them, in an order that all shards have.
    shown: Vec<Shown>,
    /// Exchanges begun and not finished, by connection.
    exchanges: HashMap<ConnKey, Exchange, RandomState>,
    /// The users that peers have shown to be by their transport, until CONNECT is answered.
    names: HashMap<ConnKey, Box<str>, RandomState>,
    /// Who was answered last, and the user that it claimed to be by its method.
    answered: Option<(ConnKey, String)>,
    /// Makes up a constant salt for users that do not exist, so that nobody can tell.
    secret: [u8; 32],
    /// To where passwords are checked, if there is a file of them or was one.
    hasher: Option<HasherWay>,
    /// Whether there is a file of passwords.
    checks_passwords: bool,
    /// To where tokens are checked and the service is asked, if there is one of them.
    access: Option<AccessWay>,
    /// What came of that, if there is or was one of them.
    access_counts: Option<Arc<Counts>>,
    /// Who waits for one of the two.
    waits: Waits,
}

impl fmt::Debug for Authenticator {
    /// Without secrets, and without what clients have said.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allow_anonymous, hasher, access, .. } = self;
        let mut shown = out.debug_struct("Authenticator");
        shown.field("allow_anonymous", allow_anonymous).field("users", &self.users.len());
        shown.field("hasher", hasher).field("access", access).finish_non_exhaustive()
    }
}

impl Authenticator {
    /// One for a shard; all have the same `secret`, which nobody else knows.
    pub(crate) fn new(
        config: &AuthConfig,
        allow_anonymous: bool,
        secret: [u8; 32],
        (hasher, access): (Option<HasherWay>, Option<AccessWay>),
        share_percent: u8,
    ) -> Self {
        let (users, shown) = verifiers(config);
        let (exchanges, names, answered) = (HashMap::default(), HashMap::default(), None);
        let waits = Waits::new(share_percent);
        Self {
            allow_anonymous,
            users,
            shown,
            exchanges,
            names,
            answered,
            secret,
            checks_passwords: hasher.is_some(),
            hasher,
            access_counts: access.as_ref().map(AccessWay::counts),
            access,
            waits,
        }
    }

    /// Goes by another configuration from now on. Exchanges that have begun go on as they began.
    pub(crate) fn set(&mut self, config: &AuthConfig, allow_anonymous: bool, share_percent: u8) {
        (self.users, self.shown) = verifiers(config);
        self.allow_anonymous = allow_anonymous;
        self.waits.set_share(share_percent);
        self.checks_passwords = config.password_file.is_some();
    }

    /// Passwords are checked from now on, by this way.
    pub(crate) fn set_hasher(&mut self, hasher: HasherWay) {
        self.hasher = Some(hasher);
    }

    /// Tokens are checked and the service is asked by this way from now on, or not any more. Who
    /// was asked before answers still.
    pub(crate) fn set_access(&mut self, access: Option<AccessWay>) {
        self.access_counts = access.as_ref().map(AccessWay::counts).or(self.access_counts.take());
        self.access = access;
    }

    /// One step of one client from `peer`. Whatever is wrong is refused; nothing is told of why. No
    /// answer is one that comes later, to [`Authenticator::checked`] or
    /// [`Authenticator::answered`].
    pub(crate) fn answer(
        &mut self,
        request: &AuthRequest<'_>,
        peer: Option<SocketAddr>,
    ) -> Option<Verdict> {
        if let Some(user) = self.forget_name(request.conn) {
            return Some(self.accept_named(request, user));
        }
        Some(match (request.method, request.step) {
            (None, _) => return self.answer_plain(request, peer),
            (Some(METHOD), _) if self.users.is_empty() => {
                Verdict::Refuse(ReasonCode::BadAuthenticationMethod)
            }
            (Some(METHOD), _) if request.data.len() > DATA_BYTES_MAX => {
                Verdict::Refuse(ReasonCode::NotAuthorized)
            }
            (Some(METHOD), AuthStep::Begin | AuthStep::Again) => self.begin(request),
            (Some(METHOD), AuthStep::Continue) => self.finish(request),
            (Some(_), _) => Verdict::Refuse(ReasonCode::BadAuthenticationMethod),
        })
    }

    /// Who says a user name and a password, or less. The first of these that knows the client
    /// decides: tokens, the file of passwords, the service.
    fn answer_plain(
        &mut self,
        request: &AuthRequest<'_>,
        peer: Option<SocketAddr>,
    ) -> Option<Verdict> {
        let Self { hasher, access, checks_passwords, .. } = self;
        let hasher = hasher.as_mut().filter(|_| *checks_passwords);
        if let Some(access) = access
            && access.has_token(request)
        {
            return self
                .waits
                .ask(peer, access.waiting_max, || access.ask(By::Token, request, peer));
        }
        let service = access.as_ref().filter(|access| access.has_service);
        let checks_names = hasher.is_some() || access.is_some();
        if let (Some(hasher), Some(user)) = (hasher, request.user_name)
            && (service.is_none() || hasher.knows(user))
        {
            return match request.password {
                Some(password) => self.waits.ask(peer, hasher::WAITING_MAX, || {
                    hasher.ask((request.ticket, peer), user, password)
                }),
                None => Some(Verdict::Refuse(ReasonCode::BadUserNameOrPassword)),
            };
        }
        if self.allow_anonymous && (request.user_name.is_none() || !checks_names) {
            return Some(Verdict::Accept(Vec::new()));
        }
        match service {
            Some(service) => self
                .waits
                .ask(peer, service.waiting_max, || service.ask(By::Service, request, peer)),
            None => Some(Verdict::Refuse(ReasonCode::NotAuthorized)),
        }
    }

    /// A token was checked, or the service has answered.
    pub(crate) fn answered(&mut self, answered: &Answered, now: Micros) -> Verdict {
        self.waits.answered(answered.peer);
        self.access_counts.iter().for_each(|counts| counts.answered());
        answered.verdict(now)
    }

    /// The transport of a connection has shown that its peer is this user.
    pub(crate) fn learnt(&mut self, conn: ConnKey, user: Box<str>) {
        self.names.insert(conn, user);
    }

    /// Whether a connection's user is known before its CONNECT is.
    pub(crate) fn is_named(&self, conn: ConnKey) -> bool {
        self.names.contains_key(&conn)
    }

    /// The connection's user is not asked for any more, or goes to another shard with it.
    pub(crate) fn forget_name(&mut self, conn: ConnKey) -> Option<Box<str>> {
        let user = self.names.remove(&conn)?;
        shrink::table(&mut self.names);
        Some(user)
    }

    /// Whatever CONNECT says: the peer has shown more than a password would.
    fn accept_named(&mut self, request: &AuthRequest<'_>, user: Box<str>) -> Verdict {
        if request.method.is_none() {
            return Verdict::AcceptAs { user, data: Vec::new() };
        }
        self.answered = Some((request.conn, user.into()));
        Verdict::Refuse(ReasonCode::BadAuthenticationMethod)
    }

    /// The hasher has looked at a password.
    pub(crate) fn checked(&mut self, checked: &Checked) -> Verdict {
        self.waits.answered(checked.peer);
        let answered = self.hasher.as_mut().map(|hasher| hasher.answered(checked));
        answered.unwrap_or(Verdict::Refuse(ReasonCode::ServerUnavailable))
    }

    /// What the passwords came to so far.
    pub(crate) fn password_counts(&self) -> PasswordCounts {
        self.hasher.as_ref().map_or_else(PasswordCounts::default, |hasher| hasher.counts)
    }

    /// What tokens and the service came to so far, on all threads.
    pub(crate) fn access_counts(&self) -> Option<Arc<Counts>> {
        self.access_counts.clone()
    }

    /// The connection is over.
    pub(crate) fn forget(&mut self, conn: ConnKey) {
        self.take_exchange(conn);
        self.forget_name(conn);
        self.answered.take_if(|(answered, _)| *answered == conn);
    }

    /// The user that a connection just answered claimed to be by its method.
    pub(crate) fn user(&self, conn: ConnKey) -> Option<&str> {
        self.answered.as_ref().filter(|(answered, _)| *answered == conn).map(|(_, user)| &**user)
    }

    fn begin(&mut self, request: &AuthRequest<'_>) -> Verdict {
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        let Some(first) = ClientFirst::parse(request.data) else { return refused };
        let mut random = [0; 18];
        if getrandom::fill(&mut random).is_err() {
            return Verdict::Refuse(ReasonCode::ServerUnavailable);
        }
        self.answered = Some((request.conn, first.user.clone()));
        // Made up for every user, so that nobody can tell by the time whom it stands for.
        let nobody = Verifier::of_nobody(&self.secret, &first.user, &self.shown);
        let verifier = self.users.get(&first.user).cloned().unwrap_or(nobody);
        let exchange = Exchange::new(first, verifier, &random);
        let data = exchange.server_first().into_bytes();
        self.exchanges.insert(request.conn, exchange);
        Verdict::Continue(data)
    }

    fn take_exchange(&mut self, conn: ConnKey) -> Option<Exchange> {
        let exchange = self.exchanges.remove(&conn)?;
        shrink::table(&mut self.exchanges);
        Some(exchange)
    }

    fn finish(&mut self, request: &AuthRequest<'_>) -> Verdict {
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        let Some(exchange) = self.take_exchange(request.conn) else { return refused };
        let user: Box<str> = exchange.user().into();
        self.answered = Some((request.conn, user.to_string()));
        let Some(last) = ClientFinal::parse(request.data) else { return refused };
        match exchange.finish(&last) {
            Some(server_final) => Verdict::AcceptAs { user, data: server_final.into_bytes() },
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
        let config = AuthConfig { users, ..AuthConfig::default() };
        config.check().unwrap();
        Authenticator::new(&config, allow_anonymous, [7; 32], (None, None), 75)
    }

    #[test]
    fn anonymous_clients_come_in_only_where_that_is_set() {
        let begin = request(None, AuthStep::Begin, b"");
        assert_eq!(authenticator(true).answer(&begin, None).unwrap(), Verdict::Accept(Vec::new()));
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        assert_eq!(authenticator(false).answer(&begin, None).unwrap(), refused);
    }

    #[test]
    fn every_address_that_others_can_listen_to_is_warned_of() {
        let config = |url: &str| {
            let text = format!(
                "[jwt]\nalgorithms = [\"ES256\"]\njwks = \"{url}\"\n\
                 [http]\nurl = \"{url}\"\nsuperuser_url = \"{url}\""
            );
            toml::from_str::<AuthConfig>(&text).unwrap()
        };
        let far: Vec<String> = config("http://127.example.org/").warnings().collect();
        let keys: Vec<_> = far.iter().map(|text| text.split(':').next().unwrap()).collect();
        assert_eq!(keys, ["auth.jwt.jwks", "auth.http.url", "auth.http.superuser_url"]);
        for url in ["https://example.org/", "http://[::1]:80/", "/etc/weir/keys"] {
            assert_eq!(config(url).warnings().count(), 0, "{url}");
        }
    }

    #[test]
    fn another_method_is_a_bad_one() {
        let refused = Verdict::Refuse(ReasonCode::BadAuthenticationMethod);
        for method in ["SCRAM-SHA-1", "", "PLAIN"] {
            let begin = request(Some(method), AuthStep::Begin, b"");
            assert_eq!(authenticator(true).answer(&begin, None).unwrap(), refused);
        }
    }

    #[test]
    fn the_right_password_is_let_in_and_the_exchange_is_forgotten() {
        let mut server = authenticator(false);
        for (password, is_right) in [("pencil", true), ("pen", false)] {
            let first = request(Some(METHOD), AuthStep::Begin, b"n,,n=ann,r=abc");
            let Some(Verdict::Continue(data)) = server.answer(&first, None) else {
                panic!("no challenge")
            };
            let last = scram::client_final("ann", password, "abc", &data).unwrap();
            let verdict = server
                .answer(&request(Some(METHOD), AuthStep::Continue, last.as_bytes()), None)
                .unwrap();
            assert_eq!(matches!(verdict, Verdict::AcceptAs { .. }), is_right, "{verdict:?}");
            assert!(server.exchanges.is_empty());
        }
    }

    #[test]
    fn what_is_printed_to_find_faults_shows_no_secret() {
        let secret = [7, 7, 7];
        let (user_name, password) = (Some("hush"), Some(&secret[..]));
        let asked = AuthRequest { user_name, password, ..request(None, AuthStep::Begin, &secret) };
        let shown = format!("{asked:?} {:?}", authenticator(false));
        assert!(!shown.contains("hush") && !shown.contains("7, 7, 7"), "{shown}");
    }

    #[test]
    fn what_many_have_begun_takes_no_memory_when_they_are_gone() {
        let mut server = authenticator(false);
        let conns = (0..8 * shrink::KEPT as u32).map(ConnKey);
        for conn in conns.clone() {
            let first = request(Some(METHOD), AuthStep::Begin, b"n,,n=ann,r=abc");
            server.answer(&AuthRequest { conn, ..first }, None).unwrap();
        }
        conns.for_each(|conn| server.forget(conn));
        assert!(server.exchanges.capacity() <= 2 * shrink::KEPT);
        let long = format!("n,,n=ann,r={}", "x".repeat(DATA_BYTES_MAX));
        let long = request(Some(METHOD), AuthStep::Begin, long.as_bytes());
        let refused = Verdict::Refuse(ReasonCode::NotAuthorized);
        assert_eq!(server.answer(&long, None), Some(refused));
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
        assert_eq!(
            salt(server.answer(&first, None).unwrap()),
            salt(server.answer(&first, None).unwrap())
        );
    }

    #[test]
    fn a_user_that_does_not_exist_takes_as_many_hashes_as_one_that_does() {
        let mut server = authenticator(false);
        let mut work = |user: &str| {
            let first = format!("n,,n={user},r=abc");
            let first = request(Some(METHOD), AuthStep::Begin, first.as_bytes());
            let (challenge, begun) = tally::during(|| server.answer(&first, None).unwrap());
            let Verdict::Continue(data) = challenge else { panic!("{challenge:?}") };
            let last = scram::client_final(user, "pen", "abc", &data).unwrap();
            let last = request(Some(METHOD), AuthStep::Continue, last.as_bytes());
            let (verdict, ended) = tally::during(|| server.answer(&last, None).unwrap());
            assert_eq!(verdict, Verdict::Refuse(ReasonCode::NotAuthorized));
            [begun, ended]
        };
        let there = work("ann");
        assert!(there.iter().all(|&hashes| hashes > 0), "{there:?}");
        assert_eq!(work("bob"), there);
    }

    #[test]
    fn data_that_is_no_scram_is_refused() {
        let refused = Some(Verdict::Refuse(ReasonCode::NotAuthorized));
        for data in [&b""[..], b"n,,", b"p=tls-unique,,n=ann,r=x", b"n,,n=ann,r=", &[0xFF; 5000]] {
            let mut server = authenticator(false);
            assert_eq!(server.answer(&request(Some(METHOD), AuthStep::Begin, data), None), refused);
            assert_eq!(
                server.answer(&request(Some(METHOD), AuthStep::Continue, data), None),
                refused
            );
        }
    }
}
