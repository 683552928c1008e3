//! What a run makes for the broker that it starts, where the use case asks for it: certificates,
//! passwords, access rights. The broker gets files of them in the run's folder; what clients show
//! goes to the load generator alone.

use crate::driver::{Demand, Driver, Login, Profile, Running};
use crate::usecase::{Needs, Tls, UseCase};
use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use sha2::{Digest, Sha256, Sha512};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use weir_load::Url;
use weir_load::plan::{
    ClientSettings, Credentials, IdentityText, ProtocolVersion, Route, Transport,
};

/// The folder within the run's.
const FOLDER: &str = "broker-access";

/// What the server's certificate is for: where the suite starts brokers.
const HOST: &str = "127.0.0.1";

/// Of users; their numbers follow.
const USER: &str = "bench";

/// Tickets that the load generator keeps, so that each of many that connect at once finds one.
const TICKETS_MAX: usize = 10_000;

/// Rounds of a password's hash, as mosquitto_passwd of Mosquitto 2.0 makes them.
const HASH_ROUNDS: u32 = 101;

/// Starts a broker that anybody reaches over `transport`, by certificates that are made in `folder`
/// where they are needed. One that is given by a URL is reached as that says.
///
/// # Errors
/// A broker whose listener cannot speak it, files that cannot be written, and what
/// [`Driver::start`] has.
pub fn start_over(
    driver: &dyn Driver,
    transport: Transport,
    profile: Profile,
    folder: &Path,
) -> anyhow::Result<Running> {
    let needs = Needs { transport, ..Needs::version(ProtocolVersion::V311) };
    let lacking = driver.lacks(&needs)?;
    ensure!(
        lacking.is_none(),
        "{} does not support {}",
        driver.name(),
        lacking.unwrap_or_default()
    );
    let demand = of_transport(transport, &Tls::default(), folder)?;
    Ok(driver.start_for(&demand, profile, folder, None)?)
}

/// What `use_case` asks of the listener of a broker that is started in `folder`, with the files
/// that it takes.
///
/// # Errors
/// Files that cannot be written.
pub(crate) fn demand(use_case: &UseCase, folder: &Path) -> anyhow::Result<Demand> {
    let UseCase { transport, tls, access, .. } = use_case;
    let mut demand = of_transport(*transport, tls, folder)?;
    if access.users > 0 {
        let password = random_text(24)?;
        let mut files = Files::new(folder, &mut demand)?;
        files.write("password_file", "passwords", &passwords(access.users, &password)?)?;
        if access.rules > 0 {
            files.write("acl_file", "rules", &rules(use_case))?;
        }
        let credentials = Credentials { user_name: Some(USER.into()), password: Some(password) };
        let login = &mut files.demand.login;
        *login = Login { credentials, users: access.users, ..std::mem::take(login) };
        files.demand.has_rules = access.rules > 0;
    }
    Ok(demand)
}

fn of_transport(transport: Transport, tls: &Tls, folder: &Path) -> anyhow::Result<Demand> {
    let mut demand = Demand::default();
    demand.login.route.path = transport.is_websocket().then(|| Url::PATH.to_owned());
    demand.login.route.host = HOST.into();
    if transport.has_tls() {
        let authority = Authority::new()?;
        let server = authority.sign("weir-bench broker", &[HOST, "localhost"])?;
        let mut files = Files::new(folder, &mut demand)?;
        files.write("ca", "ca.pem", &authority.0.pem())?;
        files.write("certificate", "broker.pem", &server.certificates)?;
        files.write("key", "broker-key.pem", &server.key)?;
        let client = |at: u32| authority.sign(&format!("weir-bench client {at}"), &[]);
        let identities = (0..tls.client_certificates).map(client).collect::<anyhow::Result<_>>()?;
        let tickets_max = if tls.resume { TICKETS_MAX } else { 0 };
        let settings = ClientSettings { tickets_max, ..ClientSettings::new(authority.0.pem()) };
        let route = &mut demand.login.route;
        *route = Route { tls: Some(settings), identities, ..std::mem::take(route) };
    }
    Ok(demand)
}

/// Files for the broker, known by the words that stand for them in a driver's file.
struct Files<'a> {
    folder: PathBuf,
    demand: &'a mut Demand,
}

impl<'a> Files<'a> {
    /// In a folder of their own, within that of the run.
    fn new(folder: &Path, demand: &'a mut Demand) -> anyhow::Result<Self> {
        let folder = std::path::absolute(folder)?.join(FOLDER);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self { folder, demand })
    }

    fn write(&mut self, word: &str, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        let written = std::fs::write(&path, text).and_then(|()| {
            // Brokers warn of keys and passwords that others may read.
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
        });
        written.with_context(|| format!("cannot write {}", path.display()))?;
        self.demand.values.insert(word.into(), path.display().to_string());
        Ok(())
    }
}

/// Who signs the certificates of one run, and of no other.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "weir-bench authority");
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// A certificate with a key of its own, for these hosts.
    fn sign(&self, name: &str, hosts: &[&str]) -> anyhow::Result<IdentityText> {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        // A clock of the broker's that is wrong is not what is measured.
        (params.not_before, params.not_after) =
            (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
        let key = KeyPair::generate()?;
        let certificates = params.signed_by(&key, &self.0)?.pem();
        Ok(IdentityText { certificates, key: key.serialize_pem() })
    }
}

