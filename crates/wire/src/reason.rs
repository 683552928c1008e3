//! Reason codes of MQTT 5.0 (table 2-6) and their older return codes.

macro_rules! reason_codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        /// A reason code of MQTT 5.0. `Success` is also NormalDisconnection and GrantedQoS0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ReasonCode { $(#[doc = $text] $name = $value,)* }

        impl ReasonCode {
            /// Every reason code, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The reason code with this number, or nothing.
            pub const fn from_u8(value: u8) -> Option<Self> {
                match value { $($value => Some(Self::$name),)* _ => None }
            }

            /// The name as the standard prints it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reason_codes! {
    Success = 0x00, "Success";
    GrantedQoS1 = 0x01, "Granted QoS 1";
    GrantedQoS2 = 0x02, "Granted QoS 2";
    DisconnectWithWill = 0x04, "Disconnect with Will Message";
    NoMatchingSubscribers = 0x10, "No matching subscribers";
    NoSubscriptionExisted = 0x11, "No subscription existed";
    ContinueAuthentication = 0x18, "Continue authentication";
    ReAuthenticate = 0x19, "Re-authenticate";
    UnspecifiedError = 0x80, "Unspecified error";
    MalformedPacket = 0x81, "Malformed Packet";
    ProtocolError = 0x82, "Protocol Error";
    ImplementationSpecificError = 0x83, "Implementation specific error";
    UnsupportedProtocolVersion = 0x84, "Unsupported Protocol Version";
    ClientIdentifierNotValid = 0x85, "Client Identifier not valid";
    BadUserNameOrPassword = 0x86, "Bad User Name or Password";
    NotAuthorized = 0x87, "Not authorized";
    ServerUnavailable = 0x88, "Server unavailable";
    ServerBusy = 0x89, "Server busy";
    Banned = 0x8A, "Banned";
    ServerShuttingDown = 0x8B, "Server shutting down";
    BadAuthenticationMethod = 0x8C, "Bad authentication method";
    KeepAliveTimeout = 0x8D, "Keep Alive timeout";
    SessionTakenOver = 0x8E, "Session taken over";
    TopicFilterInvalid = 0x8F, "Topic Filter invalid";
    TopicNameInvalid = 0x90, "Topic Name invalid";
    PacketIdentifierInUse = 0x91, "Packet Identifier in use";
    PacketIdentifierNotFound = 0x92, "Packet Identifier not found";
    ReceiveMaximumExceeded = 0x93, "Receive Maximum exceeded";
    TopicAliasInvalid = 0x94, "Topic Alias invalid";
    PacketTooLarge = 0x95, "Packet too large";
    MessageRateTooHigh = 0x96, "Message rate too high";
    QuotaExceeded = 0x97, "Quota exceeded";
    AdministrativeAction = 0x98, "Administrative action";
    PayloadFormatInvalid = 0x99, "Payload format invalid";
    RetainNotSupported = 0x9A, "Retain not supported";
    QoSNotSupported = 0x9B, "QoS not supported";
    UseAnotherServer = 0x9C, "Use another server";
    ServerMoved = 0x9D, "Server moved";
    SharedSubscriptionsNotSupported = 0x9E, "Shared Subscriptions not supported";
    ConnectionRateExceeded = 0x9F, "Connection rate exceeded";
    MaximumConnectTime = 0xA0, "Maximum connect time";
    SubscriptionIdentifiersNotSupported = 0xA1, "Subscription Identifiers not supported";
    WildcardSubscriptionsNotSupported = 0xA2, "Wildcard Subscriptions not supported";
}

impl ReasonCode {
    /// Whether the code says that something failed (0x80 and above).
    pub const fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// The CONNACK return code of MQTT 3.1 and 3.1.1 nearest to this code (0 to 5).
    pub const fn connect_return_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdentifierNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            Self::NotAuthorized | Self::Banned => 5,
            _ => 3,
        }
    }

    /// The code that an older CONNACK return code means, or nothing for 6 and above.
    pub const fn from_connect_return_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Success),
            1 => Some(Self::UnsupportedProtocolVersion),
            2 => Some(Self::ClientIdentifierNotValid),
            3 => Some(Self::ServerUnavailable),
            4 => Some(Self::BadUserNameOrPassword),
            5 => Some(Self::NotAuthorized),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_code_is_listed_in_order_and_found_by_its_number() {
        assert_eq!(ReasonCode::ALL.len(), 43);
        assert!(ReasonCode::ALL.is_sorted());
        let numbers = (0..=255).filter_map(ReasonCode::from_u8);
        assert!(numbers.eq(ReasonCode::ALL.iter().copied()));
    }

    #[test]
    fn return_codes_before_5_survive_the_way_there_and_back() {
        for code in 0..=5 {
            let reason = ReasonCode::from_connect_return_code(code).unwrap();
            assert_eq!(reason.connect_return_code(), code);
        }
        assert_eq!(ReasonCode::from_connect_return_code(6), None);
    }
}
