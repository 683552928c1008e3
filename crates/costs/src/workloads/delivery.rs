//! Messages through the core: fan-out, pairs, shared groups; and connections.

use super::Workload;
use crate::hub::Hub;
use crate::packets::{connect, publish};
use std::sync::Arc;
use weir_core::{ConnKey, Grant, PolicyBuilder};
use weir_wire::packet::Ack;
use weir_wire::{Frame, Packet, PacketKind, QoS, Version};

const RECEIVERS: usize = 1000;
const PAIRS: usize = 1000;
const PUBLISHERS: usize = 1000;
const GROUP: usize = 5;
const CONNECTS_IN_A_ROUND: usize = 1000;
const LARGE_BYTES: usize = 16 * 1024;
const RULES: usize = 10_000;

pub(super) const FAN_OUT_QOS_0: Workload = Workload {
    name: "fan-out-qos-0",
    operations: RECEIVERS as u64,
    prepare: || fan_out(Hub::new(), QoS::AtMostOnce, RECEIVERS, 16),
};

pub(super) const FAN_OUT_QOS_1: Workload = Workload {
    name: "fan-out-qos-1",
    operations: RECEIVERS as u64,
    prepare: || fan_out(Hub::new(), QoS::AtLeastOnce, RECEIVERS, 16),
};

pub(super) const LARGE_FAN_OUT: Workload = Workload {
    name: "fan-out-16-KiB",
    operations: 100,
    prepare: || fan_out(Hub::new(), QoS::AtMostOnce, 100, LARGE_BYTES),
};

/// Whoever subscribes may read all of it.
pub(super) const FAN_OUT_RIGHTS: Workload = Workload {
    name: "fan-out-rights",
    operations: RECEIVERS as u64,
    prepare: || fan_out(limited(&["other/#", "test/#"]), QoS::AtMostOnce, RECEIVERS, 16),
};

/// A message that is allowed by one of many rules.
pub(super) const PUBLISH_RIGHTS: Workload = Workload {
    name: "publish-by-1-of-10000-rules",
    operations: 1,
    prepare: || {
        let filters: Vec<String> = (0..RULES).map(|at| format!("plant/{at}/+/state")).collect();
        let mut hub = limited(&filters);
        let publisher = hub.connect();
        let packet = publish("plant/7777/line/state", QoS::AtLeastOnce, 16);
        Box::new(move || {
            hub.send(publisher, &packet);
            take(&mut hub, publisher);
        })
    },
};

pub(super) const PAIRS_QOS_1: Workload = Workload {
    name: "pairs-qos-1",
    operations: PAIRS as u64,
    prepare: || {
        let mut hub = Hub::new();
        let publishers: Vec<ConnKey> = (0..PAIRS).map(|_| hub.connect()).collect();
        let subscribers: Vec<ConnKey> = (0..PAIRS).map(|_| hub.connect()).collect();
        let topics: Vec<String> = (0..PAIRS).map(|at| format!("pair/{at}/topic")).collect();
        for (&subscriber, topic) in subscribers.iter().zip(&topics) {
            hub.subscribe(subscriber, topic, QoS::AtLeastOnce);
        }
        let packets: Vec<_> =
            topics.iter().map(|topic| publish(topic, QoS::AtLeastOnce, 16)).collect();
        Box::new(move || {
            for at in 0..PAIRS {
                hub.send(publishers[at], &packets[at]);
                take(&mut hub, publishers[at]);
                acknowledge(&mut hub, subscribers[at]);
            }
        })
    },
};

