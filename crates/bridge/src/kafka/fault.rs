//! What an error of Kafka means for the messages of a batch.

use rskafka::BackoffError;
use rskafka::client::error::{Error, ProtocolError};

/// What becomes of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// They are longer together, or one of them is, than the topic takes.
    TooLarge,
    /// One of them is not what the topic takes, however often it is sent.
    Unfit,
    /// Any of them may be taken later: somebody, or time, has to do something about it.
    Passing,
}

impl Fault {
    pub(crate) fn of(error: &Error) -> Self {
        let Error::ServerError { protocol_error, .. } = error else { return Self::Passing };
        match protocol_error {
            ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge => Self::TooLarge,
            ProtocolError::InvalidRecord | ProtocolError::InvalidTimestamp => Self::Unfit,
            _ => Self::Passing,
        }
    }
}

/// What an error says to whoever runs the broker, and what there is to be done about it.
pub(crate) fn text_of(error: &Error) -> String {
    match error {
        // What was tried again has a cause of its own, which says it all.
        Error::RetryFailed(BackoffError::DeadlineExceded { .. }) => last_cause(error),
        Error::ServerError { protocol_error, request, .. } => {
            format!("{request:?}: {protocol_error}{}", advice(*protocol_error))
        }
        error => error.to_string(),
    }
}

fn last_cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

const fn advice(error: ProtocolError) -> &'static str {
    match error {
        ProtocolError::UnknownTopicOrPartition => "; create the topic in Kafka",
        ProtocolError::TopicAuthorizationFailed | ProtocolError::ClusterAuthorizationFailed => {
            "; allow its user Describe and Write on the topic"
        }
        ProtocolError::NotEnoughReplicas | ProtocolError::NotEnoughReplicasAfterAppend => {
            "; fewer replicas are in sync than min.insync.replicas asks for"
        }
        ProtocolError::MessageTooLarge | ProtocolError::RecordListTooLarge => {
            "; raise max.message.bytes of the topic"
        }
        ProtocolError::InvalidRecord => "; does a compacted topic get records without a key?",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rskafka::client::error::RequestContext;

    fn error(protocol_error: ProtocolError) -> Error {
        Error::ServerError {
            protocol_error,
            error_message: None,
            request: RequestContext::Partition("plant".into(), 3),
            response: None,
            is_virtual: false,
        }
    }

    #[test]
    fn only_what_no_time_mends_is_dropped() {
        for (of, fault) in [
            (ProtocolError::MessageTooLarge, Fault::TooLarge),
            (ProtocolError::RecordListTooLarge, Fault::TooLarge),
            (ProtocolError::InvalidRecord, Fault::Unfit),
            (ProtocolError::InvalidTimestamp, Fault::Unfit),
            (ProtocolError::UnknownTopicOrPartition, Fault::Passing),
            (ProtocolError::TopicAuthorizationFailed, Fault::Passing),
            (ProtocolError::NotEnoughReplicas, Fault::Passing),
            (ProtocolError::NotLeaderOrFollower, Fault::Passing),
            (ProtocolError::CorruptMessage, Fault::Passing),
            (ProtocolError::Unknown(999), Fault::Passing),
        ] {
            assert_eq!(Fault::of(&error(of)), fault, "{of}");
        }
        assert_eq!(Fault::of(&Error::Timeout), Fault::Passing);
    }

    #[test]
    fn an_error_says_where_and_what_to_do() {
        let text = text_of(&error(ProtocolError::UnknownTopicOrPartition));
        assert_eq!(
            text,
            "Partition(\"plant\", 3): UnknownTopicOrPartition; create the topic in Kafka"
        );
    }
}
