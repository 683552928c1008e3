//! A node's membership on a thread of its own, as a broker has it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_cluster::{Collected, Event, Failure, Members, MembersSettings, Said, Times};
use weir_core::{Micros, Partition};
use weir_etcd::{Etcd, EtcdSettings};

/// What a host tells whenever something has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) may_act: bool,
    /// The members' names and their first shards, by slot.
    pub(crate) members: Vec<(String, u16)>,
    /// Of which partitions it is the home.
    pub(crate) home_to: Vec<u8>,
    /// How often it was fenced.
    pub(crate) fenced: u32,
}

enum Order {
    Wake,
    Leave,
}

pub(crate) struct Host {
    to: Sender<Order>,
    pub(crate) states: Receiver<State>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    pub(crate) fn start(name: &str, settings: &EtcdSettings) -> Self {
        let (to, orders) = channel();
        let (tell, states) = channel();
        let (wake, settings, name) = (to.clone(), settings.clone(), name.to_owned());
        let run = move || {
            let wake = move || {
                // The thread may have ended.
                let _ = wake.send(Order::Wake);
            };
            let etcd = Etcd::start(&settings, wake).unwrap();
            Run::new(&name, etcd, tell).run(&orders);
        };
        Self { to, states, thread: Some(std::thread::spawn(run)) }
    }

    /// Waits until its state is as wanted.
    pub(crate) fn until(&self, what: &str, is_wanted: impl Fn(&State) -> bool) -> State {
        let mut last = State::default();
        let end = Instant::now() + crate::asking::LONG;
        while !is_wanted(&last) {
            let left = end.saturating_duration_since(Instant::now());
            let next = self.states.recv_timeout(left);
            last = next.unwrap_or_else(|_| panic!("{what}: it stays {last:?}"));
        }
        last
    }

    /// Gives its lease back and ends.
    pub(crate) fn leave(mut self) {
        self.to.send(Order::Leave).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.to.send(Order::Leave);
    }
}

struct Run {
    members: Members,
    etcd: Etcd,
    tell: Sender<State>,
    state: State,
    started: Instant,
}

impl Run {
    fn new(name: &str, etcd: Etcd, tell: Sender<State>) -> Self {
        let settings = MembersSettings {
            cluster: "test".into(),
            name: name.into(),
            address: "127.0.0.1:7883".into(),
            shards: 2,
            number_min: 0,
            letters: 1,
            letters_min: 1,
            keeper: None,
            former: Vec::new(),
            times: Times::default(),
        };
        let seed = name.bytes().fold(u64::from(std::process::id()), |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        });
        let members = Members::new(settings, seed).unwrap();
        Self { members, etcd, tell, state: State::default(), started: Instant::now() }
    }

    fn run(mut self, orders: &Receiver<Order>) {
        let mut sink = Collected::default();
        self.members.handle_timeout(self.now(), &mut sink);
        self.pass_on(sink);
        while !self.members.has_left() {
            let due = self.members.poll_timeout().map_or(u64::MAX, |at| at.0);
            let rest = Duration::from_micros(due.saturating_sub(self.now().0).min(1_000_000));
            let mut sink = Collected::default();
            match orders.recv_timeout(rest) {
                Ok(Order::Wake) => {
                    while let Some((ticket, said)) = self.etcd.said() {
                        self.members.handle(ticket, said, self.now(), &mut sink);
                    }
                }
                Ok(Order::Leave) => self.members.leave(self.now(), &mut sink),
                Err(RecvTimeoutError::Timeout) => {
                    self.members.handle_timeout(self.now(), &mut sink);
                }
                // The test has ended.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if !self.pass_on(sink) {
                return;
            }
        }
    }

    fn now(&self) -> Micros {
        Micros(self.started.elapsed().as_micros() as u64)
    }

    /// Says whether anybody still looks.
    fn pass_on(&mut self, mut sink: Collected) -> bool {
        while !sink.asks.is_empty() || !sink.events.is_empty() {
            let mut next = Collected::default();
            for (ticket, ask) in sink.asks {
                if self.etcd.ask(ticket, ask).is_err() {
                    let said = Said::Failed(Failure::Unavailable);
                    self.members.handle(ticket, said, self.now(), &mut next);
                }
            }
            for event in sink.events {
                match event {
                    Event::Release { number, .. } => {
                        self.members.released(number, self.now(), &mut next);
                    }
                    Event::Fenced => self.state.fenced += 1,
                    _ => {}
                }
            }
            sink = next;
        }
        let members = &self.members;
        let of = |node: &weir_cluster::Node| (node.place.name.clone(), node.place.first_shard);
        let is_home = |partition: &Partition| members.is_home_to(*partition);
        let state = State {
            may_act: members.acts_until().is_some(),
            members: members.nodes().map(of).collect(),
            home_to: Partition::all().filter(is_home).map(|partition| partition.0).collect(),
            fenced: self.state.fenced,
        };
        if state == self.state {
            return true;
        }
        self.state = state.clone();
        self.tell.send(state).is_ok()
    }
}
