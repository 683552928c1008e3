//! The fields of a record as bytes. A number has seven bits a byte, the lowest first, in as few
//! bytes as it needs; a text has its length before it.

use super::{BadRecord, Wall, WillRecord};
use crate::keys::{Lsn, Micros, PageId, ShardId};
use crate::mail::GroupPick;
use crate::outbox::MailTarget;
use smallvec::SmallVec;
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{PacketId, QoS, Version};

const RETAIN: u8 = 0b100;

const TRUNCATED: BadRecord = BadRecord::Malformed("it ends inside a field");

pub(crate) fn put_number(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

pub(crate) fn put_lsn(out: &mut Vec<u8>, lsn: Lsn) {
    put_number(out, lsn.0);
}

pub(crate) fn put_page(out: &mut Vec<u8>, page: PageId, messages: u32, bytes: u64) {
    put_number(out, page.0);
    put_number(out, u64::from(messages));
    put_number(out, bytes);
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A time on the wall's clock; 0 is none, so that a time before its epoch is its first microsecond.
pub(crate) fn put_time(out: &mut Vec<u8>, time: Option<Micros>, wall: Wall) {
    put_number(out, time.map_or(0, |at| at.0.saturating_add_signed(wall.0).max(1)));
}

pub(crate) fn put_flags(out: &mut Vec<u8>, qos: QoS, retain: bool) {
    out.push(qos as u8 | if retain { RETAIN } else { 0 });
}

/// A message, behind its flags.
pub(crate) fn put_message(
    out: &mut Vec<u8>,
    (topic, payload, properties): (&str, &[u8], &[u8]),
    expires_at: Option<Micros>,
    wall: Wall,
) {
    put_time(out, expires_at, wall);
    put_bytes(out, topic.as_bytes());
    put_bytes(out, properties);
    // It is last, so that its length need not be said.
    out.extend_from_slice(payload);
}

pub(crate) fn put_option<T>(
    out: &mut Vec<u8>,
    value: Option<&T>,
    put: impl FnOnce(&mut Vec<u8>, &T),
) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

pub(crate) fn put_will(out: &mut Vec<u8>, will: &WillRecord<'_>) {
    let WillRecord { topic, payload, properties, qos, retain, delay_s, message_expiry_s } = will;
    put_flags(out, *qos, *retain);
    put_bytes(out, topic.as_bytes());
    put_bytes(out, payload);
    put_bytes(out, properties);
    put_number(out, u64::from(*delay_s));
    put_option(out, message_expiry_s.as_ref(), |out, seconds| put_number(out, u64::from(*seconds)));
}

pub(super) fn put_targets(out: &mut Vec<u8>, targets: &[MailTarget]) {
    put_number(out, targets.len() as u64);
    for MailTarget { shard, to_subscribers, picks } in targets {
        put_number(out, u64::from(shard.0));
        out.push(u8::from(*to_subscribers));
        put_picks(out, picks);
    }
}

pub(crate) fn put_picks(out: &mut Vec<u8>, picks: &[GroupPick]) {
    put_number(out, picks.len() as u64);
    for GroupPick { share, member, key, hops } in picks {
        put_bytes(out, share.as_bytes());
        put_number(out, *member);
        put_number(out, *key);
        out.push(*hops);
    }
}

/// What is left of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn finish(self) -> Result<(), BadRecord> {
        match self.0 {
            [] => Ok(()),
            _ => Err(BadRecord::Malformed("bytes behind the last field")),
        }
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, BadRecord> {
        let (&byte, rest) = self.0.split_first().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, BadRecord> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                let is_short = byte > 0 || shift == 0;
                return is_short.then_some(value).ok_or(BadRecord::Malformed("a padded number"));
            }
        }
        Err(BadRecord::Malformed("a number of more than 64 bits"))
    }

    pub(crate) fn number_of_32_bits(&mut self) -> Result<u32, BadRecord> {
        let too_large = BadRecord::Malformed("a number of more than 32 bits");
        u32::try_from(self.number()?).map_err(|_| too_large)
    }

    pub(crate) fn lsn_or_none(&mut self) -> Result<Lsn, BadRecord> {
        self.number().map(Lsn)
    }

    pub(crate) fn lsn(&mut self) -> Result<Lsn, BadRecord> {
        match self.lsn_or_none()? {
            Lsn::NONE => Err(BadRecord::Malformed("it names no record")),
            lsn => Ok(lsn),
        }
    }

    /// A page, how many messages of it, and their bytes.
    pub(crate) fn page(&mut self) -> Result<(PageId, u32, u64), BadRecord> {
        let page = PageId(self.number()?);
        match self.number_of_32_bits()? {
            0 => Err(BadRecord::Malformed("a page of nothing")),
            messages => Ok((page, messages, self.number()?)),
        }
    }

    pub(crate) fn packet_id_or_none(&mut self) -> Result<Option<PacketId>, BadRecord> {
        let too_large = BadRecord::Malformed("a packet identifier of more than 16 bits");
        u16::try_from(self.number()?).map(PacketId::new).map_err(|_| too_large)
    }

    pub(crate) fn packet_id(&mut self) -> Result<PacketId, BadRecord> {
        self.packet_id_or_none()?.ok_or(BadRecord::Malformed("packet identifier 0"))
    }

    pub(crate) fn numbers_to_the_end(&mut self) -> Result<Vec<u32>, BadRecord> {
        let mut all = Vec::new();
        while !self.0.is_empty() {
            all.push(self.number_of_32_bits()?);
        }
        Ok(all)
    }

    pub(crate) fn time(&mut self, wall: Wall) -> Result<Option<Micros>, BadRecord> {
        Ok(match self.number()? {
            0 => None,
            // What was before the shell's epoch is long over at its first microsecond.
            at => Some(Micros(at.saturating_add_signed(wall.0.saturating_neg()).max(1))),
        })
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], BadRecord> {
        let count = usize::try_from(self.number()?).map_err(|_| TRUNCATED)?;
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, BadRecord> {
        let not_text = BadRecord::Malformed("a text that is not UTF-8");
        std::str::from_utf8(self.bytes()?).map_err(|_| not_text)
    }

    pub(crate) fn flags(&mut self) -> Result<(QoS, bool), BadRecord> {
        let byte = self.byte()?;
        let qos = QoS::from_u8(byte & !RETAIN).ok_or(BadRecord::Malformed("unknown flags"))?;
        Ok((qos, byte & RETAIN != 0))
    }

    pub(crate) fn qos(&mut self) -> Result<QoS, BadRecord> {
        match self.flags()? {
            (qos, false) => Ok(qos),
            _ => Err(BadRecord::Malformed("a flag where there is none")),
        }
    }

    pub(crate) fn options(&mut self) -> Result<SubscriptionOptions, BadRecord> {
        let bad = BadRecord::Malformed("options that no subscription has");
        SubscriptionOptions::from_byte(Version::V5, self.byte()?).map_err(|_| bad)
    }

    pub(crate) fn option<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, BadRecord>,
    ) -> Result<Option<T>, BadRecord> {
        match self.byte()? {
            0 => Ok(None),
            1 => take(self).map(Some),
            _ => Err(BadRecord::Malformed("neither there nor not there")),
        }
    }

    pub(crate) fn shard(&mut self) -> Result<ShardId, BadRecord> {
        let too_large = BadRecord::Malformed("a shard of more than 16 bits");
        u16::try_from(self.number()?).map(ShardId).map_err(|_| too_large)
    }

    pub(super) fn targets(&mut self) -> Result<Vec<MailTarget>, BadRecord> {
        let mut targets = Vec::new();
        for _ in 0..self.number()? {
            let shard = self.shard()?;
            let to_subscribers = self.flag()?;
            targets.push(MailTarget { shard, to_subscribers, picks: self.picks()? });
        }
        Ok(targets)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, BadRecord> {
        Ok(self.option(|_| Ok(()))?.is_some())
    }

    pub(crate) fn picks(&mut self) -> Result<SmallVec<[GroupPick; 1]>, BadRecord> {
        let mut picks = SmallVec::new();
        for _ in 0..self.number()? {
            let (share, member, key) = (self.text()?.into(), self.number()?, self.number()?);
            picks.push(GroupPick { share, member, key, hops: self.byte()? });
        }
        Ok(picks)
    }

    pub(crate) fn will(&mut self) -> Result<WillRecord<'a>, BadRecord> {
        let (qos, retain) = self.flags()?;
        Ok(WillRecord {
            qos,
            retain,
            topic: self.text()?,
            payload: self.bytes()?,
            properties: self.bytes()?,
            delay_s: self.number_of_32_bits()?,
            message_expiry_s: self.option(Self::number_of_32_bits)?,
        })
    }
}
