//! Frames: what a client may send, and what a server says.

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Payload of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// What is before the payload of a client's frame.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) opcode: Opcode,
    pub(super) is_final: bool,
    pub(super) mask: [u8; 4],
    /// Of the payload.
    pub(super) length: u64,
    /// Of the head itself.
    pub(super) bytes: usize,
}

impl Head {
    /// The head at the start of `bytes`, if all of it has come.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, &'static str> {
        let Some(&[first, second]) = bytes.first_chunk() else { return Ok(None) };
        let opcode = match first & 0x0F {
            0 => Opcode::Continuation,
            1 => Opcode::Text,
            2 => Opcode::Binary,
            8 => Opcode::Close,
            9 => Opcode::Ping,
            10 => Opcode::Pong,
            _ => return Err("a WebSocket frame of an unknown kind"),
        };
        if first & RESERVED != 0 {
            return Err("a WebSocket extension that was not agreed on");
        }
        if second & MASKED == 0 {
            return Err("a WebSocket frame without a mask");
        }
        let (extra, short) = match second & !MASKED {
            126 => (2, 0),
            127 => (8, 0),
            short => (0, u64::from(short)),
        };
        let bytes_of_head = 2 + extra + 4;
        let Some(head) = bytes.get(2..bytes_of_head) else { return Ok(None) };
        let (length, mask) = head.split_at(extra);
        let long = length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (length, is_final) = (if extra == 0 { short } else { long }, first & FINAL != 0);
        let is_control = opcode as u8 >= Opcode::Close as u8;
        if is_control && (!is_final || length > CONTROL_BYTES_MAX) {
            return Err("a WebSocket control frame that is too long or not whole");
        }
        let mask = mask.try_into().unwrap_or_default();
        Ok(Some(Self { opcode, is_final, mask, length, bytes: bytes_of_head }))
    }
}

/// Takes the mask off `bytes`; it is turned to where the next ones begin.
pub(super) fn apply(mask: &mut [u8; 4], bytes: &mut [u8]) {
    for piece in bytes.chunks_mut(4) {
        for (byte, mask) in piece.iter_mut().zip(mask.iter()) {
            *byte ^= mask;
        }
    }
    mask.rotate_left(bytes.len() % 4);
}

/// Writes the head of a server's frame, a whole message.
pub(super) fn write_head(opcode: Opcode, length: usize, network: &mut Vec<u8>) {
    network.push(FINAL | opcode as u8);
    match length {
        0..=125 => network.push(length as u8),
        126..=0xFFFF => {
            network.push(126);
            network.extend((length as u16).to_be_bytes());
        }
        _ => {
            network.push(127);
            network.extend((length as u64).to_be_bytes());
        }
    }
}

/// Writes a close frame.
pub(super) fn close(code: u16, network: &mut Vec<u8>) {
    write_head(Opcode::Close, 2, network);
    network.extend(code.to_be_bytes());
}
