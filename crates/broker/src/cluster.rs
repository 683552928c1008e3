//! Several nodes as one broker: the `[cluster]` table, and a node's membership.

mod membership;

pub use membership::NoPlace;
pub(crate) use membership::{Membership, Seated};

use crate::handover::HandoverTimes;
use crate::journal::clock::wall_now;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_carrier::tcp::Tls;
use weir_cluster::{Incarnation, Members, MembersSettings, Slot, Times};
use weir_core::Mail;
use weir_etcd::{Etcd, EtcdSettings, User};
use weir_transport::tls::{Certificates, PemError, PrivateKey};

/// The `[cluster]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// Addresses of etcd, such as `http://10.0.0.1:2379`: of one server or several of one cluster.
    /// With an empty list this broker is for itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub etcd: Vec<String>,
    /// What the cluster is called, by default `weir`: nodes with the same name and the same etcd
    /// are one broker.
    pub name: String,
    /// What this node is called, which no other one is; by default the name of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where other nodes connect, `HOST:PORT`, by default `127.0.0.1:7883`.
    pub listen: String,
    /// Where they find it, if that is another address than `listen`; a name is looked up again
    /// while there is no connection. By default, where `listen` is one of all interfaces such as
    /// `0.0.0.0:7883`: the address that this host has on its way to etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    /// How many nodes have the sessions of this one on their disks before it acknowledges anything,
    /// this one too: 1, or 2 or 3, which need a store. With more than 1, another node serves them
    /// if this one is lost.
    pub replicas: u8,
    /// What this node does while etcd does not answer and the others may take it for lost: with
    /// `stop`, the default, it ends its connections and lets nobody in; with `serve` it serves
    /// clients whose sessions end with their connections, by itself, and says so in CONNACK.
    pub minority: Minority,
    /// What becomes of a client that does not ask to begin anew (Clean Start 0), and has no session
    /// on the nodes that are there, while one is away whose sessions nobody serves: with `fresh`,
    /// the default, it begins anew, and what the other node may have of it is dropped once that is
    /// back; with `wait` it is refused (0x88) until all are back, or forgotten.
    pub absent: Absent,
    /// What this node is to stand in for.
    #[serde(skip)]
    pub(crate) stand_in: Option<StandInOf>,
    /// A `[cluster.tls]` table: how nodes encrypt what they say to each other. Without it, whoever
    /// reaches `listen` can say that they are a node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClusterTls>,
    /// Seconds that this node, when it is stopped, waits for the next of its clients to come to
    /// another node, which gets the session then, by default 10; three times as many in all. With
    /// 0 it does not wait, and a second signal ends that.
    pub handover_s: u32,
    /// PEM file of the authorities of etcd's certificates, for addresses that begin with
    /// `https://`; by default those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_ca_file: Option<PathBuf>,
    /// The user that etcd is asked as, if it has users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_user: Option<String>,
    /// A file with that user's password. A line's end behind it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_password_file: Option<PathBuf>,
}

/// What a node does that is cut off from its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Minority {
    /// It serves nobody.
    #[default]
    Stop,
    /// It serves clients without a kept session by itself.
    Serve,
}

/// What becomes of a client whose session may be on a node that is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Absent {
    /// It begins anew.
    #[default]
    Fresh,
    /// It is refused until the node is back.
    Wait,
}

/// What a stand-in is told, of which no file says anything: a node within this process that has the
/// name, the place and the shards of a node that is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StandInOf {
    /// The copies of its logs, by shard.
    pub(crate) copies: Vec<(u16, PathBuf)>,
    /// The slot of the node that runs it.
    pub(crate) keeper: u8,
}

/// The `[cluster.tls]` table. Each node shows a certificate, and takes nobody without one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterTls {
    /// PEM file with this node's certificate, for the host of its address, and those between.
    pub certificate: PathBuf,
    /// PEM file with its key.
    pub key: PathBuf,
    /// PEM file of the authorities that sign certificates of nodes: of nobody else's.
    pub ca: PathBuf,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            etcd: Vec::new(),
            name: "weir".into(),
            node: None,
            listen: "127.0.0.1:7883".into(),
            advertise: None,
            replicas: 1,
            minority: Minority::Stop,
            absent: Absent::Fresh,
            stand_in: None,
            tls: None,
            handover_s: 10,
            etcd_ca_file: None,
            etcd_user: None,
            etcd_password_file: None,
        }
    }
}

impl ClusterConfig {
    pub(crate) fn is_off(&self) -> bool {
        self.etcd.is_empty()
    }

