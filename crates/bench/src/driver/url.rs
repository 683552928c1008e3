//! A broker that somebody else runs.

use super::process::{Running, pin};
use super::{Demand, Driver, DriverError, Login, Profile};
use crate::mqtt;
use crate::paths::without_folders;
use crate::result::Broker;
use crate::usecase::Needs;
use procfs::process::Process;
use rustix::process::Pid;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use weir_load::plan::{
    ClientSettings, Credentials, IdentityText, ProtocolVersion, Route, Transport,
};

/// How TLS is spoken to brokers that are given by a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTls {
    /// For every client.
    pub settings: ClientSettings,
    /// What every client shows of itself.
    pub identity: Option<IdentityText>,
}

/// `mqtt://[USER[:PASSWORD]@]HOST[:PORT]`, or another scheme, with further `,HOST[:PORT]` for other
/// nodes; `?pid=PID` behind it if it is a process of this host that can be watched, or one for each
/// node with commas between; `NAME=` before it.
#[derive(Clone)]
pub(super) struct Url {
    name: String,
    target: SocketAddr,
    login: Login,
    pid: Option<u32>,
    /// Its other nodes, and their processes.
    others: Vec<(SocketAddr, Option<u32>)>,
}

impl Url {
    #[cfg(test)]
    fn parse(text: &str) -> Result<Self, DriverError> {
        Self::parse_with(text, None)
    }

    pub(super) fn parse_with(text: &str, tls: Option<&UrlTls>) -> Result<Self, DriverError> {
        let fail = |why: String| DriverError::Url { url: without_password(text), why };
        let at = scheme_at(text).unwrap_or_default();
        // A password may hold an = as well.
        let (name, url) = text.split_at(at);
        if !name.is_empty() && !name.ends_with('=') {
            return Err(fail("a name in front of it must end with =".into()));
        }
        let (url, pids) = match url.rsplit_once("?pid=") {
            None => (url, Vec::new()),
            Some((url, pids)) => (url, pids_of(pids).map_err(fail)?),
        };
        let place = url.rsplit_once('@').map_or(url, |(_, place)| place);
        if let Some((_, query)) = place.split_once('?') {
            return Err(fail(format!("only ?pid=PID may follow the port, not ?{query}")));
        }
        let whole = url;
        let (url, others) = nodes_of(url);
        let parsed: weir_load::Url = url.parse().map_err(|why: &str| fail(why.into()))?;
        let port = parsed.port();
        let route = route(&parsed, tls).map_err(|why| fail(why.into()))?;
        let weir_load::Url { user_name, password, host, topic, .. } = parsed;
        if topic.is_some() {
            return Err(fail("nothing but ?pid=PID may follow the port".into()));
        }
        let target = target(&host, port).map_err(fail)?;
        let credentials = Credentials { user_name, password };
        let login = Login { route, credentials, users: 0 };
        let name = match name {
            "" => without_user(whole),
            name => name.trim_end_matches('=').to_owned(),
        };
        if !pids.is_empty() && pids.len() != 1 + others.len() {
            let (nodes, pids) = (1 + others.len(), pids.len());
            return Err(fail(format!("{pids} process ids for {nodes} nodes: give one for each")));
        }
        let others = others.iter().map(|url| {
            let url: weir_load::Url = url.parse().map_err(str::to_owned)?;
            self::target(&url.host, url.port())
        });
        let others = others.collect::<Result<Vec<_>, String>>().map_err(fail)?;
        let mut pids = pids.into_iter().map(Some).chain(std::iter::repeat(None));
        let pid = pids.next().flatten();
        Ok(Self { name, target, login, pid, others: others.into_iter().zip(pids).collect() })
    }

    /// Where it is and which process it is, of each node.
    fn each(&self) -> impl Iterator<Item = (SocketAddr, Option<u32>)> {
        std::iter::once((self.target, self.pid)).chain(self.others.iter().copied())
    }

