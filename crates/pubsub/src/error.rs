//! Why a client at the shell ended without having done its work.

use std::io;
use weir_connection::named;
use weir_wire::{REMAINING_LENGTH_MAX, ReasonCode};

/// What the person at the shell reads, on one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be used.
    #[error("{}: {rule}", [*option, value.as_str()].join(" ").trim_end())]
    Option {
        /// As it is written at the shell.
        option: &'static str,
        /// What was given; empty where the option has no value or it is a secret.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// TLS that cannot be spoken as it is asked for.
    #[error(transparent)]
    Tls(#[from] weir_connection::TlsFault),
    /// A file of `-f`, standard input or standard output.
    #[error("{what}: {error}")]
    File {
        /// Its path, or which stream.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// The system gives no sockets, threads or signal handlers.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// There is no connection, or it ended before the work was done.
    #[error(transparent)]
    Connection(#[from] weir_connection::Error),
    /// The broker said in CONNACK that it does not take such a message.
    #[error("the broker takes {0}")]
    Unsupported(String),
    /// A message longer than MQTT can say.
    #[error("the message needs a packet of {bytes} bytes; MQTT allows {REMAINING_LENGTH_MAX}")]
    TooLong {
        /// Remaining length of the packet.
        bytes: usize,
    },
    /// PUBACK, PUBREC or PUBCOMP with a refusal.
    #[error(
        "the broker refused {}: {}",
        counted(*refused, *published),
        named(*reason, why.as_deref())
    )]
    NotPublished {
        /// How many messages were refused.
        refused: u64,
        /// Of how many.
        published: u64,
        /// Reason code of the first.
        reason: ReasonCode,
        /// Its reason string, if any.
        why: Option<String>,
    },
    /// SUBACK with nothing but refusals.
    #[error("the broker refused to subscribe to {filter}: {}", named(*reason, why.as_deref()))]
    NotSubscribed {
        /// The first filter.
        filter: String,
        /// Its reason code.
        reason: ReasonCode,
        /// Its reason string, if any.
        why: Option<String>,
    },
    /// The broker lives and does not answer.
    #[error("the broker gave no answer for {seconds} s (--answer-timeout): {owed}")]
    NoAnswer {
        /// What `--answer-timeout` says.
        seconds: u32,
        /// What was not answered.
        owed: String,
    },
    /// The time of `-W` is over.
    #[error("timed out after {seconds} s")]
    TimedOut {
        /// What `-W` said.
        seconds: u32,
    },
}

impl Error {
    /// 2 for what clap would refuse as well, 27 when a time is over, as mosquitto_sub has it for
    /// `-W`, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Option { .. } | Self::Tls(_) => 2,
            Self::TimedOut { .. } | Self::NoAnswer { .. } => 27,
            _ => 1,
        }
    }

    pub(crate) fn option(
        option: &'static str,
        value: impl Into<String>,
        rule: impl Into<String>,
    ) -> Self {
        Self::Option { option, value: value.into(), rule: rule.into() }
    }
}

fn counted(refused: u64, published: u64) -> String {
    if published == 1 {
        "the message".into()
    } else {
        format!("{refused} of {published} messages, the first with")
    }
}