pub(super) const FAN_IN_SHARED: Workload = Workload {
    name: "fan-in-shared-qos-1",
    operations: PUBLISHERS as u64,
    prepare: || {
        let mut hub = Hub::new();
        let publishers: Vec<ConnKey> = (0..PUBLISHERS).map(|_| hub.connect()).collect();
        let members: Vec<ConnKey> = (0..GROUP).map(|_| hub.connect()).collect();
        for &member in &members {
            hub.subscribe(member, "$share/group/fan/in/+", QoS::AtLeastOnce);
        }
        let topic = |at| format!("fan/in/{at}");
        let packets: Vec<_> =
            (0..PUBLISHERS).map(|at| publish(&topic(at), QoS::AtLeastOnce, 16)).collect();
        Box::new(move || {
            for at in 0..PUBLISHERS {
                hub.send(publishers[at], &packets[at]);
                take(&mut hub, publishers[at]);
                // In turn: the next member has it.
                acknowledge(&mut hub, members[at % GROUP]);
            }
        })
    },
};

pub(super) const CONNECTS: Workload = Workload {
    name: "connect-and-leave",
    operations: CONNECTS_IN_A_ROUND as u64,
    prepare: || {
        let mut hub = Hub::new();
        hub.outputs.0.resize_with(CONNECTS_IN_A_ROUND, || Vec::with_capacity(64));
        let connect = |at| connect(Version::V311, &format!("client-{at}"));
        let packets: Vec<Vec<u8>> = (0..CONNECTS_IN_A_ROUND).map(connect).collect();
        Box::new(move || {
            for (at, packet) in packets.iter().enumerate() {
                let conn = ConnKey(at as u32);
                hub.shard.opened(conn, hub.now);
                hub.send(conn, packet);
                assert_eq!(hub.outputs.0[at].len(), 4, "CONNACK");
                hub.outputs.0[at].clear();
            }
            for at in 0..CONNECTS_IN_A_ROUND {
                hub.shard.closed(ConnKey(at as u32), hub.now, &mut hub.outputs);
            }
        })
    },
};

/// Where clients may publish to and read these alone.
fn limited(filters: &[impl AsRef<str>]) -> Hub {
    let mut policy = PolicyBuilder::default();
    for filter in filters {
        policy.rule(None, Grant::ReadWrite, filter.as_ref()).expect("a filter");
    }
    let mut hub = Hub::new();
    hub.shard.set_policy(Arc::new(policy.build()));
    hub
}

/// One message to everybody, and everybody's acknowledgement.
fn fan_out(mut hub: Hub, qos: QoS, receivers: usize, bytes: usize) -> Box<dyn FnMut()> {
    let publisher = hub.connect();
    let subscribers: Vec<ConnKey> = (0..receivers).map(|_| hub.connect()).collect();
    for &subscriber in &subscribers {
        hub.subscribe(subscriber, "test/#", qos);
    }
    let packet = publish("test/topic/17", qos, bytes);
    Box::new(move || {
        hub.send(publisher, &packet);
        hub.outputs.0[publisher.0 as usize].clear();
        for &subscriber in &subscribers {
            if qos == QoS::AtMostOnce {
                take(&mut hub, subscriber);
            } else {
                acknowledge(&mut hub, subscriber);
            }
        }
    })
}

/// The client has read what came.
fn take(hub: &mut Hub, conn: ConnKey) {
    let output = &mut hub.outputs.0[conn.0 as usize];
    assert!(!output.is_empty(), "something came");
    output.clear();
}

/// The client has read the one message that came, and acknowledges it.
fn acknowledge(hub: &mut Hub, conn: ConnKey) {
    let output = &mut hub.outputs.0[conn.0 as usize];
    let frame = Frame::check(output, 1 << 20).ok().flatten().expect("a message came");
    let Ok(Packet::Publish(publish)) = Packet::decode(Version::V311, frame) else {
        panic!("a message came")
    };
    let packet_id = publish.packet_id.expect("at QoS 1");
    output.clear();
    Ack::success(packet_id).encode(PacketKind::PubAck, Version::V311, output);
    let ack = std::mem::take(&mut hub.outputs.0[conn.0 as usize]);
    hub.send(conn, &ack);
    hub.outputs.0[conn.0 as usize] = ack;
    hub.outputs.0[conn.0 as usize].clear();
}