    /// What a process that somebody else started is disclosed with.
    fn broker(&self, command: Vec<String>, profile_changes: Vec<String>) -> Broker {
        let configuration = match self.pid {
            Some(_) => "not started by Weir: only its command line is known",
            None => "",
        };
        Broker {
            driver: "url".into(),
            name: self.name.clone(),
            version: "unknown".into(),
            runtime: String::new(),
            profile: "unknown".into(),
            profile_changes,
            command,
            configuration: configuration.into(),
            address: self.target.to_string(),
            nodes: 0,
        }
    }

    /// Whether sessions are resumed is for the use case to say.
    fn login_for(&self, demand: &Demand) -> Login {
        let mut login = self.login.clone();
        if let (Some(own), Some(asked)) = (&mut login.route.tls, &demand.login.route.tls) {
            own.tickets_max = asked.tickets_max;
        }
        login
    }

    /// The process's command line, and what was changed of it: where it runs.
    fn take(&self, pid: u32, core: Option<usize>) -> Result<(Vec<String>, Vec<String>), String> {
        let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
        let process = process.ok_or_else(|| format!("there is no process {pid}"))?;
        let command: Vec<String> = process.cmdline().unwrap_or_default();
        let command: Vec<String> = command.iter().map(|word| without_folders(word)).collect();
        if command.is_empty() {
            return Err(format!("process {pid} has no command line: it is not a broker"));
        }
        let Some(core) = core else { return Ok((command, Vec::new())) };
        for task in process.tasks().into_iter().flatten().flatten() {
            if let Some(thread) = Pid::from_raw(task.tid) {
                pin(Some(thread), core);
            }
        }
        Ok((
            command,
            vec![format!(
                "all its threads pinned to core {core}, as the suite does with \
            brokers"
            )],
        ))
    }
}

/// The way to a broker, and how TLS is spoken on it if it is part of it.
///
/// # Errors
/// TLS that nobody has said how to speak.
pub fn route(url: &weir_load::Url, tls: Option<&UrlTls>) -> Result<Route, &'static str> {
    let tls = match (url.scheme.has_tls(), tls) {
        (true, None) => return Err("this command speaks no TLS; use mqtt://"),
        (has_tls, tls) => tls.filter(|_| has_tls),
    };
    Ok(Route {
        host: url.host.clone(),
        path: url.path.clone(),
        identities: tls.and_then(|tls| tls.identity.clone()).into_iter().collect(),
        tls: tls.map(|tls| tls.settings.clone()),
    })
}

/// Of a host, IPv4 first: sources rotate over IPv4 addresses.
///
/// # Errors
/// What the system says of the host.
pub fn target(host: &str, port: u16) -> Result<SocketAddr, String> {
    let found = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| !address.is_ipv4());
    found.first().copied().ok_or_else(|| "the host has no address".into())
}

/// A text in which a URL may be, such as an argument, with `***` for the URL's password: no result
/// and no message holds one.
pub fn without_password(text: &str) -> String {
    let Some((before, rest)) = text.split_once("://") else { return text.into() };
    match rest.rsplit_once('@').and_then(|(user, place)| Some((user.split_once(':')?.0, place))) {
        Some((user, place)) => format!("{before}://{user}:***@{place}"),
        None => text.into(),
    }
}

/// Process ids with commas between.
fn pids_of(text: &str) -> Result<Vec<u32>, String> {
    let pid = |pid: &str| pid.parse().map_err(|_| format!("{pid:?} is not a process id"));
    text.split(',').map(pid).collect()
}

