//! What a case is run against.

/// What came on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole packet, as far as its own length says.
    Packet(Vec<u8>),
    /// The other side ended the connection, and nothing is left to read.
    Ended,
    /// Nothing, for as long as the target waits.
    Nothing,
    /// Bytes that cannot be the beginning of a packet.
    Garbage(Vec<u8>),
}

/// A broker, as the runner needs it.
pub trait Target {
    /// Opens a connection and gives it a number.
    ///
    /// # Errors
    /// Why there is none.
    fn open(&mut self) -> Result<usize, String>;

    /// The bytes as this broker is to get them: with credentials, if it asks for them.
    fn present(&self, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    /// Sends bytes. That the other side has ended the connection is no error: what is expected
    /// next will say so.
    fn send(&mut self, connection: usize, bytes: &[u8]);

    /// The next packet. With `expected`, waits as long as a packet may take; without, only as long
    /// as one that should not come may be on its way.
    fn receive(&mut self, connection: usize, expected: bool) -> Received;

    /// Ends the connection without a word.
    fn close(&mut self, connection: usize);

    /// Lets this much time pass.
    fn pass(&mut self, millis: u64);
}

/// Takes the first whole packet out of `bytes`; nothing while it is not all there.
pub fn take_packet(bytes: &mut Vec<u8>) -> Option<Received> {
    use crate::varint::{Found, read};
    match read(bytes.get(1..)?) {
        Found::Incomplete => None,
        Found::Invalid => Some(Received::Garbage(std::mem::take(bytes))),
        Found::Value(length, used) => {
            let end = 1 + used + length;
            (bytes.len() >= end).then(|| Received::Packet(bytes.drain(..end).collect()))
        }
    }
}
