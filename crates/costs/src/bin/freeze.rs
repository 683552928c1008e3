//! How long shards take no input while a partition moves, by how many clients are connected and
//! idle: a thread for each of four shards, with channels for letters, and every partition in turn.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use weir_core::{
    ConnKey, Limits, Mail, Micros, Notice, Parcel, Partition, Partitions, Shard, ShardId, Sink,
};
use weir_wire::packet::Connect;
use weir_wire::{Properties, Version};

const SHARDS: u16 = 4;
const SEED: u64 = 1;

/// What comes to a thread.
enum Letter {
    Mail(ShardId, Mail),
    Parcel(Parcel, Option<ConnKey>),
    Move(Partition, ShardId),
    Stop,
}

/// What a shard writes to.
struct Wires {
    own: ShardId,
    peers: Vec<Sender<Letter>>,
    moved: Sender<Instant>,
}

impl Sink for Wires {
    fn write(&mut self, _conn: ConnKey, _bytes: &[u8]) {}

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, _conn: ConnKey) {}

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {}

    fn send_parcel(&mut self, to: ShardId, parcel: Parcel, conn: Option<ConnKey>) {
        // Keys are those of no other shard.
        self.send(to, Letter::Parcel(parcel, conn));
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.send(to, Letter::Mail(self.own, mail));
    }

    fn notice(&mut self, notice: Notice<'_>) {
        if let Notice::Moved { .. } = notice {
            // Nobody waits once the measurement is over.
            let _ = self.moved.send(Instant::now());
        }
    }
}

impl Wires {
    fn send(&self, to: ShardId, letter: Letter) {
        // A thread that has stopped needs no letter.
        let _ = self.peers[usize::from(to.0)].send(letter);
    }
}

fn serve(mut shard: Shard, mut wires: Wires, letters: &Receiver<Letter>, begin: Instant) {
    loop {
        let now = Micros(1_000_000 + begin.elapsed().as_micros() as u64);
        let is_due = shard.poll_timeout().is_some_and(|due| due <= now);
        if is_due {
            shard.handle_timeout(now, &mut wires);
        }
        let letter = match shard.poll_timeout() {
            Some(_) => letters.try_recv().ok(),
            None => letters.recv().ok(),
        };
        match letter {
            Some(Letter::Mail(from, mail)) => shard.mail(from, mail, now, &mut wires),
            Some(Letter::Parcel(parcel, conn)) => shard.arrived(parcel, conn, now, &mut wires),
            Some(Letter::Move(partition, to)) => {
                let asked = shard.move_partition(partition, to, now, &mut wires);
                assert_eq!(asked, Ok(()), "one at a time, to another shard");
            }
            Some(Letter::Stop) => return,
            None => {}
        }
        shard.turn_end(&mut wires);
    }
}

/// How long each of the moves took, sorted.
fn measure(idle: u32) -> Vec<Duration> {
    let (moved, moves) = channel();
    let (peers, inboxes): (Vec<_>, Vec<_>) = (0..SHARDS).map(|_| channel()).unzip();
    let partitions = Partitions::spread(SHARDS, SEED);
    let mut shards: Vec<Shard> =
        (0..SHARDS).map(|id| Shard::new(ShardId(id), SHARDS, Limits::default(), SEED)).collect();
    let wires = |own| Wires { own, peers: peers.clone(), moved: moved.clone() };
    for number in 0..idle {
        let client_id = format!("client-{number}");
        let owner = partitions.owner(&client_id);
        let shard = &mut shards[usize::from(owner.0)];
        let mut packet = Vec::new();
        Connect {
            version: Version::V311,
            clean_start: true,
            keep_alive_s: 0,
            client_id: &client_id,
            will: None,
            user_name: None,
            password: None,
            properties: Properties::EMPTY,
        }
        .encode(&mut packet);
        shard.opened(ConnKey(number), Micros(0));
        shard.received(ConnKey(number), &packet, Micros(0), &mut wires(owner));
    }
    let begin = Instant::now();
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        for ((shard, own), letters) in shards.into_iter().zip(0..).zip(inboxes) {
            let wires = wires(ShardId(own));
            scope.spawn(move || serve(shard, wires, &letters, begin));
        }
        let one = |partition: Partition| {
            let to = ShardId((partitions.holder(partition).0 + 1) % SHARDS);
            let asked = Instant::now();
            peers[0].send(Letter::Move(partition, to)).expect("it serves");
            moves.recv().expect("it is done") - asked
        };
        let took = Partition::all().map(one).collect();
        peers.iter().for_each(|peer| peer.send(Letter::Stop).expect("it serves"));
        took
    });
    took.sort_unstable();
    took
}

fn main() {
    println!("| idle connections | median | p90 | longest |\n|--:|--:|--:|--:|");
    for idle in [0, 10_000, 100_000, 1_000_000] {
        let took = measure(idle);
        let [median, p90, longest] =
            [128, 230, 255].map(|at: usize| format!("{:.2} ms", took[at].as_secs_f64() * 1e3));
        println!("| {idle} | {median} | {p90} | {longest} |");
    }
}
