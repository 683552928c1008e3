//! The nodes of a broker that has several, and what they need beside them.

use super::again::Again;
use super::{DriverError, LOOK_EVERY, Launch, Running, Service, last_lines};
use crate::mqtt;
use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use weir_load::plan::ProtocolVersion;

/// How long a service may take until it can be connected to.
const SERVICE_READY_MAX: Duration = Duration::from_secs(20);

impl Service {
    /// Starts it, beside the node of `launch`, and waits until it can be connected to at `target`.
    /// `data` is made for it, and goes with it.
    ///
    /// # Errors
    /// It does not start, or cannot be connected to.
    pub(in crate::driver) fn start(
        name: &str,
        command: Vec<String>,
        (target, data): (SocketAddr, PathBuf),
        launch: &Launch<'_>,
    ) -> Result<Self, DriverError> {
        let system = |source| DriverError::System { broker: name.to_owned(), source };
        let again = Again::of_service(name, command, launch);
        std::fs::create_dir_all(&data).map_err(system)?;
        let guarded = File::create(&again.log).and_then(|log| again.launch(log)).map_err(system)?;
        let mut service = Self { name: name.into(), guarded, data };
        let deadline = Instant::now() + SERVICE_READY_MAX;
        while let Err(error) = TcpStream::connect_timeout(&target, SERVICE_READY_MAX) {
            let exit = service.guarded.exited(Duration::ZERO).map(str::to_owned);
            if exit.is_some() || Instant::now() >= deadline {
                let why = exit.unwrap_or_else(|| error.to_string()) + &last_lines(&again.log);
                let (broker, address) = (service.name.clone(), target.to_string());
                return Err(DriverError::NotReady { broker, address, why });
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(service)
    }
}

impl Running {
    /// One broker of several nodes that answer, the first of which this becomes; it has at least
    /// one.
    pub(in crate::driver) fn together(
        mut nodes: Vec<Self>,
        services: Vec<Service>,
    ) -> Option<Self> {
        let others = nodes.split_off(nodes.len().min(1));
        let mut first = nodes.pop()?;
        (first.others, first.services) = (others, services);
        if !first.others.is_empty() {
            first.broker.nodes = first.nodes() as u32;
            first.broker.address = first.addresses().collect::<Vec<_>>().join(", ");
            if first.guarded.is_some() {
                let text = "command and configuration are those of node 1; those of the others \
                            differ in names and ports";
                first.broker.profile_changes.push(text.into());
            }
        }
        Some(first)
    }

    /// Waits until what is published at each node comes to its successor: that they answer does not
    /// say that they know each other.
    ///
    /// # Errors
    /// It does not come within `patience`.
    pub(in crate::driver) fn pass_on(&self, patience: Duration) -> Result<(), DriverError> {
        let nodes: Vec<&Self> = self.all().collect();
        let pairs = nodes.iter().zip(nodes.iter().cycle().skip(1));
        for (from, to) in pairs.take(if nodes.len() > 1 { nodes.len() } else { 0 }) {
            let deadline = Instant::now() + patience;
            while !mqtt::passes(from.target, to.target, &self.login).unwrap_or(false) {
                if Instant::now() >= deadline {
                    let why = "what is published there does not come to another node".into();
                    let (broker, address) = (self.broker.name.clone(), from.target.to_string());
                    return Err(DriverError::NotReady { broker, address, why });
                }
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        1 + self.others.len()
    }

    /// One of its nodes, from 0; one that there is not is the last.
    pub fn node_mut(&mut self, at: usize) -> &mut Self {
        let at = at.min(self.others.len());
        match at.checked_sub(1) {
            None => self,
            Some(at) => &mut self.others[at],
        }
    }

    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }

    /// host:port of each node.
    pub fn addresses(&self) -> impl Iterator<Item = String> {
        self.all().map(|node| node.target.to_string())
    }

    /// Where each node listens for a version.
    pub fn targets_of(&self, version: ProtocolVersion) -> Vec<SocketAddr> {
        self.all().map(|node| node.target_of(version)).collect()
    }

    /// Its nodes' processes and those of what the nodes need, if they are to be watched.
    pub fn pids(&self) -> Vec<u32> {
        let services = self.services.iter().map(|service| Some(service.guarded.broker()));
        self.all().map(|node| node.pid).chain(services).flatten().collect()
    }

    /// The logs of its nodes, where the suite has started them.
    pub(crate) fn logs(&self) -> Vec<&Path> {
        self.all().filter_map(|node| Some(&*node.again.as_ref()?.log)).collect()
    }

    /// What the nodes need beside them, by name.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.services.iter().map(|service| service.name.as_str())
    }
}