/// A line for each user, as mosquitto_passwd writes it. All have the same password, under a hash of
/// its own: to check it takes as long as any.
fn passwords(users: u32, password: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut salt = [0; 12];
    for user in 0..users {
        salt.copy_from_slice(&Sha256::digest(format!("{password} {user}"))[..12]);
        let mut hash = [0; 64];
        pbkdf2::pbkdf2_hmac::<Sha512>(password.as_bytes(), &salt, HASH_ROUNDS, &mut hash);
        let (salt, hash) = (STANDARD.encode(salt), STANDARD.encode(hash));
        writeln!(text, "{USER}-{user}:$7${HASH_ROUNDS}${salt}${hash}")?;
    }
    Ok(text)
}

/// Characters that nobody can guess, from the system.
fn random_text(characters: usize) -> anyhow::Result<String> {
    let mut bytes = vec![0; characters.div_ceil(4) * 3];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(STANDARD.encode(bytes))
}

/// As many rules as are asked for, of all users: what the use case needs stands behind those that
/// are for other topics, where a broker finds it last.
fn rules(use_case: &UseCase) -> String {
    let access = &use_case.access;
    let needed = needed(use_case);
    let mut text = String::new();
    for user in 0..access.users {
        let share = access.rules / access.users + u32::from(user < access.rules % access.users);
        let _ = writeln!(text, "user {USER}-{user}");
        for other in needed.len() as u32..share {
            let _ = writeln!(text, "topic readwrite other/{user}/{other}/+");
        }
        for filter in &needed {
            let _ = writeln!(text, "topic readwrite {filter}");
        }
        if user == 0 {
            // Where the suite asks whether the broker is ready.
            text += "topic readwrite weir/ready\n";
        }
    }
    text
}

/// Filters of all that clients publish and subscribe to, with `+` where their numbers are.
fn needed(use_case: &UseCase) -> Vec<String> {
    let filters = use_case.group.iter().flat_map(|group| {
        let subscribed = group.subscriptions.iter().map(|one| one.filter.as_str());
        subscribed.chain(group.publish.as_ref().map(|publish| publish.topic.as_str()))
    });
    let mut needed: Vec<String> = Vec::new();
    for filter in filters {
        let shared = filter.strip_prefix("$share/").and_then(|rest| rest.split_once('/'));
        let filter = shared.map_or(filter, |(_, filter)| filter);
        let level = |level: &str| if level.contains('{') { "+".into() } else { level.to_owned() };
        let filter = filter.split('/').map(level).collect::<Vec<_>>().join("/");
        if !needed.contains(&filter) {
            needed.push(filter);
        }
    }
    needed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(keys: &str) -> (tempfile::TempDir, UseCase, Demand) {
        let folder = tempfile::tempdir().unwrap();
        let plain = UseCase::builtin("p2p-1K-1K-1K-1K").unwrap();
        let text = plain.text.replacen("\n[[group]]", &format!("\n{keys}\n[[group]]"), 1);
        let use_case = UseCase::parse("my.toml", &text).unwrap();
        let demand = demand(&use_case, folder.path()).unwrap();
        (folder, use_case, demand)
    }

    #[test]
    fn nothing_is_made_that_nobody_asks_for() {
        let (folder, _, demand) = of("");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(demand.values.is_empty() && demand.login.route.tls.is_none());
        let (_folder, _, demand) = of("transport = \"ws\"");
        assert_eq!(demand.login.route.path.as_deref(), Some("/mqtt"));
        assert!(demand.values.is_empty());
    }

    #[test]
    fn certificates_are_made_of_which_clients_know_the_authority() {
        let (_folder, _, demand) = of("transport = \"wss\"\n[tls]\nclient_certificates = 3");
        let route = &demand.login.route;
        assert_eq!((route.identities.len(), route.transport().name()), (3, "wss"));
        assert_ne!(route.identities[0], route.identities[1]);
        let ca = std::fs::read_to_string(&demand.values["ca"]).unwrap();
        assert_eq!(route.tls.as_ref().unwrap().authorities, ca);
        assert_eq!(route.tls.as_ref().unwrap().tickets_max, 0);
        assert!(demand.values.contains_key("certificate") && demand.values.contains_key("key"));
        let (_folder, _, demand) = of("transport = \"tls\"\n[tls]\nresume = true");
        assert_eq!(demand.login.route.tls.unwrap().tickets_max, TICKETS_MAX);
    }

    #[test]
    fn each_user_has_its_line_and_its_share_of_the_rules() {
        let (_folder, use_case, demand) = of("[access]\nusers = 3\nrules = 10");
        let read = |word: &str| std::fs::read_to_string(&demand.values[word]).unwrap();
        let passwords = read("password_file");
        assert_eq!(passwords.lines().count(), 3);
        assert!(passwords.starts_with("bench-0:$7$101$"), "{passwords}");
        let hashes: Vec<&str> = passwords.lines().map(|line| &line[8..]).collect();
        assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2]);
        let rules = read("acl_file");
        let count = |text: &str| rules.lines().filter(|line| line.starts_with(text)).count();
        // One more for the suite itself.
        assert_eq!((count("user "), count("topic ")), (3, 11), "{rules}");
        assert_eq!(
            (needed(&use_case), count("topic readwrite test/+")),
            (vec!["test/+".into()], 3)
        );
        assert_eq!(demand.login.first().user_name.as_deref(), Some("bench-0"));
    }
}
