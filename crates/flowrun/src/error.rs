//! Why a flow ended, or could not begin.

use std::io;
use weir_connection::named;
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
    /// TLS that cannot be spoken as it is asked for.
    #[error(transparent)]
    Tls(#[from] weir_connection::TlsFault),
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
    /// There is no connection, or it ended before the work was done.
    #[error(transparent)]
    Connection(#[from] weir_connection::Error),
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
            Self::Option { .. }
            | Self::Tls(_)
            | Self::File { .. }
            | Self::Flow { .. }
            | Self::Unfit { .. } => 2,
            _ => 1,
        }
    }

    pub(crate) fn option(option: &'static str, rule: impl Into<String>) -> Self {
        Self::Option { option, rule: rule.into() }
    }
}