    /// Looks at all that can be known before a start, with the files that it names.
    pub(crate) fn check(&self, shards: u16) -> Result<(), NoPlace> {
        if self.is_off() {
            return Ok(());
        }
        Members::new(self.settings(shards, Vec::new()), 0)?;
        if let Some(file) = &self.etcd_ca_file {
            certificates("cluster.etcd_ca_file", file)?;
        }
        Etcd::check(&self.etcd()?)?;
        self.tls().map(drop)
    }

    /// What this node is to be, whose disk has what it kept of others in these memberships.
    pub(crate) fn settings(&self, shards: u16, former: Vec<Incarnation>) -> MembersSettings {
        MembersSettings {
            cluster: self.name.clone(),
            name: self.node(),
            address: self.address(),
            shards,
            number_min: wall_now().0,
            letters: Mail::VERSION.into(),
            letters_min: Mail::VERSION_MIN.into(),
            times: Times::default(),
            keeper: self.stand_in.as_ref().map(|stand_in| Slot(stand_in.keeper)),
            former,
        }
    }

    /// Whether this node serves its own clients while it is cut off.
    pub(crate) fn serves_minority(&self) -> bool {
        !self.is_off() && self.minority == Minority::Serve
    }

    /// Whether clients wait for sessions that may be on nodes that are away.
    pub(crate) fn waits_for_absent(&self) -> bool {
        !self.is_off() && self.absent == Absent::Wait
    }

    /// Whether other nodes have copies of the log of this one.
    pub(crate) fn is_copied(&self) -> bool {
        self.copies() > 0
    }

    /// How many have.
    pub(crate) fn copies(&self) -> usize {
        if self.is_off() { 0 } else { usize::from(self.replicas.saturating_sub(1)) }
    }

    /// How long this node waits at its end, if it does.
    pub(crate) fn handover(&self) -> Option<HandoverTimes> {
        let is_to = !self.is_off() && self.handover_s > 0;
        is_to.then(|| HandoverTimes { next: Duration::from_secs(self.handover_s.into()) })
    }

    /// How etcd is reached.
    pub(crate) fn etcd(&self) -> Result<EtcdSettings, NoPlace> {
        let user = match (&self.etcd_user, &self.etcd_password_file) {
            (Some(name), Some(file)) => {
                let password = read("cluster.etcd_password_file", file)?;
                let password = password.trim_end_matches(['\r', '\n']).to_owned();
                Some(User { name: name.clone(), password })
            }
            (None, None) => None,
            _ => return Err(NoPlace::HalfUser),
        };
        let (endpoints, ca_file) = (self.etcd.clone(), self.etcd_ca_file.clone());
        Ok(EtcdSettings { endpoints, ca_file, identity: None, user })
    }

    /// How nodes encrypt what they say to each other.
    pub(crate) fn tls(&self) -> Result<Option<Tls>, NoPlace> {
        let Some(ClusterTls { certificate, key, ca }) = &self.tls else { return Ok(None) };
        let ca = certificates("cluster.tls.ca", ca)?;
        let certificate = certificates("cluster.tls.certificate", certificate)?;
        let key = pem("cluster.tls.key", key, |text| PrivateKey::from_pem(text).map(drop))?;
        Tls::from_pem(&ca, &certificate, &key).map(Some).map_err(NoPlace::Tls)
    }

    /// Where other nodes find this one.
    fn address(&self) -> String {
        let own = || own_address(&self.listen, &self.etcd).map(|own| own.to_string());
        self.advertise.clone().or_else(own).unwrap_or_else(|| self.listen.clone())
    }

    /// The host of that place.
    pub(crate) fn host(&self) -> String {
        let address = self.address();
        address.rsplit_once(':').map_or(String::new(), |(host, _)| host.to_owned())
    }

    /// Listens at this port, which the system has chosen where the configuration has none.
    pub(crate) fn set_port(&mut self, port: u16) {
        for address in std::iter::once(&mut self.listen).chain(&mut self.advertise) {
            if let Some(host) = address.strip_suffix(":0") {
                *address = format!("{host}:{port}");
            }
        }
    }

    /// What this node is called.
    pub(crate) fn node(&self) -> String {
        self.node.clone().unwrap_or_else(crate::host::name)
    }
}

/// Where this host can be reached that listens on all interfaces: by the address that it has on its
/// way to etcd, rather to one on another host.
fn own_address(listen: &str, etcd: &[String]) -> Option<SocketAddr> {
    let listen: SocketAddr = listen.parse().ok()?;
    if !listen.ip().is_unspecified() {
        return None;
    }
    let found: Vec<IpAddr> = etcd.iter().filter_map(|endpoint| way_to(endpoint)).collect();
    let far = found.iter().find(|ip| !ip.is_loopback()).or(found.first())?;
    Some(SocketAddr::new(*far, listen.port()))
}

