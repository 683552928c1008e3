//! The first 16 bytes of every payload: which message it is, and when it was due.

/// Bytes of a stamp; the smallest payload of a run.
pub const STAMP_BYTES: usize = 16;

/// Run 2 B, publisher 4 B, sequence 4 B, intended time 6 B in microseconds; big endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the run.
    pub run: u16,
    /// Number of the publisher among all publishers of the plan.
    pub publisher: u32,
    /// Number of the message at its publisher, from 0.
    pub sequence: u32,
    /// When it was due, in microseconds of the monotonic clock; 48 bits are 8.9 years.
    pub intended_us: u64,
}

impl Stamp {
    /// Writes the stamp over the beginning of `payload`, which has room for it.
    #[inline]
    pub fn write(&self, payload: &mut [u8]) {
        payload[..2].copy_from_slice(&self.run.to_be_bytes());
        payload[2..6].copy_from_slice(&self.publisher.to_be_bytes());
        payload[6..10].copy_from_slice(&self.sequence.to_be_bytes());
        payload[10..16].copy_from_slice(&self.intended_us.to_be_bytes()[2..]);
    }

    /// The stamp of a payload, or nothing if it is too short to have one.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let (stamp, _) = payload.split_first_chunk::<STAMP_BYTES>()?;
        let [r0, r1, p0, p1, p2, p3, s0, s1, s2, s3, t0, t1, t2, t3, t4, t5] = *stamp;
        Some(Self {
            run: u16::from_be_bytes([r0, r1]),
            publisher: u32::from_be_bytes([p0, p1, p2, p3]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            intended_us: u64::from_be_bytes([0, 0, t0, t1, t2, t3, t4, t5]),
        })
    }
}

/// How a payload of JSON begins; the stamp's 32 hexadecimal digits follow. No stamp of 16 bytes
/// begins so: its publisher's number would be above two thousand million.
pub(crate) const TEXT_BEGIN: &[u8; 6] = b"{\"w\":\"";

/// Bytes of the beginning and the digits.
pub(crate) const TEXT_BYTES: usize = TEXT_BEGIN.len() + 2 * STAMP_BYTES;

impl Stamp {
    /// Writes the stamp as digits behind [`TEXT_BEGIN`].
    pub(crate) fn write_text(&self, payload: &mut [u8]) {
        let mut bytes = [0; STAMP_BYTES];
        self.write(&mut bytes);
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half & 15)];
        let places = payload[TEXT_BEGIN.len()..].chunks_exact_mut(2);
        for (place, byte) in places.zip(bytes) {
            place.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
    }

    /// The stamp of a payload of either kind.
    #[inline]
    pub(crate) fn find(payload: &[u8]) -> Option<Self> {
        if payload.starts_with(TEXT_BEGIN) { Self::read_text(payload) } else { Self::read(payload) }
    }

    fn read_text(payload: &[u8]) -> Option<Self> {
        let mut bytes = [0; STAMP_BYTES];
        let digits = payload.get(TEXT_BEGIN.len()..TEXT_BYTES)?;
        for (byte, digits) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let half = |digit: u8| char::from(digit).to_digit(16).map(|half| half as u8);
            *byte = half(digits[0])? << 4 | half(digits[1])?;
        }
        Self::read(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_as_it_was_written() {
        let stamp =
            Stamp { run: 0xA1B2, publisher: 7, sequence: u32::MAX, intended_us: (1 << 48) - 1 };
        let mut payload = [0xEE; 20];
        stamp.write(&mut payload);
        assert_eq!(Stamp::read(&payload), Some(stamp));
        assert_eq!(payload[16..], [0xEE; 4]);
    }

    #[test]
    fn a_stamp_in_json_reads_back_and_a_broken_one_is_none() {
        let stamp = Stamp { run: 0x7B22, publisher: 7, sequence: 9, intended_us: 12_345 };
        let mut payload = vec![b'"'; TEXT_BYTES + 2];
        payload[..6].copy_from_slice(TEXT_BEGIN);
        stamp.write_text(&mut payload);
        assert_eq!(Stamp::find(&payload), Some(stamp));
        assert_eq!(payload[TEXT_BYTES], b'"');
        payload[8] = b'x';
        assert_eq!(Stamp::find(&payload), None);
        assert_eq!(Stamp::find(&payload[..20]), None);
        let mut binary = [0; STAMP_BYTES];
        stamp.write(&mut binary);
        assert_eq!(Stamp::find(&binary), Some(stamp), "a run's number may look like a brace");
    }

    #[test]
    fn a_short_payload_has_no_stamp() {
        assert_eq!(Stamp::read(&[0; 15]), None);
    }
}
