//! An MQTT 3.1.1 client on any stream.

use std::io::{Read, Write};

/// A client's end of a connection.
pub(crate) struct Line<S>(pub(crate) S);

/// CONNECT with a clean session.
pub(crate) fn connect(client_id: &str) -> Vec<u8> {
    let length = client_id.len() as u8;
    let head = [0x10, 12 + length, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, length];
    [&head[..], client_id.as_bytes()].concat()
}

/// PUBLISH to `topic` at QoS 0.
pub(crate) fn publish(topic: &str, payload: &str) -> Vec<u8> {
    let length = 2 + topic.len() + payload.len();
    let head = [0x30, length as u8, 0, topic.len() as u8];
    [&head[..], topic.as_bytes(), payload.as_bytes()].concat()
}

impl<S: Read + Write> Line<S> {
    /// Says `before` and CONNECT in one write, and reads the code of the CONNACK; nothing at the
    /// end of the stream.
    pub(crate) fn open(stream: S, before: &[u8], client_id: &str) -> (Self, Option<u8>) {
        let mut line = Self(stream);
        line.says(&[before, &connect(client_id)].concat());
        let code = line.reads(4).map(|connack| {
            assert_eq!(connack[..3], [0x20, 2, 0]);
            connack[3]
        });
        (line, code)
    }

    /// A client that is in.
    pub(crate) fn join(stream: S, before: &[u8], client_id: &str) -> Self {
        let (line, code) = Self::open(stream, before, client_id);
        assert_eq!(code, Some(0), "{client_id}");
        line
    }

    pub(crate) fn says(&mut self, bytes: &[u8]) {
        // The end may be there already.
        let _ = self.0.write_all(bytes);
        let _ = self.0.flush();
    }

    /// Subscribes to `topic` at QoS 0.
    pub(crate) fn subscribe(&mut self, topic: &str) {
        let head = [0x82, 5 + topic.len() as u8, 0, 1, 0, topic.len() as u8];
        self.says(&[&head[..], topic.as_bytes(), &[0]].concat());
        assert_eq!(self.reads(5).unwrap(), [0x90, 3, 0, 1, 0]);
    }

    /// The next bytes; nothing if the connection ended before them.
    pub(crate) fn reads(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("nothing came"),
            Err(_) => None,
        }
    }

    /// Waits until the connection has ended, and says what came before.
    pub(crate) fn ended(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no end came"),
            Ok(_) | Err(_) => bytes,
        }
    }
}
