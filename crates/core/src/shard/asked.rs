//! What a CONNECT asks for, and what authentication adds to its answer.

use crate::auth::Terms;
use weir_wire::Property;
use weir_wire::packet::Connect;

/// What the properties of CONNECT ask for, or their defaults.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) session_expiry_s: u32,
    pub(super) receive_maximum: u16,
    pub(super) packet_bytes_max: u32,
    pub(super) aliases_max: u16,
    pub(super) wants_problems: bool,
    pub(super) wants_response_information: bool,
    pub(super) auth_method: Option<&'a str>,
    pub(super) auth_data: &'a [u8],
}

impl<'a> Asked<'a> {
    pub(super) fn of(connect: &Connect<'a>) -> Self {
        // Before 5.0, a session without Clean Session is kept for ever.
        let is_kept = !connect.version.is_v5() && !connect.clean_start;
        let mut asked = Self {
            session_expiry_s: if is_kept { u32::MAX } else { 0 },
            receive_maximum: u16::MAX,
            packet_bytes_max: u32::MAX,
            aliases_max: 0,
            wants_problems: true,
            wants_response_information: false,
            auth_method: None,
            auth_data: &[],
        };
        for property in connect.properties.iter() {
            match property {
                Property::SessionExpiryInterval(seconds) => asked.session_expiry_s = seconds,
                Property::ReceiveMaximum(maximum) => asked.receive_maximum = maximum,
                Property::MaximumPacketSize(bytes) => asked.packet_bytes_max = bytes,
                Property::TopicAliasMaximum(maximum) => asked.aliases_max = maximum,
                Property::RequestProblemInformation(flag) => asked.wants_problems = flag != 0,
                Property::RequestResponseInformation(flag) => {
                    asked.wants_response_information = flag != 0;
                }
                Property::AuthenticationMethod(method) => asked.auth_method = Some(method),
                Property::AuthenticationData(data) => asked.auth_data = data,
                _ => {}
            }
        }
        asked
    }
}

/// What authentication adds to a CONNACK.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof<'a> {
    pub(super) method: Option<&'a str>,
    pub(super) data: &'a [u8],
    pub(super) terms: &'a Terms,
}