/// The address that this host has on its way to `http://HOST:PORT`. Nothing is sent.
fn way_to(endpoint: &str) -> Option<IpAddr> {
    let (_, place) = endpoint.split_once("://")?;
    let etcd = place.trim_end_matches('/').to_socket_addrs().ok()?.next()?;
    let any: IpAddr = match etcd {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(etcd).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The text of a file of certificates.
fn certificates(key: &'static str, path: &Path) -> Result<String, NoPlace> {
    pem(key, path, |text| Certificates::from_pem(text).map(drop))
}

fn pem(
    key: &'static str,
    path: &Path,
    check: impl Fn(&[u8]) -> Result<(), PemError>,
) -> Result<String, NoPlace> {
    let text = read(key, path)?;
    let bad = |error| NoPlace::Pem { key, path: path.to_owned(), error };
    check(text.as_bytes()).map_err(bad)?;
    Ok(text)
}

fn read(key: &'static str, path: &Path) -> Result<String, NoPlace> {
    std::fs::read_to_string(path).map_err(|error| NoPlace::File {
        key,
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    fn checked(change: impl FnOnce(&mut ClusterConfig)) -> String {
        let mut config =
            ClusterConfig { etcd: vec!["https://[::1]:2379".into()], ..<_>::default() };
        change(&mut config);
        let Err(error) = config.check(2) else { return "good".into() };
        let beneath = error.source().map(|source| format!(": {source}"));
        format!("{error}{}", beneath.unwrap_or_default())
    }

    #[test]
    fn a_node_on_all_interfaces_is_found_where_it_reaches_etcd() {
        let found = |listen: &str, etcd: &[&str]| {
            let etcd: Vec<String> = etcd.iter().map(|&it| it.into()).collect();
            ClusterConfig { etcd, listen: listen.into(), ..<_>::default() }.address()
        };
        let local = "http://127.0.0.1:2379";
        assert_eq!(found("0.0.0.0:7883", &[local]), "127.0.0.1:7883");
        assert_eq!(found("0.0.0.0:7883", &["http://no such host:1", local]), "127.0.0.1:7883");
        assert_eq!(found("10.0.0.1:7883", &[local]), "10.0.0.1:7883");
        assert_eq!(found("a.example:7883", &[local]), "a.example:7883");
        let config = ClusterConfig {
            etcd: vec![local.into()],
            listen: "0.0.0.0:7883".into(),
            advertise: Some("b:1".into()),
            ..<_>::default()
        };
        assert_eq!(config.address(), "b:1");
    }

    #[test]
    fn what_cannot_be_is_named_before_a_start() {
        let folder = tempfile::tempdir().unwrap();
        let (none, empty) = (folder.path().join("none"), folder.path().join("empty.pem"));
        std::fs::write(&empty, "").unwrap();
        assert_eq!(checked(|_| ()), "good");
        let tls = |file: &PathBuf| {
            Some(ClusterTls { certificate: file.clone(), key: file.clone(), ca: file.clone() })
        };
        for (found, wanted) in [
            (checked(|config| config.tls = tls(&none)), "cluster.tls.ca: cannot read "),
            (checked(|config| config.tls = tls(&empty)), "empty.pem: it has no certificate"),
            (
                checked(|config| config.etcd_ca_file = Some(none.clone())),
                "cluster.etcd_ca_file: cannot read ",
            ),
            (
                checked(|config| config.etcd_ca_file = Some(empty.clone())),
                "empty.pem: it has no certificate",
            ),
            (checked(|config| config.etcd_user = Some("weir".into())), "go together"),
            (
                checked(|config| {
                    config.etcd_user = Some("weir".into());
                    config.etcd_password_file = Some(none.clone());
                }),
                "cluster.etcd_password_file: cannot read ",
            ),
            (checked(|config| config.etcd = vec!["10.0.0.1:2379".into()]), "cluster.etcd: "),
            (checked(|config| config.node = Some("a b".into())), "is no name"),
            (checked(|config| config.advertise = Some(String::new())), "is no address"),
        ] {
            assert!(found.contains(wanted), "{found:?} is not {wanted:?}");
        }
        // Nobody reads what is not used.
        let unused = |config: &mut ClusterConfig| {
            (config.etcd, config.tls) = (Vec::new(), tls(&none));
        };
        assert_eq!(checked(unused), "good");
    }
}
