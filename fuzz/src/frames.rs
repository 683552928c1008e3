//! The property of the frame splitter: any split of a stream gives the same packets and the same
//! end.

use crate::packet::{check_error, check_frame};
use weir_wire::{FRAME_HEADER_BYTES_MAX, Frame, Version, WireError};

/// Runs the property on an input: a byte of version and size limit, a byte with the number of
/// pieces, the bytes of each piece less one, then the stream.
///
/// # Panics
/// If the property does not hold.
pub fn check(input: &[u8]) {
    let [head, pieces, rest @ ..] = input else { return };
    let version = [Version::V31, Version::V311, Version::V5][usize::from(head % 3)];
    // Every limit up to 128 bytes, or none.
    let bytes_max = if head & 0x80 == 0 { u32::MAX } else { u32::from(head & 0x7F) };
    let count = usize::from(pieces % 32).min(rest.len());
    let (sizes, stream) = rest.split_at(count);
    let (whole, end) = split_at_once(stream, bytes_max);
    assert_eq!(split_in_pieces(stream, sizes, bytes_max), (whole.clone(), end));
    if let Err(error) = end {
        check_error(error);
    }
    let mut at = 0;
    for bytes in whole {
        check_prefixes(&stream[at..at + bytes], bytes_max);
        if let Ok(Some(frame)) = Frame::check(&stream[at..], bytes_max) {
            check_frame(version, frame);
        }
        at += bytes;
    }
}

/// Lengths of the packets of a stream, and what is behind them: the start of a packet, or none.
fn split_at_once(stream: &[u8], bytes_max: u32) -> (Vec<usize>, Result<(), WireError>) {
    let (mut frames, mut at) = (Vec::new(), 0);
    loop {
        match Frame::check(&stream[at..], bytes_max) {
            Ok(Some(frame)) => {
                assert!(frame.bytes > frame.body.len() && frame.bytes <= stream.len() - at);
                assert!(frame.bytes as u64 <= u64::from(bytes_max));
                frames.push(frame.bytes);
                at += frame.bytes;
            }
            Ok(None) => return (frames, Ok(())),
            Err(error) => return (frames, Err(error)),
        }
    }
}

/// As a connection sees it: bytes come in pieces, and what is not yet a packet waits.
fn split_in_pieces(
    stream: &[u8],
    sizes: &[u8],
    bytes_max: u32,
) -> (Vec<usize>, Result<(), WireError>) {
    let (mut frames, mut unread, mut rest) = (Vec::new(), Vec::new(), stream);
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().map_or(rest.len(), |&size| usize::from(size) + 1);
        let (piece, behind) = rest.split_at(size.min(rest.len()));
        rest = behind;
        unread.extend_from_slice(piece);
        let (found, end) = split_at_once(&unread, bytes_max);
        unread.drain(..found.iter().sum::<usize>());
        frames.extend(found);
        if end.is_err() {
            return (frames, end);
        }
    }
    (frames, Ok(()))
}

/// No part of a packet is a packet or an error.
fn check_prefixes(packet: &[u8], bytes_max: u32) {
    let short = 0..packet.len().min(FRAME_HEADER_BYTES_MAX + 1);
    for end in short.chain([packet.len() - 1]) {
        assert_eq!(Frame::check(&packet[..end], bytes_max), Ok(None), "{end} bytes of a packet");
    }
}
