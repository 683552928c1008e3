//! WebSocket (RFC 6455) as the layer of a server or a client, for the subprotocols of MQTT.
//!
//! MQTT packets and frames do not have to begin or end together [MQTT-6.0.0-2], so payload is
//! handed on as it comes, and a frame of any length is never held.

mod forwarded;
mod frame;
mod request;

use crate::{Layer, Learnt, Stream, TransportError};
use frame::{Head, Opcode, apply};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_chance::Chance;

/// The longest request that is read, or answer to one.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// Status codes of a close frame.
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const UNACCEPTABLE: u16 = 1003;
const NOT_UTF8: u16 = 1007;

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
    Box::new(WebSocket::new(Side::Server { rules, client: None }))
}

/// The layer of a connection to `host`, with its port if that is not the usual one, that asks for
/// `path`. The key of its request and the masks of its frames come from `chance`, whose seed
/// nobody may know who chooses what is sent (section 10.3).
pub fn client(host: &str, path: &str, mut chance: Chance) -> Box<dyn Layer> {
    let [first, second] = [chance.bits(), chance.bits()].map(u64::to_be_bytes);
    let key = std::array::from_fn(|at| if at < 8 { first[at] } else { second[at - 8] });
    let (request, key) = request::ask(host, path, key);
    let opening = Some(Box::new(Opening { request, key }));
    Box::new(WebSocket::new(Side::Client { opening, chance }))
}

/// What a side needs that the other has not.
#[derive(Debug)]
enum Side {
    Server {
        rules: Arc<Rules>,
        /// Where a proxy says that the client is, until it is asked.
        client: Option<Box<SocketAddr>>,
    },
    Client {
        /// Until the answer has come.
        opening: Option<Box<Opening>>,
        /// Of the masks.
        chance: Chance,
    },
}

#[derive(Debug)]
struct Opening {
    request: String,
    key: String,
}

#[derive(Debug)]
struct WebSocket {
    side: Side,
    is_open: bool,
    /// This side has said its end.
    has_closed: bool,
    /// The message that has begun has further frames.
    is_in_message: bool,
    /// The start of the request or its answer, of the head of a frame or of a control frame.
    held: Vec<u8>,
    /// Payload of the frame that has begun which has not come.
    left: u64,
    /// What masks its next bytes.
    mask: [u8; 4],
}

impl WebSocket {
    fn new(side: Side) -> Self {
        Self {
            side,
            is_open: false,
            has_closed: false,
            is_in_message: false,
            held: Vec::new(),
            left: 0,
            mask: [0; 4],
        }
    }

    /// Reads the request or its answer, if it is all there. Returns how many bytes it has.
    fn open(&mut self, bytes: &[u8], network: &mut Vec<u8>) -> Result<usize, TransportError> {
        let end = bytes.windows(4).position(|some| some == b"\r\n\r\n").map(|at| at + 4);
        if end.is_none() && bytes.len() <= REQUEST_BYTES_MAX {
            // A broker that speaks without HTTP says nothing that ends like it.
            return match self.side {
                Side::Client { .. } if !b"HTTP/".starts_with(&bytes[..bytes.len().min(5)]) => {
                    Err(TransportError::Malformed("it does not speak WebSocket"))
                }
                _ => Ok(0),
            };
        }
        let head = end.filter(|&end| end <= REQUEST_BYTES_MAX).map(|end| &bytes[..end]);
        match &mut self.side {
            Side::Server { rules, client } => {
                let read = head.map_or(Err(request::TOO_LONG), |head| request::accept(head, rules));
                let (response, forwarded) = read.map_err(|refusal| {
                    network.extend_from_slice(refusal.response().as_bytes());
                    TransportError::Refused(refusal.why)
                })?;
                *client = forwarded.map(Box::new);
                network.extend_from_slice(response.as_bytes());
            }
            Side::Client { opening, .. } => {
                let head = head.ok_or(TransportError::Malformed("an answer that is too long"))?;
                let key = opening.take().map(|opening| opening.key).unwrap_or_default();
                request::check(head, &key)?;
            }
        }
        self.is_open = true;
        Ok(end.unwrap_or_default())
    }

    /// Writes a frame.
    fn write(&mut self, opcode: Opcode, payload: &[u8], network: &mut Vec<u8>) {
        let mask = match &mut self.side {
            Side::Server { .. } => None,
            Side::Client { chance, .. } => Some((chance.bits() as u32).to_be_bytes()),
        };
        frame::write(opcode, payload, mask, network);
    }

    /// Takes payload, or the next frame's head with all of a control frame. Returns how many bytes
    /// that is, 0 if more has to come, and whether the peer has ended.
    fn step(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> Result<(usize, Stream), TransportError> {
        let is_masked = matches!(self.side, Side::Server { .. });
        if self.left > 0 {
            let some = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let start = plain.len();
            plain.extend_from_slice(&bytes[..some]);
            if is_masked {
                apply(&mut self.mask, &mut plain[start..]);
            }
            self.left -= some as u64;
            return Ok((some, Stream::Open));
        }
        let head = match Head::read(bytes, is_masked) {
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
                Ok((end, self.control(head.opcode, &payload, network)?))
            }
        }
    }

    fn control(
        &mut self,
        opcode: Opcode,
        payload: &[u8],
        network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        match opcode {
            Opcode::Ping => self.write(Opcode::Pong, payload, network),
            Opcode::Close => {
                let code =
                    close_code(payload).map_err(|(code, why)| self.fail(code, why, network))?;
                self.say_end(code, network);
                return Ok(Stream::Ended);
            }
            _ => {}
        }
        Ok(Stream::Open)
    }

    fn say_end(&mut self, code: u16, network: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_closed, true) {
            self.write(Opcode::Close, &code.to_be_bytes(), network);
        }
    }

    fn fail(&mut self, code: u16, why: &'static str, network: &mut Vec<u8>) -> TransportError {
        self.say_end(code, network);
        TransportError::Malformed(why)
    }
}

/// What is answered to a close frame: the code that it has, or the one that says what is wrong with
/// it.
fn close_code(payload: &[u8]) -> Result<u16, (u16, &'static str)> {
    if payload.is_empty() {
        return Ok(NORMAL);
    }
    let (code, reason) = payload
        .split_first_chunk()
        .map(|(code, reason)| (u16::from_be_bytes(*code), reason))
        .filter(|(code, _)| is_close_code(*code))
        .ok_or((PROTOCOL_ERROR, "a WebSocket close frame with a code that is none"))?;
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(code),
        Err(_) => Err((NOT_UTF8, "a WebSocket close frame whose reason is not UTF-8")),
    }
}

/// Whether a close frame may have it: one that is registered, of a library or of an application
/// (section 7.4). Some are registered for what no frame says.
const fn is_close_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

impl Layer for WebSocket {
    fn begin(&mut self, network: &mut Vec<u8>) {
        if let Side::Client { opening: Some(opening), .. } = &mut self.side {
            network.extend_from_slice(std::mem::take(&mut opening.request).as_bytes());
        }
    }

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
        self.write(Opcode::Binary, plain, network);
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
        let client = match &mut self.side {
            Side::Server { client, .. } => client.take(),
            Side::Client { .. } => None,
        };
        Learnt { peer: client.map(|client| *client), ..Learnt::default() }
    }
}
