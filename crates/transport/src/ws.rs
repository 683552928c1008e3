//! WebSocket (RFC 6455) as the layer of a server, for the subprotocols of MQTT.
//!
//! MQTT packets and frames do not have to begin or end together [MQTT-6.0.0-2], so payload is
//! handed on as it comes, and a frame of any length is never held.

mod forwarded;
mod frame;
mod request;

use crate::{Layer, Learnt, Stream, TransportError};
use frame::{Head, Opcode, apply, close, write_head};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Status codes of a close frame.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const UNACCEPTABLE: u16 = 1003;

/// What a request has to be like, and who is believed where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Paths that it may name.
    pub paths: Vec<String>,
    /// Origins whose pages may open a WebSocket, as browsers say them. With none, every page may.
    pub origins: Vec<String>,
    /// Networks of proxies that say where a client is. Whether the request comes from one, and
    /// [`Learnt::peer`] is to be believed, is left to whoever knows the other end of the socket.
    pub forwarded_from: Vec<IpNet>,
}

/// The layer of a connection whose request keeps to `rules`.
pub fn server(rules: Arc<Rules>) -> Box<dyn Layer> {
    Box::new(WebSocket {
        rules,
        client: None,
        is_open: false,
        has_closed: false,
        is_in_message: false,
        held: Vec::new(),
        left: 0,
        mask: [0; 4],
    })
}

#[derive(Debug)]
struct WebSocket {
    rules: Arc<Rules>,
    /// Where a proxy says that the client is, until it is asked.
    client: Option<Box<SocketAddr>>,
    is_open: bool,
    /// This side has said its end.
    has_closed: bool,
    /// The message that has begun has further frames.
    is_in_message: bool,
    /// The start of the request, of the head of a frame or of a control frame.
    held: Vec<u8>,
    /// Payload of the frame that has begun which has not come.
    left: u64,
    /// What masks its next bytes.
    mask: [u8; 4],
}

impl WebSocket {
    /// Reads the request, if it is all there. Returns how many bytes it has.
    fn open(&mut self, bytes: &[u8], network: &mut Vec<u8>) -> Result<usize, TransportError> {
        let end = bytes.windows(4).position(|some| some == b"\r\n\r\n").map(|at| at + 4);
        let read = match end {
            Some(end) if end <= REQUEST_BYTES_MAX => request::accept(&bytes[..end], &self.rules),
            None if bytes.len() <= REQUEST_BYTES_MAX => return Ok(0),
            _ => Err(request::TOO_LONG),
        };
        match read {
            Ok((response, client)) => {
                self.client = client.map(Box::new);
                network.extend_from_slice(response.as_bytes());
                self.is_open = true;
                Ok(end.unwrap_or_default())
            }
            Err(refusal) => {
                network.extend_from_slice(refusal.response().as_bytes());
                Err(TransportError::Refused(refusal.why))
            }
        }
    }

    /// Takes payload, or the next frame's head with all of a control frame. Returns how many bytes
    /// that is, 0 if more has to come, and whether the peer has ended.
    fn step(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<(usize, Stream), TransportError> {
        if self.left > 0 {
            let some = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let start = plain.len();
            plain.extend_from_slice(&bytes[..some]);
            apply(&mut self.mask, &mut plain[start..]);
            self.left -= some as u64;
            return Ok((some, Stream::Open));
        }
        let head = match Head::read(bytes) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok((0, Stream::Open)),
            Err(why) => return Err(self.fail(PROTOCOL_ERROR, why, network)),
        };
        match head.opcode {
            Opcode::Binary | Opcode::Continuation => {
                if (head.opcode == Opcode::Continuation) != self.is_in_message {
                    let why = "a WebSocket frame that belongs to no message";
                    return Err(self.fail(PROTOCOL_ERROR, why, network));
                }
                self.is_in_message = !head.is_final;
                (self.left, self.mask) = (head.length, head.mask);
                Ok((head.bytes, Stream::Open))
            }
            Opcode::Text => {
                // [MQTT-6.0.0-1]
                Err(self.fail(UNACCEPTABLE, "a WebSocket frame of text", network))
            }
            Opcode::Close | Opcode::Ping | Opcode::Pong => {
                let end = head.bytes + head.length as usize;
                let Some(payload) = bytes.get(head.bytes..end) else {
                    return Ok((0, Stream::Open));
                };
                let mut payload = payload.to_vec();
                apply(&mut head.mask.clone(), &mut payload);
                Ok((end, self.control(head.opcode, &payload, network)))
            }
        }
    }

    fn control(&mut self, opcode: Opcode, payload: &[u8], network: &mut Vec<u8>) -> Stream {
        match opcode {
            Opcode::Ping => {
                write_head(Opcode::Pong, payload.len(), network);
                network.extend_from_slice(payload);
            }
            Opcode::Close => {
                let code = payload.first_chunk().map_or(NORMAL, |code| u16::from_be_bytes(*code));
                self.say_end(code, network);
                return Stream::Ended;
            }
            _ => {}
        }
        Stream::Open
    }

    fn say_end(&mut self, code: u16, network: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_closed, true) {
            close(code, network);
        }
    }

    fn fail(&mut self, code: u16, why: &'static str, network: &mut Vec<u8>) -> TransportError {
        self.say_end(code, network);
        TransportError::Malformed(why)
    }
}

impl Layer for WebSocket {
    fn begin(&mut self, _network: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        let mut held = std::mem::take(&mut self.held);
        let mut rest = if held.is_empty() {
            bytes
        } else {
            held.extend_from_slice(bytes);
            &held[..]
        };
        while !rest.is_empty() {
            let (done, stream) = if self.is_open {
                self.step(rest, plain, network)?
            } else {
                (self.open(rest, network)?, Stream::Open)
            };
            rest = &rest[done..];
            if stream == Stream::Ended {
                return Ok(stream);
            }
            if done == 0 {
                self.held = rest.to_vec();
                break;
            }
        }
        Ok(Stream::Open)
    }

    fn send(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        write_head(Opcode::Binary, plain.len(), network);
        network.extend_from_slice(plain);
    }

    fn close(&mut self, network: &mut Vec<u8>) {
        if self.is_open {
            self.say_end(NORMAL, network);
        }
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn learnt(&mut self) -> Learnt {
        Learnt { peer: self.client.take().map(|client| *client), name: None }
    }
}
