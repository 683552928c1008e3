//! Why a connection ended, or could not be made.

use crate::Shown;
use weir_client::ClientError;
use weir_wire::ReasonCode;

/// What the person at the shell reads, on one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection could be made.
    #[error("cannot connect to {address}: {cause}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the system says of the last try.
        cause: String,
    },
    /// CONNACK with a refusal.
    #[error("{address} refused the connection: {}", named(*reason, why.as_deref()))]
    Refused {
        /// Host and port.
        address: String,
        /// Its reason code.
        reason: ReasonCode,
        /// Its reason string, if any.
        why: Option<String>,
    },
    /// DISCONNECT from the broker.
    #[error("{address} ended the connection: {}", named(*reason, why.as_deref()))]
    Disconnected {
        /// Host and port.
        address: String,
        /// Its reason code.
        reason: ReasonCode,
        /// Its reason string, if any.
        why: Option<String>,
    },
    /// The connection ended before the work was done.
    #[error("the connection to {address} was lost: {cause}")]
    Lost {
        /// Host and port.
        address: String,
        /// What the system says.
        cause: String,
    },
    /// More messages came than can be kept until they are acknowledged.
    #[error("{address} sent more than there is room for")]
    Full {
        /// Host and port.
        address: String,
    },
    /// The broker sent what a client cannot live with.
    #[error(transparent)]
    Broker(#[from] ClientError),
}

/// `Quota exceeded (0x97): no room`.
pub fn named(reason: ReasonCode, why: Option<&str>) -> String {
    let why = why.map_or(String::new(), |why| format!(": {}", Shown(why)));
    format!("{} (0x{:02x}){why}", reason.name(), reason as u8)
}
