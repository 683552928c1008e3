//! How a bridge's clients come and go: CONNECT and DISCONNECT.

use super::{Errand, Out, Relay};
use crate::settings::{Dialect, Start};
use crate::side::Port;
use crate::topics::End;
use std::sync::Arc;
use weir_client::{Event, Sink};
use weir_wire::packet::{Connect, Disconnect, Will};
use weir_wire::{Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

/// Where the number of the protocol stands in a CONNECT, behind the length of the packet.
const LEVEL_AT: usize = 6;

/// What says there that a bridge connects.
const BRIDGE: u8 = 0x80;

/// The way out of a CONNECT of [`Dialect::Bridge311`].
struct OutOfBridge<'a, P>(Out<'a, P>);

impl<P: Port> Sink for OutOfBridge<'_, P> {
    fn write(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        // The length of the packet has one to four bytes, all but the last with the highest bit.
        let length = 1 + bytes.iter().skip(1).take_while(|byte| **byte >= 0x80).count();
        if let Some(level) = bytes.get_mut(1 + length + LEVEL_AT) {
            *level |= BRIDGE;
        }
        self.0.write(&bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}

impl Relay {
    /// The local client has a connection: CONNECT.
    pub(crate) fn open_local(&mut self, errand: Errand, now_us: u64, port: &mut impl Port) {
        let settings = Arc::clone(&self.settings);
        self.errand = errand;
        self.waiting = 0;
        let mut properties = PropertiesBuf::new();
        let window = match (errand, settings.start) {
            (Errand::Relay, _) => self.window_out(),
            (Errand::Watch, Start::Lazy { threshold, .. }) => threshold,
            (Errand::Prepare | Errand::Watch, _) => 1,
        };
        properties.push(Property::ReceiveMaximum(window.max(1)));
        if !settings.local_clean_start {
            properties.push(Property::SessionExpiryInterval(u32::MAX));
        }
        let says_state = settings.state.is_local && errand == Errand::Relay;
        let connect = Connect {
            clean_start: settings.local_clean_start,
            will: says_state.then(|| absent(&settings.state.topic)),
            properties: properties.as_properties(),
            ..Connect::new(Version::V5, &settings.local_client_id)
        };
        self.local.client.connect_with(&connect, now_us, &mut Out { port, end: End::Local });
    }

    /// The remote client has a connection: CONNECT.
    pub(crate) fn open_remote(&mut self, now_us: u64, port: &mut impl Port) {
        let settings = Arc::clone(&self.settings);
        let mut properties = PropertiesBuf::new();
        if self.dialect == Dialect::V5 {
            let window = settings.in_flight_max.min(self.local.limits.receive_maximum);
            properties.push(Property::ReceiveMaximum(window.max(1)));
            // What is longer would be kept here, and could not be passed on.
            let bytes_max = self.local.limits.packet_bytes_max;
            properties.push(Property::MaximumPacketSize(bytes_max.try_into().unwrap_or(u32::MAX)));
            if !settings.clean_start {
                properties.push(Property::SessionExpiryInterval(u32::MAX));
            }
        }
        let connect = Connect {
            version: self.dialect.version(),
            clean_start: settings.clean_start,
            keep_alive_s: settings.keep_alive_s,
            client_id: &settings.client_id,
            will: settings.state.is_remote.then(|| absent(&settings.state.topic)),
            user_name: settings.user_name.as_deref(),
            password: settings.password.as_deref().map(str::as_bytes),
            properties: properties.as_properties(),
        };
        let (client, out) = (&mut self.remote.client, Out { port, end: End::Remote });
        match self.dialect {
            Dialect::Bridge311 => client.connect_with(&connect, now_us, &mut OutOfBridge(out)),
            Dialect::V5 | Dialect::V311 => client.connect_with(&connect, now_us, &mut { out }),
        }
    }

    /// Messages that the local broker may have on the way: one place is the state's.
    fn window_out(&self) -> u16 {
        let there = self.remote.limits.receive_maximum;
        self.settings.in_flight_max.min(there.saturating_sub(1))
    }

    /// Writes DISCONNECT: the session stays, as far as it outlives a connection.
    pub(crate) fn leave(&mut self, end: End, port: &mut impl Port) {
        // What was said of the state is not true any more.
        let says_state = end == End::Remote && self.settings.state.is_remote;
        let reason = match says_state && self.dialect == Dialect::V5 {
            true => ReasonCode::DisconnectWithWill,
            false => ReasonCode::Success,
        };
        let disconnect = Disconnect { reason, properties: Properties::EMPTY };
        let is_said = !says_state || self.dialect == Dialect::V5;
        if is_said {
            let out = &mut Out { port, end };
            self.side_mut(end).client.disconnect_with(&disconnect, out);
        }
        self.forget(end);
    }
}

/// The will that says that the bridge is not connected.
fn absent(topic: &str) -> Will<'_> {
    let (payload, qos) = (b"0", QoS::AtLeastOnce);
    Will { topic, payload, qos, retain: true, properties: Properties::EMPTY }
}
