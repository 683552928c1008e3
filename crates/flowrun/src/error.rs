//! Why a flow ended, or could not begin.

use std::io;
use weir_client::ClientError;
use weir_flow::FlowError;
use weir_wire::ReasonCode;

/// What the person at the shell reads, on one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be used.
    #[error("{option}: {rule}")]
    Option {
        /// As it is written at the shell.
        option: &'static str,
        /// What it must be.
        rule: String,
    },
    /// A flow file that cannot be read.
    #[error("{path}: {error}")]
    File {
        /// As it was given.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// A flow file with a fault.
    #[error("{path}: {error}")]
    Flow {
        /// As it was given.
        path: String,
        /// Which rule, where, and what is wrong.
        error: FlowError,
    },
    /// A flow file that is sound and that a client cannot run.
    #[error("{path}: {rule}")]
    Unfit {
        /// As it was given.
        path: String,
        /// Which rules, and what to do.
        rule: String,
    },
    /// The system gives no sockets, threads or signal handlers.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
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
    /// DISCONNECT from the broker, for a reason that another try will not mend.
    #[error("{address} ended the connection: {}", named(*reason, why.as_deref()))]
    Disconnected {
        /// Host and port.
        address: String,
        /// Its reason code.
        reason: ReasonCode,
        /// Its reason string, if any.
        why: Option<String>,
    },
    /// The connection ended.
    #[error("the connection to {address} was lost: {cause}")]
    Lost {
        /// Host and port.
        address: String,
        /// What the system says.
        cause: String,
    },
    /// The broker sent what a client cannot live with.
    #[error(transparent)]
    Broker(#[from] ClientError),
    /// The broker said in CONNACK that it cannot do what the rules ask.
    #[error("{address} {lacks}")]
    Unsupported {
        /// Host and port.
        address: String,
        /// What it does not take.
        lacks: String,
    },
    /// SUBACK with a refusal.
    #[error("the broker refused to subscribe to {filter}: {}", named(*reason, why.as_deref()))]
    NotSubscribed {
        /// The first refused filter.
        filter: String,
        /// Its reason code.
        reason: ReasonCode,
        /// Its reason string, if any.
        why: Option<String>,
    },
    /// The broker did not acknowledge all results in the time there is at the end.
    #[error("stopped with {results} results that the broker has not acknowledged")]
    Unfinished {
        /// How many; their messages stay unacknowledged too.
        results: u64,
    },
}

impl Error {
    /// 2 for wrong options and files, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Option { .. } | Self::File { .. } | Self::Flow { .. } | Self::Unfit { .. } => 2,
            _ => 1,
        }
    }

    pub(crate) fn option(option: &'static str, rule: impl Into<String>) -> Self {
        Self::Option { option, rule: rule.into() }
    }
}

/// `Quota exceeded (0x97): no room`.
pub(crate) fn named(reason: ReasonCode, why: Option<&str>) -> String {
    let why = why.map_or(String::new(), |why| format!(": {why}"));
    format!("{} (0x{:02x}){why}", reason.name(), reason as u8)
}
