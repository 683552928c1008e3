//! What clients, topics and messages are called.

use weir_wire::QoS;

/// A publisher's messages at one QoS, which are to come in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Whose.
    pub publisher: usize,
    /// At least 1.
    pub qos: QoS,
}

impl Stream {
    /// Every stream of so many publishers: those of a publisher stand together.
    pub fn all(publishers: usize, qos: &[QoS]) -> Vec<Self> {
        let of = |publisher| qos.iter().map(move |&qos| Self { publisher, qos });
        (0..publishers).flat_map(of).collect()
    }

    /// The stream of a topic.
    pub fn of(topic: &str) -> Option<Self> {
        let (qos, publisher) = topic.strip_prefix("crash/")?.split_once('/')?;
        let qos = qos.parse().ok().and_then(QoS::from_u8)?;
        Some(Self { publisher: publisher.parse().ok()?, qos })
    }

    /// Its topic.
    pub fn topic(self) -> String {
        format!("crash/{}/{}", self.qos as u8, self.publisher)
    }
}

/// The filter that takes the streams of all publishers at one QoS.
pub fn filter(qos: QoS) -> String {
    format!("crash/{}/+", qos as u8)
}

/// The filter that takes the retained messages of all publishers.
pub const RETAINED: &str = "crash/retained/+";

/// The topic of a publisher's retained message.
pub fn retained(publisher: usize) -> String {
    format!("crash/retained/{publisher}")
}

/// The publisher of a retained message's topic.
pub fn retained_by(topic: &str) -> Option<usize> {
    topic.strip_prefix("crash/retained/")?.parse().ok()
}

/// What is behind the number in a payload, so that a message is not all head.
const FILL: &str = "................................................";

/// The payload of a message: it says itself where it belongs.
pub fn payload(topic: &str, number: u32) -> String {
    format!("{topic} {number} {FILL}")
}

/// The number of a message that came on `topic`; nothing if it is none of ours, or another's.
pub fn number(topic: &str, payload: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(payload).ok()?;
    let (number, fill) = text.strip_prefix(topic)?.strip_prefix(' ')?.split_once(' ')?;
    (fill == FILL).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_its_topic_and_number_and_one_that_was_altered_does_not() {
        let stream = Stream { publisher: 12, qos: QoS::ExactlyOnce };
        let topic = stream.topic();
        assert_eq!(topic, "crash/2/12");
        assert_eq!(Stream::of(&topic), Some(stream));
        let text = payload(&topic, 77);
        assert_eq!(number(&topic, text.as_bytes()), Some(77));
        assert_eq!(number("crash/2/1", text.as_bytes()), None);
        assert_eq!(number(&topic, &text.as_bytes()[..text.len() - 1]), None);
        assert_eq!(number(&topic, b"\xff"), None);
        assert_eq!(retained_by(&retained(3)), Some(3));
        assert_eq!(retained_by("crash/1/3"), None);
    }

    #[test]
    fn streams_of_a_publisher_stand_together() {
        let all = Stream::all(2, &[QoS::AtLeastOnce, QoS::ExactlyOnce]);
        assert_eq!(all.iter().map(|of| of.publisher).collect::<Vec<_>>(), [0, 0, 1, 1]);
    }
}
