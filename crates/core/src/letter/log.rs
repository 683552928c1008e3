//! Letters about copies of logs as bytes: a kind of their own, and its fields.

use crate::mail::LogMail;
use crate::record::BadRecord;
use crate::record::codec::{Reader, put_bytes, put_lsn, put_number};

const BEGIN: u8 = 1;
const RECORDS: u8 = 2;
const SAFE: u8 = 3;
const FAILED: u8 = 4;

pub(super) fn put(out: &mut Vec<u8>, mail: &LogMail) {
    match mail {
        LogMail::Begin { copy } => begin(out, BEGIN, *copy),
        LogMail::Records { copy, nth, records } => {
            begin(out, RECORDS, *copy);
            put_number(out, *nth);
            put_bytes(out, records);
        }
        LogMail::Safe { copy, last } => {
            begin(out, SAFE, *copy);
            put_lsn(out, *last);
        }
        LogMail::Failed { copy } => begin(out, FAILED, *copy),
    }
}

fn begin(out: &mut Vec<u8>, kind: u8, copy: u64) {
    out.push(kind);
    put_number(out, copy);
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<LogMail, BadRecord> {
    let (kind, copy) = (from.byte()?, from.number()?);
    Ok(match kind {
        BEGIN => LogMail::Begin { copy },
        RECORDS => LogMail::Records { copy, nth: from.number()?, records: from.bytes()?.into() },
        SAFE => LogMail::Safe { copy, last: from.lsn()? },
        FAILED => LogMail::Failed { copy },
        kind => return Err(BadRecord::UnknownKind(kind)),
    })
}
