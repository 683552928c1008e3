//! The bytes of the format, computed apart from it: a disk written today is read by every later
//! program of this version of the format.

use super::footer::{self, Footer};
use super::frame::{self, Frame};
use super::header::{Header, NoHeader};
use super::seal::Seal;
use super::{RECORDS_AT, SECTOR, Salt};
use crate::{CommitNumber, Lsn, SegmentNumber};

const HEADER: &str = "574549524c4f470a000000011e44109000030001000000020000000000000007\
     000000000000000901020304050607080000500000000006000000000000000b\
     00000200010203040506070800010000";
const SEAL: &str = "574549525345414c000000004afe98640102030405060708000011940000000a\
     000050000000000f000000000000000c";
const RECORD: &str = "0000002236dc97590000500000000006800000000000000b0100000268647461\
     696c";
const TOMBSTONE: &str = "0000002595e9f9a70000500000000007400000000000000c0200000900005000\
     000000066b";
const FOOTER: &str = "57454952464f4f5497b356a30000001b86808080808014002201026864010025\
     820900005000000000066b";

fn salt() -> Salt {
    Salt::new(0x0102_0304_0506_0708)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header() -> Header {
    Header {
        shard: 3,
        is_synced: true,
        number: SegmentNumber(7),
        covers: SegmentNumber(9),
        salt: salt(),
        first_lsn: Lsn::new(5, 6),
        first_commit: CommitNumber(11),
        generation: 2,
        commit_align: 512,
        store: 0x0102_0304_0506_0708,
        file_bytes: 65_536,
    }
}

fn records() -> (Vec<u8>, usize) {
    let mut bytes = Vec::new();
    Frame::put(&mut bytes, Lsn::new(5, 6), 1, None, [b"hd", b"tail"]);
    let second = bytes.len();
    Frame::put(&mut bytes, Lsn::new(5, 7), 2, Some(Lsn::new(5, 6)), [b"k", b""]);
    frame::assign(&mut bytes[..second], CommitNumber(11), true);
    frame::assign(&mut bytes[second..], CommitNumber(12), false);
    frame::seal(&mut bytes[..second], salt());
    frame::seal(&mut bytes[second..], salt());
    (bytes, second)
}

#[test]
fn a_header_has_these_bytes() {
    let sector = header().encode();
    let (front, rest) = sector.split_at(HEADER.len() / 2);
    assert_eq!(hex(front), HEADER);
    assert!(rest.iter().all(|&byte| byte == 0));
    assert_eq!(Header::decode(&sector), Ok(header()));
}

#[test]
fn a_header_of_a_later_format_says_which() {
    let mut sector = header().encode();
    sector[11] = 2;
    assert_eq!(Header::decode(&sector), Err(NoHeader::Bad), "its checksum is wrong");
    let crc = crc32c::crc32c_append(crc32c::crc32c(&sector[..12]), &sector[16..]);
    sector[12..16].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(Header::decode(&sector), Err(NoHeader::Newer(2)));
}

#[test]
fn a_seal_has_these_bytes() {
    let last_lsn = Lsn::new(5, 15);
    let seal = Seal { end: 4500, records: 10, last_lsn, last_commit: CommitNumber(12) };
    let sector = seal.encode(salt());
    let (front, rest) = sector.split_at(SEAL.len() / 2);
    assert_eq!(hex(front), SEAL);
    assert!(rest.iter().all(|&byte| byte == 0));
    assert_eq!(Seal::decode(&sector, salt()), Some(seal));
    assert_eq!(Seal::decode(&sector, Salt::new(1)), None, "that of a recycled file");
}

#[test]
fn records_have_these_bytes() {
    let (bytes, second) = records();
    assert_eq!(hex(&bytes[..second]), RECORD);
    assert_eq!(hex(&bytes[second..]), TOMBSTONE);
    let first = Frame::decode(&bytes, salt()).expect("it is whole");
    assert_eq!((first.lsn, first.commit), (Lsn::new(5, 6), CommitNumber(11)));
    assert_eq!((first.is_last, first.is_tomb, first.kind), (true, false, 1));
    assert_eq!((first.head, first.tail), (&b"hd"[..], &b"tail"[..]));
    let tombstone = Frame::decode(&bytes[second..], salt()).expect("it is whole");
    assert_eq!((tombstone.is_last, tombstone.is_tomb, tombstone.kind), (false, true, 2));
    assert_eq!(crate::segments::since_of(&tombstone), Some(Lsn::new(5, 6)));
}

#[test]
fn a_footer_has_these_bytes() {
    let (bytes, second) = records();
    let mut footer = Footer::default();
    for (at, offset) in [(0, RECORDS_AT), (second, RECORDS_AT + second as u32)] {
        let frame = Frame::decode(&bytes[at..], salt()).expect("it is whole");
        footer.push(&frame, offset, usize::MAX);
    }
    let encoded = footer.encode(salt()).expect("it is short");
    assert_eq!(hex(&encoded), FOOTER);
    let entries = footer::decode(&encoded, salt()).expect("it is whole");
    let places: Vec<_> = entries.iter().map(|entry| (entry.offset, entry.bytes)).collect();
    assert_eq!(places, [(RECORDS_AT, second), (RECORDS_AT + 34, bytes.len() - second)]);
}

#[test]
fn no_bit_may_turn() {
    let (bytes, second) = records();
    let header = header().encode();
    let last_lsn = Lsn::new(5, 15);
    let seal = Seal { end: 4500, records: 10, last_lsn, last_commit: CommitNumber(12) };
    let seal = seal.encode(salt());
    for bit in 0..SECTOR * 8 {
        let turned = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        assert_eq!(Header::decode(&turned(&header)), Err(NoHeader::Bad), "bit {bit}");
        assert_eq!(Seal::decode(&turned(&seal), salt()), None, "bit {bit}");
        if bit < second * 8 {
            assert_eq!(Frame::decode(&turned(&bytes), salt()), None, "bit {bit}");
        }
    }
}

#[test]
fn a_cut_record_is_none() {
    let (bytes, second) = records();
    for end in 0..second {
        assert_eq!(Frame::decode(&bytes[..end], salt()), None);
    }
    assert_eq!(Frame::decode(&[0; 64], salt()), None, "zeros");
}