/// The URL of the first node of one that may name several, and those of the others.
fn nodes_of(url: &str) -> (String, Vec<String>) {
    let whole = || (url.to_owned(), Vec::new());
    let Some((scheme, rest)) = url.split_once("://") else { return whole() };
    // A password may hold a comma.
    let (user, place) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
    let (hosts, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let Some((first, others)) = hosts.split_once(',') else { return whole() };
    let others = others.split(',').map(|host| format!("{scheme}://{host}{path}"));
    (format!("{scheme}://{user}{first}{path}"), others.collect())
}

/// Where a URL begins: its scheme is the letters before `://`.
fn scheme_at(text: &str) -> Option<usize> {
    let before = &text[..text.find("://")?];
    Some(before.rfind(|char: char| !char.is_ascii_alphanumeric()).map_or(0, |at| at + 1))
}

fn without_user(url: &str) -> String {
    let scheme = &url[..url.find("://").map_or(0, |at| at + 3)];
    url.rsplit_once('@').map_or_else(|| url.into(), |(_, place)| format!("{scheme}{place}"))
}

impl Driver for Url {
    fn name(&self) -> &str {
        &self.name
    }

    /// Its limits are its host's to know.
    fn connections_max(&self) -> u64 {
        u64::MAX
    }

    fn is_local(&self) -> bool {
        self.pid.is_some()
    }

    fn is_restartable(&self) -> bool {
        false
    }

    fn nodes(&self, asked: u32) -> Result<u32, String> {
        let known = 1 + self.others.len() as u32;
        if asked > known {
            return Err(format!(
                "{asked} nodes: the URL names {known}; name all, with commas between"
            ));
        }
        Ok(known)
    }

    /// Nothing is known of it: the run tells. What is made for a broker, its owner would have to
    /// have.
    fn lacks(&self, needs: &Needs) -> Result<Option<String>, DriverError> {
        let spoken = self.login.route.transport();
        let (asked, is_other) = (needs.transport, needs.transport != spoken);
        Ok(if asked != Transport::Plain && is_other {
            Some(format!("transport {}: the URL says {}", asked.name(), spoken.name()))
        } else if needs.client_certificates || needs.users || needs.rules {
            Some(
                "what only a broker that the suite starts can be given: certificates of clients, \
                  users or access rights"
                    .into(),
            )
        } else {
            None
        })
    }

    /// Its configuration is its owner's.
    fn has(&self, _profile: Profile) -> bool {
        true
    }

    fn about(&self, _profile: Profile) -> Result<Broker, DriverError> {
        Ok(self.broker(Vec::new(), Vec::new()))
    }

    fn with_credentials(&self, credentials: &Credentials) -> Option<Box<dyn Driver>> {
        let names_nobody = self.login.credentials == Credentials::default();
        let login = Login { credentials: credentials.clone(), ..self.login.clone() };
        let of = Self { login, ..self.clone() };
        names_nobody.then(|| Box::new(of) as Box<dyn Driver>)
    }

    fn start_for(
        &self,
        demand: &Demand,
        _profile: Profile,
        _folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        let login = self.login_for(demand);
        let mut nodes = Vec::new();
        for (target, pid) in self.each() {
            mqtt::answers(target, ProtocolVersion::V311, &login).map_err(|error| {
                DriverError::NotThere { address: target.to_string(), why: error.to_string() }
            })?;
            let (command, changes) = match pid {
                None => (Vec::new(), Vec::new()),
                Some(pid) => self
                    .take(pid, core)
                    .map_err(|why| DriverError::Url { url: self.name.clone(), why })?,
            };
            let broker = self.broker(command, changes);
            nodes.push(Running::elsewhere(target, login.clone(), pid, broker));
        }
        let url = self.name.clone();
        let none = || DriverError::Url { url, why: "it names no node".into() };
        Running::together(nodes, Vec::new()).ok_or_else(none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_may_be_left_out() {
        for (url, target) in [
            ("mqtt://127.0.0.1", "127.0.0.1:1883"),
            ("mqtt://127.0.0.1:77/", "127.0.0.1:77"),
            ("mqtt://[::1]", "[::1]:1883"),
            ("mqtt://[::1]:77", "[::1]:77"),
        ] {
            assert_eq!(Url::parse(url).unwrap().target.to_string(), target);
        }
    }

    #[test]
    fn a_name_a_user_and_a_process_may_be_given() {
        let url = Url::parse("mine=mqtt://127.0.0.1:77?pid=4711").unwrap();
        assert_eq!((url.name(), url.pid, url.is_local()), ("mine", Some(4711), true));
        assert_eq!(url.target.to_string(), "127.0.0.1:77");
        let url = Url::parse("mqtt://127.0.0.1:77").unwrap();
        assert_eq!((url.name(), url.pid, url.is_local()), ("mqtt://127.0.0.1:77", None, false));
        assert_eq!(url.login.credentials, Credentials::default());
        let url = Url::parse("mqtt://me:p=w@x@127.0.0.1:77?pid=1").unwrap();
        assert_eq!((url.name(), url.pid), ("mqtt://127.0.0.1:77", Some(1)));
        assert_eq!(url.login.credentials.user_name.as_deref(), Some("me"));
        assert_eq!(url.login.credentials.password.as_deref(), Some("p=w@x"));
        let error = Url::parse("mqtt://127.0.0.1:77?pid=me").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("\"me\"") && error.contains("process"), "{error}");
        let error = Url::parse("a=mqtt://me:x?y@127.0.0.1:77?pod=1").map(|_| ()).unwrap_err();
        assert!(error.to_string().ends_with("only ?pid=PID may follow the port, not ?pod=1"));
    }

    #[test]
    fn nodes_stand_in_one_url_each_with_its_process_or_none_with_one() {
        let url = Url::parse("mine=mqtt://me:p,w@127.0.0.1,127.0.0.2:77?pid=4,5").unwrap();
        let nodes: Vec<_> = url.each().map(|(at, pid)| (at.to_string(), pid)).collect();
        let [one, two] = ["127.0.0.1:1883", "127.0.0.2:77"].map(str::to_owned);
        assert_eq!(nodes, [(one, Some(4)), (two, Some(5))]);
        assert_eq!(url.login.credentials.password.as_deref(), Some("p,w"));
        assert_eq!((url.nodes(1), url.nodes(2)), (Ok(2), Ok(2)));
        assert!(url.nodes(3).unwrap_err().starts_with("3 nodes: the URL names 2"));
        let url = Url::parse("ws://127.0.0.1:1,127.0.0.1:2/mq").unwrap();
        assert_eq!((url.name(), url.others.len()), ("ws://127.0.0.1:1,127.0.0.1:2/mq", 1));
        assert_eq!(url.login.route.path.as_deref(), Some("/mq"));
        for (wrong, why) in [
            ("mqtt://127.0.0.1,127.0.0.2?pid=4", "1 process ids for 2 nodes"),
            ("mqtt://127.0.0.1?pid=4,5", "2 process ids for 1 nodes"),
            ("mqtt://127.0.0.1,", "host"),
        ] {
            let error = Url::parse(wrong).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn nothing_that_is_shown_has_the_password() {
        for (text, shown) in [
            ("a=mqtt://me:p=w@x@h:1", "a=mqtt://me:***@h:1"),
            ("mqtts://me:secret@h:1", "mqtts://me:***@h:1"),
            ("mqtt://me@h", "mqtt://me@h"),
            ("mqtt://h:1?pid=2", "mqtt://h:1?pid=2"),
            ("weir=/bin/weir broker", "weir=/bin/weir broker"),
        ] {
            assert_eq!(without_password(text), shown);
        }
        let error = Url::parse("mqtt://me:secret@h:none").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("mqtt://me:***@h:none"), "{error}");
        let error = Url::parse("mine=mqtts://me:secret@h").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("mqtts://me:***@h") && error.contains("speaks no TLS"), "{error}");
        let credentials = Url::parse("mqtt://me:secret@127.0.0.1").unwrap().login.credentials;
        assert!(!format!("{credentials:?}").contains("secret"), "{credentials:?}");
    }
}
