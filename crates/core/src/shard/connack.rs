//! CONNACK: what the broker grants, or why it does not.

use super::Shard;
use super::asked::{Asked, Proof};
use super::connection::Refusal;
use super::minority::USER_PROPERTY;
use crate::keys::ConnKey;
use crate::sink::{Notice, Sink};
use weir_wire::packet::{ConnAck, Connect};
use weir_wire::{Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

impl Shard {
    /// The CONNACK that accepts.
    pub(super) fn connack(
        &self,
        session_present: bool,
        connect: &Connect<'_>,
        asked: &Asked<'_>,
        assigned: Option<&str>,
        proof: Option<&Proof<'_>>,
    ) -> Vec<u8> {
        let mut properties = PropertiesBuf::new();
        if connect.version.is_v5() {
            self.say_bounds(asked, &mut properties);
            self.say_features(asked, &mut properties);
            if let Some(client_id) = assigned {
                properties.push(Property::AssignedClientIdentifier(client_id));
            }
            if let Some(Proof { method: Some(method), data, .. }) = proof {
                properties.push(Property::AuthenticationMethod(method));
                if !data.is_empty() {
                    properties.push(Property::AuthenticationData(data));
                }
            }
        }
        let encoded = |properties: &PropertiesBuf| {
            let (mut bytes, properties) = (Vec::new(), properties.as_properties());
            ConnAck { session_present, reason: ReasonCode::Success, properties }
                .encode(connect.version, &mut bytes);
            bytes
        };
        let bytes = encoded(&properties);
        if self.is_cut_off() && connect.version.is_v5() {
            let (name, value) = USER_PROPERTY;
            properties.push(Property::UserProperty(name, value));
            let with_it = encoded(&properties);
            // [MQTT-3.2.2-20]
            if with_it.len() <= asked.packet_bytes_max as usize {
                return with_it;
            }
        }
        bytes
    }

    fn say_bounds(&self, asked: &Asked<'_>, properties: &mut PropertiesBuf) {
        let session_expiry_s_max = self.bounds.limits.session_expiry_s_max;
        if asked.session_expiry_s > session_expiry_s_max {
            properties.push(Property::SessionExpiryInterval(session_expiry_s_max));
        }
        let told = &self.bounds.told;
        properties.push(Property::ReceiveMaximum(told.receive_maximum));
        properties.push(Property::MaximumPacketSize(told.packet_bytes_max));
        if told.topic_alias_maximum > 0 {
            properties.push(Property::TopicAliasMaximum(told.topic_alias_maximum));
        }
    }

    /// What is as the standard's default has it is left out.
    fn say_features(&self, asked: &Asked<'_>, properties: &mut PropertiesBuf) {
        let features = &self.bounds.features;
        if features.qos_max < QoS::ExactlyOnce {
            properties.push(Property::MaximumQoS(features.qos_max as u8));
        }
        if !features.retain {
            properties.push(Property::RetainAvailable(0));
        }
        if !features.wildcard_subscriptions {
            properties.push(Property::WildcardSubscriptionAvailable(0));
        }
        if !features.subscription_identifiers {
            properties.push(Property::SubscriptionIdentifierAvailable(0));
        }
        if !features.shared_subscriptions {
            properties.push(Property::SharedSubscriptionAvailable(0));
        }
        if features.server_keep_alive_s > 0 {
            properties.push(Property::ServerKeepAlive(features.server_keep_alive_s));
        }
        if asked.wants_response_information && !features.response_information.is_empty() {
            properties.push(Property::ResponseInformation(&features.response_information));
        }
    }

    /// CONNACK with a reason, then the end. No session, no will.
    pub(super) fn refuse_connect(
        &mut self,
        conn: ConnKey,
        version: Version,
        connect: Option<&Connect<'_>>,
        refusal: Refusal,
        sink: &mut impl Sink,
    ) {
        self.refuse(conn, (version, connect), false, refusal, sink);
    }

    /// The same of a client that is not who it says it is, as far as is known.
    pub(super) fn refuse_stranger(
        &mut self,
        conn: ConnKey,
        version: Version,
        connect: Option<&Connect<'_>>,
        refusal: Refusal,
        sink: &mut impl Sink,
    ) {
        self.refuse(conn, (version, connect), true, refusal, sink);
    }

    fn refuse(
        &mut self,
        conn: ConnKey,
        (version, connect): (Version, Option<&Connect<'_>>),
        is_stranger: bool,
        refusal: Refusal,
        sink: &mut impl Sink,
    ) {
        let Refusal { reason, detail } = refusal;
        let asked = connect.map(Asked::of);
        let bytes_max = asked.as_ref().map_or(usize::MAX, |asked| asked.packet_bytes_max as usize);
        let mut properties = PropertiesBuf::new();
        // A stranger is told the reason and no words.
        let has_words = !detail.is_empty() && !is_stranger;
        if has_words && asked.is_some_and(|asked| asked.wants_problems) {
            properties.push(Property::ReasonString(detail));
        }
        self.say_reference(reason, &mut properties);
        let mut bytes = refusal_bytes(version, reason, properties.as_properties());
        if bytes.len() > bytes_max {
            // [MQTT-3.2.2-19]
            bytes = refusal_bytes(version, reason, Properties::EMPTY);
        }
        if bytes.len() <= bytes_max {
            sink.write(conn, &bytes);
        }
        self.stats.connections_refused += 1;
        self.stats.refusals.add(reason);
        self.drop_connection(conn);
        let client_id = connect.map_or("", |connect| connect.client_id);
        let user_name = connect.and_then(|connect| connect.user_name);
        let was_live = false;
        sink.notice(Notice::Ended { conn, client_id, user_name, was_live, reason, detail });
        sink.close(conn);
    }
}

fn refusal_bytes(version: Version, reason: ReasonCode, properties: Properties<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    ConnAck { session_present: false, reason, properties }.encode(version, &mut bytes);
    bytes
}
