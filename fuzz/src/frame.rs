//! The properties of what nodes say to each other: whatever the bytes, no panic; a link takes the
//! same from them however they are split; and what is a Hello has no other bytes.

use weir_cluster::{Frame, Inbox, Link, LinkError, LinkSettings, Peer, Slot, slot_of};
use weir_core::{Mail, Micros, ShardId, Wall};

const WALL: Wall = Wall(0);
const NOW: Micros = Micros(0);
const BYTES_MAX: u32 = 64 * 1024;

/// Runs the properties on an input. The first byte says whether a Hello stands before the others.
///
/// # Panics
/// If a property does not hold.
pub fn check(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    frames(bytes);
    let is_greeted = kind % 2 == 0;
    assert_eq!(taken(is_greeted, bytes, bytes.len()), taken(is_greeted, bytes, 3));
}

fn frames(bytes: &[u8]) {
    let _ = slot_of(bytes);
    let mut rest = bytes;
    while let Ok(Some((frame, count))) = Frame::split(rest, BYTES_MAX as usize) {
        match frame {
            Frame::Hello(hello) => {
                let mut again = Vec::new();
                hello.encode(&mut again);
                assert_eq!(again, &rest[..count], "{hello:?}");
            }
            Frame::Letters(mut letters) => while let Ok(Some(_)) = letters.next_letter(WALL) {},
            Frame::Taken(_) | Frame::Ping => {}
        }
        rest = &rest[count..];
    }
}

/// What a link takes of these bytes if so many come at a time, and how that ends.
fn taken(is_greeted: bool, bytes: &[u8], step: usize) -> (Result<usize, LinkError>, Notes) {
    let (mut link, mut notes) = (link(0, 1), Notes::default());
    link.connected(NOW);
    if is_greeted {
        let mut other = self::link(1, 0);
        other.connected(NOW);
        let hello = other.flush(NOW).expect("a Hello").to_vec();
        assert_eq!(link.received(&hello, NOW, WALL, &mut notes), Ok(hello.len()));
    }
    let (mut held, mut all) = (Vec::new(), 0);
    for part in bytes.chunks(step.max(1)) {
        held.extend_from_slice(part);
        match link.received(&held, NOW, WALL, &mut notes) {
            Ok(taken) => {
                all += taken;
                held.drain(..taken);
            }
            Err(error) => return (Err(error), notes),
        }
    }
    (Ok(all), notes)
}

fn link(own: u8, peer: u8) -> Link {
    Link::new(LinkSettings {
        cluster: "fuzz".into(),
        own: Slot(own),
        peer: Slot(peer),
        incarnation: u64::from(own) + 1,
        window_bytes: LinkSettings::WINDOW_BYTES,
        frame_bytes_max: BYTES_MAX,
    })
}

/// What an inbox was told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Notes {
    peers: Vec<Peer>,
    letters: Vec<(ShardId, ShardId, Mail)>,
}

impl Inbox for Notes {
    fn up(&mut self, peer: Peer) {
        self.peers.push(peer);
    }

    fn reset(&mut self, lost: u64) {
        assert_eq!(lost, 0, "there is nothing to be lost");
    }

    fn letter(&mut self, from: ShardId, to: ShardId, mail: Mail) {
        self.letters.push((from, to, mail));
    }
}
