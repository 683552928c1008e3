//! Frames against their bytes.

use super::*;
use weir_core::GroupPick;
use weir_wire::{PropertiesBuf, QoS};

const WALL: Wall = Wall(0);

fn hello() -> Hello<'static> {
    Hello {
        cluster: "lab",
        slot: Slot(3),
        incarnation: 7,
        connection: 2,
        state: Some(State { own: 1, peer: 9 }),
        taken: 12,
        letters: (1, 2),
        frame_bytes_max: 1 << 20,
    }
}

fn encoded(hello: &Hello<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    hello.encode(&mut bytes);
    bytes
}

fn message(payload: &[u8]) -> Arc<Message> {
    Arc::new(Message {
        topic: "a/b".into(),
        payload: payload.into(),
        properties: PropertiesBuf::new(),
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
        stamp: None,
    })
}

/// That message's letter to a shard with a member of a group.
fn publish(message: &Arc<Message>, member: u64) -> Mail {
    let pick = GroupPick { share: "$share/g/a".into(), member, key: 1, hops: 0 };
    Mail::Publish {
        message: Arc::clone(message),
        to_subscribers: member.is_multiple_of(2),
        picks: [pick].into_iter().collect(),
        number: Some(member),
        mailed: None,
    }
}

fn batch(letters: &[(u16, u16, Mail)]) -> Vec<u8> {
    let mut batch = Batch::new(Vec::new(), 5);
    for (from, to, mail) in letters {
        assert!(batch.push((ShardId(*from), ShardId(*to)), mail, WALL, usize::MAX));
    }
    batch.seal(77).to_vec()
}

fn letters(bytes: &[u8]) -> Result<Vec<(u16, u16, Mail)>, FrameError> {
    let Some((Frame::Letters(mut entries), count)) = Frame::split(bytes, 1 << 20)? else {
        panic!("a batch is expected");
    };
    assert_eq!(count, bytes.len());
    assert_eq!((entries.taken, entries.first), (77, 5));
    let mut all = Vec::new();
    while let Some((from, to, mail)) = entries.next_letter(WALL)? {
        all.push((from.0, to.0, mail));
    }
    Ok(all)
}

#[test]
fn a_hello_reads_as_written_and_says_whose_it_is() {
    for state in [None, Some(State { own: 1, peer: 9 })] {
        let hello = Hello { state, ..hello() };
        let bytes = encoded(&hello);
        let frame = Frame::split(&bytes, HELLO_BYTES_MAX);
        assert_eq!(frame, Ok(Some((Frame::Hello(hello), bytes.len()))));
        assert_eq!(slot_of(&bytes), Ok(Some(Slot(3))));
        for end in 0..bytes.len() {
            assert_eq!(slot_of(&bytes[..end]), Ok(None));
        }
    }
}

#[test]
fn strangers_and_other_versions_are_told_apart() {
    assert_eq!(slot_of(b"GET / HTTP/1.1\r\n\r\n"), Err(FrameError::Stranger));
    assert_eq!(slot_of(&[0, 0, 0, 4, HELLO, b'M', b'Q', b'T']), Err(FrameError::Stranger));
    assert_eq!(slot_of(&batch(&[(0, 1, Mail::Thaw)])), Err(FrameError::Stranger));
    let mut newer = encoded(&hello());
    newer[HEAD_BYTES + MAGIC.len()] = VERSION + 1;
    assert_eq!(slot_of(&newer), Err(FrameError::OtherVersion(VERSION + 1)));
}

#[test]
fn what_no_hello_says_is_malformed() {
    let malformed = |bytes: &[u8]| matches!(slot_of(bytes), Err(FrameError::Malformed(_)));
    assert!(malformed(&encoded(&Hello { slot: Slot(16), ..hello() })));
    assert!(malformed(&encoded(&Hello { letters: (2, 1), ..hello() })));
    let long = "n".repeat(NAME_BYTES_MAX + 1);
    assert!(malformed(&encoded(&Hello { cluster: &long, ..hello() })));
    let mut not_text = encoded(&hello());
    *not_text.last_mut().unwrap() = 0xFF;
    assert!(malformed(&not_text));
}

