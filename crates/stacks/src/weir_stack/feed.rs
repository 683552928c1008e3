//! Messages published at a fixed rate, whatever the broker does: an open loop.

use super::paced;
use weir_wire::QoS;

/// The digits of the sequence number, at the end of the message.
const DIGITS: usize = 9;

/// A message of Wialon's form, of 300 bytes with its number; one in ten has the four fields.
const START: &str = concat!(
    r#"{"t":1540000000,"f":1073741825,"tp":"ud","pos":{"y":53.9045398,"x":27.5615244,"z":212,"#,
    r#""s":61,"c":187,"sc":14},"i":1,"o":0,"p":{"hdop":0.8,"pwr_ext":13.92,"pwr_int":4.11,"#,
    r#""gsm":4,"ign":1,"odo":182734.6,"#,
);
const PLACE: &str = r#""mcc":257,"mnc":2,"lac":1201,"cell_id":40321,"#;
const NO_PLACE: &str = r#""temp1":21.5,"temp2":-3.25,"fuel1":183.75,"#;

/// The messages and when they are due.
#[derive(Debug)]
pub(super) struct Feed {
    topic: String,
    qos: QoS,
    per_s: f64,
    /// When the first was due.
    begun_us: Option<u64>,
    sent: u64,
    /// There was no room for the next: an answer of the broker, not the time, goes on with it.
    is_blocked: bool,
    with_place: Vec<u8>,
    without: Vec<u8>,
}

impl Feed {
    pub(super) fn new(topic: String, qos: QoS, per_s: f64) -> Self {
        let (with_place, without) = (message(PLACE), message(NO_PLACE));
        Self { topic, qos, per_s, begun_us: None, sent: 0, is_blocked: false, with_place, without }
    }

    /// How many are due that were not sent.
    pub(super) fn due(&mut self, now_us: u64) -> u64 {
        self.is_blocked = false;
        let begun_us = *self.begun_us.get_or_insert(now_us);
        paced::due(begun_us, now_us, self.per_s).saturating_sub(self.sent)
    }

    /// The next one.
    pub(super) fn message(&mut self) -> (&str, &[u8], QoS, bool) {
        let bytes =
            if self.sent.is_multiple_of(10) { &mut self.with_place } else { &mut self.without };
        let mut number = self.sent;
        let end = bytes.len() - 1;
        for digit in bytes[end - DIGITS..end].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
        // A JSON number has no leading zeros: a 1 stands before them.
        (&self.topic, bytes, self.qos, false)
    }

    /// It was sent.
    pub(super) fn sent(&mut self) {
        self.sent += 1;
    }

    /// There was no room for it.
    pub(super) fn blocked(&mut self) {
        self.is_blocked = true;
    }

    /// When the next is due; nothing before the first, and while there is no room.
    pub(super) fn poll_timeout(&self) -> Option<u64> {
        let begun_us = self.begun_us.filter(|_| !self.is_blocked)?;
        Some(paced::next_due_us(begun_us, self.sent, self.per_s))
    }
}

fn message(fields: &str) -> Vec<u8> {
    let end = format!(r#""n":1{:0digits$}}}"#, 0, digits = DIGITS);
    let start = format!("{START}{fields}");
    let known = start.len() + r#""x":"""#.len() + r#"},"#.len() + end.len();
    let fill = "0".repeat(300_usize.saturating_sub(known));
    format!(r#"{start}"x":"{fill}"}},{end}"#).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::super::work::FIELDS;
    use super::*;

    #[test]
    fn messages_are_json_of_300_bytes_and_one_in_ten_has_the_fields() {
        let mut feed = Feed::new("t".into(), QoS::AtMostOnce, 1000.0);
        let mut with_fields = 0;
        for sent in 0..1000_u64 {
            let (_, payload, ..) = feed.message();
            let tree: serde_json::Value = serde_json::from_slice(payload).unwrap();
            assert_eq!(payload.len(), 300);
            assert_eq!(tree["n"], 1_000_000_000 + sent);
            with_fields += usize::from(FIELDS.iter().all(|field| tree["p"][field].is_number()));
            feed.sent();
        }
        assert_eq!(with_fields, 100);
    }

    #[test]
    fn what_is_due_does_not_depend_on_what_was_sent() {
        let mut feed = Feed::new("t".into(), QoS::AtMostOnce, 2000.0);
        assert_eq!(feed.poll_timeout(), None);
        assert_eq!(feed.due(500_000), 0);
        assert_eq!(feed.due(600_000), 200);
        feed.sent();
        assert_eq!(feed.due(600_000), 199);
        assert_eq!(feed.poll_timeout(), Some(501_000));
        feed.blocked();
        assert_eq!(feed.poll_timeout(), None);
    }
}
