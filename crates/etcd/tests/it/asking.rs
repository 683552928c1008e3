//! Whoever asks and waits for what is said.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_cluster::{Ask, Said, Ticket};
use weir_etcd::{Etcd, EtcdSettings};

/// For what takes no time, and fails a test if it takes this much.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) struct Asking {
    pub(crate) etcd: Etcd,
    woken: Receiver<()>,
    tickets: u64,
}

impl Asking {
    pub(crate) fn start(endpoints: &[&str]) -> Self {
        let endpoints = endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect();
        Self::by(&EtcdSettings { endpoints, ..EtcdSettings::default() })
    }

    pub(crate) fn by(settings: &EtcdSettings) -> Self {
        let (to, woken) = channel();
        let wake = move || {
            // The other end may have gone.
            let _ = to.send(());
        };
        Self { etcd: Etcd::start(settings, wake).unwrap(), woken, tickets: 0 }
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Ticket {
        self.tickets += 1;
        self.etcd.ask(Ticket(self.tickets), ask).unwrap();
        Ticket(self.tickets)
    }

    /// The next thing said.
    pub(crate) fn next(&mut self) -> (Ticket, Said) {
        loop {
            if let Some(said) = self.etcd.said() {
                return said;
            }
            self.woken.recv_timeout(LONG).unwrap();
        }
    }

    /// What is said of a question, while nothing else is asked.
    pub(crate) fn said(&mut self, ask: Ask) -> Said {
        let ticket = self.ask(ask);
        let (of, said) = self.next();
        assert_eq!(of, ticket);
        said
    }
}
