//! What is asked of nodes between faults: whether all serve, and what they retain.

use crate::client::place;
use crate::plan::{NODES, name};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};
use weir_crash::link::Link;
use weir_crash::names::RETAINED;
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, Properties, QoS};

/// How long a node that serves may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// How long SUBACK may take: it waits for other nodes.
const GRANT_MAX: Duration = Duration::from_secs(10);

/// What is retained is there when nothing has come for so long.
const SILENCE: Duration = Duration::from_millis(700);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until all nodes serve each other's clients; says how long that took. Nothing after `most`.
pub(crate) fn until_all_serve(most: Duration) -> Result<Duration, String> {
    let begin = Instant::now();
    loop {
        let done = all_serve();
        let took = begin.elapsed();
        match done {
            Ok(()) => return Ok(took),
            Err((node, error)) if took > most => return Err(format!("{}: {error}", name(node))),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// A client on each node subscribes and publishes; all have to hear all.
fn all_serve() -> Result<(), (usize, io::Error)> {
    let mut links = Vec::new();
    for node in 0..NODES {
        let client_id = format!("probe-{node}");
        let came = Link::connect(&place(node, ANSWER_MAX), &client_id, true, false);
        let (link, _) = came.map_err(|error| (node, error))?;
        links.push(link);
    }
    let each = |links: &mut [Link], ask: &mut dyn FnMut(&mut Link) -> io::Result<()>| {
        let mut all = links.iter_mut().zip(0..);
        all.try_for_each(|(link, node)| ask(link).map_err(|error| (node, error)))
    };
    each(&mut links, &mut |link| {
        link.subscribe([("probe", QoS::AtLeastOnce)].into_iter());
        link.flush()?;
        until(link, |packet| matches!(packet, Packet::SubAck(_)), 1)
    })?;
    each(&mut links, &mut |link| {
        link.push(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: "probe",
            packet_id: Some(PacketId::FIRST),
            properties: Properties::EMPTY,
            payload: b"probe",
        }));
        link.flush()
    })?;
    let is_answer = |packet: &Packet<'_>| matches!(packet, Packet::PubAck(_) | Packet::Publish(_));
    each(&mut links, &mut |link| until(link, is_answer, NODES + 1))
}

/// Waits for so many packets of a kind.
fn until(link: &mut Link, is_it: impl Fn(&Packet<'_>) -> bool, mut count: usize) -> io::Result<()> {
    while count > 0 {
        let is_it = link.packet(ANSWER_MAX, &is_it)?.ok_or(ErrorKind::TimedOut)?;
        count -= usize::from(is_it);
    }
    Ok(())
}

/// What a node retains of the load's, by topic.
pub(crate) fn retained(node: usize) -> io::Result<BTreeMap<String, String>> {
    let client_id = format!("retained-{node}");
    let (mut link, _) = Link::connect(&place(node, ANSWER_MAX), &client_id, true, false)?;
    link.subscribe([(RETAINED, QoS::AtMostOnce)].into_iter());
    link.flush()?;
    let is_granted = |packet: &Packet<'_>| matches!(packet, Packet::SubAck(_));
    while !link.packet(GRANT_MAX, is_granted)?.ok_or(ErrorKind::TimedOut)? {}
    let mut all = BTreeMap::new();
    let message = |packet: &Packet<'_>| match packet {
        Packet::Publish(publish) => {
            let payload = String::from_utf8_lossy(publish.payload).into_owned();
            Some((publish.topic.to_owned(), payload))
        }
        _ => None,
    };
    while let Some(message) = link.packet(SILENCE, message)? {
        all.extend(message);
    }
    Ok(all)
}
