//! Letters about a client's session as bytes: a kind of their own, and its fields.

use crate::keys::Claim;
use crate::mail::{SessionMail, SessionPart};
use crate::record::BadRecord;
use crate::record::codec::{Reader, put_bytes, put_number};

const CLAIM: u8 = 1;
const HELD: u8 = 2;
const LEAVING: u8 = 3;
const MOVING: u8 = 4;
const SWITCHED: u8 = 5;
const STATE: u8 = 6;
const QUEUE: u8 = 7;
const END: u8 = 8;
const TAKEN: u8 = 9;
const WILL: u8 = 10;
const WILL_OVER: u8 = 11;
const WILL_TAKEN: u8 = 12;
const UNWATCH: u8 = 13;
const CLOSING: u8 = 14;
const STAYS: u8 = 15;

pub(super) fn put(out: &mut Vec<u8>, mail: &SessionMail) {
    match mail {
        SessionMail::Claim { client_id, claim, is_clean, number } => {
            begin(out, CLAIM, *claim);
            put_bytes(out, client_id.as_bytes());
            out.push(u8::from(*is_clean));
            put_number(out, *number);
        }
        SessionMail::Held { client_id, claim, is_asking } => {
            begin(out, HELD, *claim);
            put_bytes(out, client_id.as_bytes());
            out.push(u8::from(*is_asking));
        }
        SessionMail::Leaving { claim, held, records } => {
            begin(out, LEAVING, *claim);
            put_number(out, held.0);
            put_bytes(out, records);
        }
        SessionMail::Moving { claim, from } => {
            begin(out, MOVING, *claim);
            put_number(out, u64::from(from.0));
        }
        SessionMail::Switched { claim, from } => {
            begin(out, SWITCHED, *claim);
            put_number(out, u64::from(from.0));
        }
        SessionMail::Part { claim, part: SessionPart::State(bytes) } => {
            begin(out, STATE, *claim);
            put_bytes(out, bytes);
        }
        SessionMail::Part { claim, part: SessionPart::Queue(bytes) } => {
            begin(out, QUEUE, *claim);
            put_bytes(out, bytes);
        }
        SessionMail::Part { claim, part: SessionPart::End } => begin(out, END, *claim),
        SessionMail::Taken { claim } => begin(out, TAKEN, *claim),
        SessionMail::Stays { claim, anew } => {
            begin(out, STAYS, *claim);
            let (anew, number) = anew.unwrap_or_default();
            put_number(out, anew.0);
            put_number(out, number);
        }
        SessionMail::Will { client_id, claim, will, wait_s } => {
            begin(out, WILL, *claim);
            put_bytes(out, client_id.as_bytes());
            put_bytes(out, will);
            put_number(out, u64::from(*wait_s));
        }
        SessionMail::WillOver { client_id } => {
            begin(out, WILL_OVER, Claim::NONE);
            put_bytes(out, client_id.as_bytes());
        }
        SessionMail::WillTaken { client_id, claim } => {
            begin(out, WILL_TAKEN, *claim);
            put_bytes(out, client_id.as_bytes());
        }
        SessionMail::Unwatch => begin(out, UNWATCH, Claim::NONE),
        SessionMail::Closing => begin(out, CLOSING, Claim::NONE),
    }
}

fn begin(out: &mut Vec<u8>, kind: u8, claim: Claim) {
    out.push(kind);
    put_number(out, claim.0);
}

pub(super) fn read(from: &mut Reader<'_>) -> Result<SessionMail, BadRecord> {
    let (kind, claim) = (from.byte()?, Claim(from.number()?));
    Ok(match kind {
        CLAIM => SessionMail::Claim {
            claim,
            client_id: from.text()?.into(),
            is_clean: from.flag()?,
            number: from.number()?,
        },
        HELD => {
            SessionMail::Held { claim, client_id: from.text()?.into(), is_asking: from.flag()? }
        }
        LEAVING => SessionMail::Leaving {
            claim,
            held: Claim(from.number()?),
            records: from.bytes()?.into(),
        },
        MOVING => SessionMail::Moving { claim, from: from.shard()? },
        SWITCHED => SessionMail::Switched { claim, from: from.shard()? },
        STATE => SessionMail::Part { claim, part: SessionPart::State(from.bytes()?.into()) },
        QUEUE => SessionMail::Part { claim, part: SessionPart::Queue(from.bytes()?.into()) },
        END => SessionMail::Part { claim, part: SessionPart::End },
        TAKEN => SessionMail::Taken { claim },
        STAYS => {
            let anew = (Claim(from.number()?), from.number()?);
            SessionMail::Stays { claim, anew: (anew != (Claim::NONE, 0)).then_some(anew) }
        }
        WILL => SessionMail::Will {
            claim,
            client_id: from.text()?.into(),
            will: from.bytes()?.into(),
            wait_s: from.number_of_32_bits()?,
        },
        WILL_OVER if claim == Claim::NONE => {
            SessionMail::WillOver { client_id: from.text()?.into() }
        }
        WILL_TAKEN => SessionMail::WillTaken { claim, client_id: from.text()?.into() },
        UNWATCH if claim == Claim::NONE => SessionMail::Unwatch,
        CLOSING if claim == Claim::NONE => SessionMail::Closing,
        kind => return Err(BadRecord::UnknownKind(kind)),
    })
}
