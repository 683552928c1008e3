//! The client in the own broker as a value: what its session has comes out of it, and is
//! acknowledged when it is settled, in order.

use crate::relay::{Broken, Errand};
use crate::settings::Dialect;
use crate::side::Side;
use crate::topics::{End, Routes, Topic};
use weir_client::{Ear, Event, Heard, Sink};
use weir_wire::packet::{Connect, Publish};
use weir_wire::{PropertiesBuf, Property, ReasonCode, Version};

/// Where it writes.
#[derive(Debug, Default)]
struct Output(Vec<u8>);

impl Sink for Output {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}

/// Who has what comes.
pub(crate) trait Taker {
    /// A message with this number, none at QoS 0, that fits the subscription of this index, if it
    /// still fits one. Says whether [`Tap::settle`] is to be called for it.
    fn take(&mut self, publish: &Publish<'_>, route: Option<usize>, source: Option<u64>) -> bool;
}

/// The client.
#[derive(Debug)]
pub(crate) struct Tap {
    client_id: String,
    side: Side,
    errand: Errand,
    output: Output,
    complaint: Option<String>,
}

impl Tap {
    pub(crate) fn new(client_id: String, topics: &[Topic]) -> Self {
        Self {
            client_id,
            side: Side::new(Routes::from(End::Local, topics), Dialect::V5),
            errand: Errand::Prepare,
            output: Output::default(),
            complaint: None,
        }
    }

    /// It has a connection: CONNECT. Of QoS 1, so many messages may be on their way.
    pub(crate) fn open(&mut self, errand: Errand, window: u16, now_us: u64) {
        self.side.forget();
        self.output.0.clear();
        self.errand = errand;
        let mut properties = PropertiesBuf::new();
        properties.push(Property::ReceiveMaximum(window.max(1)));
        properties.push(Property::SessionExpiryInterval(u32::MAX));
        let connect = Connect {
            version: Version::V5,
            clean_start: false,
            keep_alive_s: 0,
            client_id: &self.client_id,
            will: None,
            user_name: None,
            password: None,
            properties: properties.as_properties(),
        };
        self.side.client.connect_with(&connect, now_us, &mut self.output);
    }

    /// The session is there and has its subscriptions.
    pub(crate) fn is_ready(&self) -> bool {
        self.side.is_ready
    }

    /// What is to be written.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output.0
    }

    /// So much of it was.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.output.0.drain(..bytes);
    }

    /// Something that is wrong and ends nothing.
    pub(crate) fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    /// Bytes came in, those not consumed the last time first. Returns how many were consumed.
    ///
    /// # Errors
    /// The connection is to be given up.
    pub(crate) fn received(
        &mut self,
        bytes: &[u8],
        now_us: u64,
        taker: &mut impl Taker,
    ) -> Result<usize, Broken> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            if let Some((publish, bytes)) =
                self.side.client.peek_message(rest).map_err(Broken::Protocol)?
            {
                at += bytes;
                self.message(&publish, now_us, taker);
                continue;
            }
            let Some(frame) = self.side.client.frame(rest).map_err(Broken::Protocol)? else {
                break;
            };
            at += frame.bytes;
            let packet = &rest[..frame.bytes];
            self.packet(packet, now_us)?;
        }
        Ok(at)
    }

    fn message(&mut self, publish: &Publish<'_>, now_us: u64, taker: &mut impl Taker) {
        // It comes again when there is somebody to take it.
        if self.errand != Errand::Relay {
            return;
        }
        let sources = &mut self.side.sources;
        let source = publish.packet_id.map(|packet_id| sources.begin(packet_id, publish.qos));
        let is_taken = taker.take(publish, self.side.routes.find(publish.topic), source);
        match source {
            Some(number) if is_taken => self.side.sources.add_result(number),
            _ => self.side.acknowledge(now_us, &mut self.output),
        }
    }

    /// A message is where it is to be, or nowhere.
    pub(crate) fn settle(&mut self, source: u64, now_us: u64) {
        self.side.sources.result_done(source);
        self.side.acknowledge(now_us, &mut self.output);
    }

    fn packet(&mut self, bytes: &[u8], now_us: u64) -> Result<(), Broken> {
        let mut ear = Ear::new(&mut self.output);
        let result = self.side.client.handle(bytes, now_us, &mut ear);
        let Ear { heard, why, .. } = ear;
        result.map_err(Broken::Protocol)?;
        match heard {
            Heard::Connected { session_present, limits } => {
                self.side.limits = limits;
                self.side.subscribe(Dialect::V5, session_present, now_us, &mut self.output);
            }
            Heard::Refused(reason) => return Err(Broken::Refused(reason, why)),
            Heard::Disconnected(reason) => return Err(Broken::Disconnected(reason, why)),
            Heard::Subscribed(codes) => {
                if let Some(reason) = refusal(&codes) {
                    let said = weir_connection::named(reason, why.as_deref());
                    self.complaint = Some(format!("a subscription is refused: {said}"));
                }
                self.side.subscribed();
            }
            Heard::Acknowledged { .. } | Heard::Nothing => {}
        }
        Ok(())
    }
}

/// What a SUBACK refuses first.
fn refusal(codes: &[u8]) -> Option<ReasonCode> {
    let code = codes.iter().find(|code| **code >= ReasonCode::UnspecifiedError as u8)?;
    Some(ReasonCode::from_u8(*code).unwrap_or(ReasonCode::UnspecifiedError))
}
