//! A topic to its filters, by QoS 0 messages that one subscriber takes each.

use super::Workload;
use crate::hub::Hub;
use crate::packets::publish;
use weir_wire::QoS;

const MESSAGES: usize = 1000;
const FILTERS: usize = 10_000;

pub(super) const EXACT: Workload = Workload {
    name: "match-1-of-10000-exact",
    operations: MESSAGES as u64,
    prepare: || one_of(|at| format!("fleet/{}/truck/{at}/state", at % 100)),
};

pub(super) const WILDCARDS: Workload = Workload {
    name: "match-1-of-10000-wildcards",
    operations: MESSAGES as u64,
    prepare: || one_of(|at| format!("fleet/{}/truck/{at}/#", at % 100)),
};

fn one_of(filter: impl Fn(usize) -> String) -> Box<dyn FnMut()> {
    let mut hub = Hub::new();
    let publisher = hub.connect();
    let subscriber = hub.connect();
    for at in 0..FILTERS {
        hub.subscribe(subscriber, &filter(at), QoS::AtMostOnce);
    }
    let mut bytes = Vec::new();
    for at in 0..MESSAGES {
        let at = at * 7919 % FILTERS;
        let topic = format!("fleet/{}/truck/{at}/state", at % 100);
        bytes.extend(publish(&topic, QoS::AtMostOnce, 16));
    }
    Box::new(move || {
        hub.send(publisher, &bytes);
        let output = &mut hub.outputs.0[subscriber.0 as usize];
        assert_eq!(output.len(), bytes.len(), "each message came once");
        output.clear();
    })
}
