//! What a broker may leave out or insist on, as it says in CONNACK (section 3.2.2.3).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_wire::QoS;

/// Everything is on by default. What is off is said in CONNACK and refused with the standard's
/// reason code; older versions are refused as they can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Features {
    /// Highest QoS accepted from clients. A PUBLISH or will above it is refused with 0x9B.
    #[serde(serialize_with = "write_qos", deserialize_with = "read_qos")]
    pub qos_max: QoS,
    /// Whether messages can be retained. If not, a PUBLISH or will with RETAIN is refused with
    /// 0x9A.
    pub retain: bool,
    /// Whether topic filters may contain `+` and `#`. If not, SUBACK has 0xA2.
    pub wildcard_subscriptions: bool,
    /// Whether there are shared subscriptions (`$share/...`). If not, SUBACK has 0x9E.
    pub shared_subscriptions: bool,
    /// Whether a SUBSCRIBE may have a subscription identifier. If not, SUBACK has 0xA1.
    pub subscription_identifiers: bool,
    /// The keep alive that clients of 5.0 use instead of their own (Server Keep Alive). 0 leaves
    /// them theirs.
    pub server_keep_alive_s: u16,
    /// Response Information, for clients of 5.0 that request it. Empty is none.
    pub response_information: Box<str>,
    /// Whether every CONNECT has to pass the authentication port ([`crate::AuthRequest`]). If
    /// not, everybody is let in and an authentication method is refused with 0x8C.
    #[serde(skip)]
    pub authentication: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self {
            qos_max: QoS::ExactlyOnce,
            retain: true,
            wildcard_subscriptions: true,
            shared_subscriptions: true,
            subscription_identifiers: true,
            server_keep_alive_s: 0,
            response_information: Box::default(),
            authentication: false,
        }
    }
}

fn write_qos<S: Serializer>(qos: &QoS, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(*qos as u8)
}

fn read_qos<'de, D: Deserializer<'de>>(deserializer: D) -> Result<QoS, D::Error> {
    let number = u8::deserialize(deserializer)?;
    QoS::from_u8(number).ok_or_else(|| serde::de::Error::custom("QoS is 0, 1 or 2"))
}