#[test]
fn a_message_for_several_shards_is_there_once_and_is_one_in_memory() {
    let (first, second) = (message(&[1; 500]), message(&[2; 500]));
    let all = [
        (1, 9, publish(&first, 1)),
        (1, 8, publish(&first, 2)),
        (2, 8, Mail::Thaw),
        (1, 7, publish(&first, 3)),
        (1, 9, publish(&second, 4)),
    ];
    let bytes = batch(&all);
    assert!(bytes.len() < 1200, "{} bytes", bytes.len());
    let came = letters(&bytes).unwrap();
    assert_eq!(came, all);
    let of = |at: usize| match &came[at].2 {
        Mail::Publish { message, .. } => Arc::as_ptr(message),
        _ => panic!("a message is expected"),
    };
    assert_eq!([of(0), of(0)], [of(1), of(3)]);
    assert_ne!(of(0), of(4));
}

#[test]
fn a_letter_that_does_not_fit_leaves_the_batch_as_it_was() {
    let first = message(&[1; 500]);
    let mut batch = Batch::new(Vec::new(), 5);
    let way = (ShardId(0), ShardId(1));
    assert!(batch.push(way, &Mail::Thaw, WALL, 100));
    let before = batch.bytes();
    assert!(!batch.push(way, &publish(&first, 1), WALL, 100));
    assert_eq!((batch.bytes(), batch.letters(), batch.end()), (before, 1, 6));
    assert_eq!(letters(batch.seal(77)).unwrap(), [(0, 1, Mail::Thaw)]);
}

#[test]
fn hostile_batches_are_malformed() {
    let again = |kind: u8| {
        let mut bytes = batch(&[(0, 1, Mail::Thaw)]);
        bytes[BATCH_BYTES_MIN] = kind;
        letters(&bytes)
    };
    assert_eq!(again(AGAIN), Err(FrameError::Malformed("no message came before")));
    assert!(again(7).is_err());
    assert!(matches!(again(WHOLE), Ok(all) if all.len() == 1));
    let of = |first: u64, letters: &[(u16, u16, Mail)]| {
        let mut bytes = batch(letters);
        bytes[TAKEN_AT + 8..][..8].copy_from_slice(&first.to_be_bytes());
        Frame::split(&bytes, 1 << 20).map(|_| ())
    };
    assert!(of(5, &[]).is_err(), "none in it");
    assert!(of(0, &[(0, 1, Mail::Thaw)]).is_err(), "numbers begin with 1");
    assert!(of(u64::MAX - 1, &[(0, 1, Mail::Thaw)]).is_err(), "there are no more numbers");
    assert_eq!(of(1, &[(0, 1, Mail::Thaw)]), Ok(()));
}

#[test]
fn a_length_takes_no_memory_and_has_a_bound() {
    let error = Frame::split(&[0xFF, 0xFF, 0xFF, 0xFF, LETTERS], 1000);
    assert_eq!(error, Err(FrameError::TooLong { bytes: u32::MAX as usize + 4, max: 1000 }));
    assert_eq!(Frame::split(&[0, 0, 3, 0xE4, LETTERS], 1000), Ok(None), "it just fits");
    assert_eq!(Frame::split(&[0, 0, 0, 0], 1000), Err(TRUNCATED), "no kind");
    for kind in [0, 5, 0xFF] {
        assert!(Frame::split(&[0, 0, 0, 1, kind], 1000).is_err(), "{kind}");
    }
}

#[test]
fn short_frames_read_as_written() {
    let mut bytes = Vec::new();
    put_taken(&mut bytes, 77);
    put_ping(&mut bytes);
    let (taken, count) = Frame::split(&bytes, 100).unwrap().unwrap();
    assert_eq!(taken, Frame::Taken(77));
    assert_eq!(Frame::split(&bytes[count..], 100), Ok(Some((Frame::Ping, HEAD_BYTES))));
    bytes[3] += HEAD_BYTES as u8;
    assert_eq!(Frame::split(&bytes, 100), Err(TRAILING));
}
