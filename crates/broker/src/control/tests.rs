//! Shards whose control thread has stopped: the test has its place, and takes no answer.

use super::*;
use crate::{Config, Server};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weir_wire::Version;
use weir_wire::packet::Connect;

const PINGREQ: [u8; 2] = [0xC0, 0];
const PINGRESP: [u8; 2] = [0xD0, 0];

fn ping(client: &mut TcpStream) {
    client.write_all(&PINGREQ).unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, PINGRESP);
}

fn connect(address: std::net::SocketAddr, client_id: &str) -> TcpStream {
    let mut bytes = Vec::new();
    Connect::new(Version::V311, client_id).encode(&mut bytes);
    let mut client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    client.write_all(&bytes).unwrap();
    let mut connack = [0; 4];
    client.read_exact(&mut connack).unwrap();
    assert_eq!(connack, [0x20, 2, 0, 0]);
    client
}

#[test]
fn shards_serve_on_when_the_control_thread_takes_no_answers() {
    let listen = vec!["127.0.0.1:0".into()];
    let mut server = Server::bind(&Config { listen, shards: 2, ..Config::default() }).unwrap();
    let (address, stopper) = (server.addresses()[0], server.stopper());
    let (workers, shards, ..) = server.workers(true).unwrap();
    let mut shards = shards.unwrap();
    let threads: Vec<_> =
        workers.into_iter().map(|worker| std::thread::spawn(move || worker.run())).collect();
    let mut clients: Vec<_> = (0..8).map(|at| connect(address, &format!("c{at}"))).collect();
    let mut full = 0;
    for _ in 0..1_000 {
        for shard in 0..2 {
            let request = Request::Clients { from: 0, clients_max: 256 };
            full += u32::from(shards.ask(shard, request) == Err(Full));
        }
        ping(&mut clients[0]);
    }
    clients.iter_mut().for_each(ping);
    // Now the answers that had room, then one that says how many had none.
    let mut answers = 0;
    shards.take_answers(&mut |_, _| answers += 1);
    assert!(answers <= 2 * weir_control::REQUESTS_MAX, "{answers}");
    let mut dropped = 0;
    for shard in 0..2 {
        while shards.ask(shard, Request::Counters) == Err(Full) {
            std::thread::yield_now();
        }
        let mut counters = None;
        while counters.is_none() {
            shards.take_answers(&mut |from, answer| match answer {
                weir_control::Answer::Counters(found) if from == shard => counters = Some(found),
                _ => answers += 1,
            });
        }
        let counters = counters.unwrap().shard;
        dropped += counters.iter().find(|(name, _)| *name == "answers_dropped").unwrap().1;
    }
    let asked = 2_000 - u64::from(full);
    assert_eq!(answers as u64 + dropped, asked, "each is given or counted");
    assert!(dropped > 1_000, "{dropped}");
    drop(shards);
    clients.iter_mut().for_each(ping);
    stopper.stop();
    threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
}
