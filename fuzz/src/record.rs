//! The properties of the log's records: whatever the bytes, no panic; what is a record has no other
//! bytes; and no sequence of records is more than a log can be made of.

use weir_core::{Lsn, Micros, Rebuild, Record, Wall};

/// Runs the properties on an input: a byte of kind, then the body; and the same as a log, of which
/// each record has a byte of kind and one of length before its body.
///
/// # Panics
/// If a property does not hold.
pub fn check(input: &[u8]) {
    let wall = Wall(0);
    check_log(input, wall);
    let [kind, body @ ..] = input else { return };
    let Ok(record) = Record::decode(*kind, body, wall) else { return };
    let mut again = Vec::new();
    record.encode(wall, &mut again);
    assert_eq!((record.kind(), &again[..]), (*kind, body), "{record:?}");
}

/// What does not fit is left out, as if it had not been there.
fn check_log(mut input: &[u8], wall: Wall) {
    let mut rebuild = Rebuild::default();
    let mut lsn = Lsn(1);
    let _ = rebuild.apply(lsn, Record::Base);
    while let [kind, length, rest @ ..] = input {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        input = rest;
        lsn.0 += 1;
        if let Ok(record) = Record::decode(*kind, body, wall) {
            let _ = rebuild.apply(lsn, record);
        }
    }
    let _ = rebuild.finish(Micros(1), Err);
}
