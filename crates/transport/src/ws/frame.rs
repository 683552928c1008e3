//! Frames: what a peer may send, and what this side says.

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Payload of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;

/// The most significant bit of a length is 0 (section 5.2).
const LENGTH_MAX: u64 = u64::MAX >> 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

/// What is before the payload of a frame.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) opcode: Opcode,
    pub(super) is_final: bool,
    /// Zeros, which change nothing, in a server's frame.
    pub(super) mask: [u8; 4],
    /// Of the payload.
    pub(super) length: u64,
    /// Of the head itself.
    pub(super) bytes: usize,
}

impl Head {
    /// The head at the start of `bytes`, if all of it has come. Clients mask what they send, and
    /// servers do not (section 5.1).
    pub(super) fn read(bytes: &[u8], is_masked: bool) -> Result<Option<Self>, &'static str> {
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
        match (second & MASKED != 0, is_masked) {
            (false, true) => return Err("a WebSocket frame without a mask"),
            (true, false) => return Err("a WebSocket frame with a mask"),
            _ => {}
        }
        let (extra, short) = match second & !MASKED {
            126 => (2, 0),
            127 => (8, 0),
            short => (0, u64::from(short)),
        };
        let bytes_of_head = 2 + extra + if is_masked { 4 } else { 0 };
        let Some(head) = bytes.get(2..bytes_of_head) else { return Ok(None) };
        let (length, mask) = head.split_at(extra);
        let long = length.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let (length, is_final) = (if extra == 0 { short } else { long }, first & FINAL != 0);
        if length > LENGTH_MAX {
            return Err("a WebSocket frame whose length is none");
        }
        let is_control = opcode as u8 >= Opcode::Close as u8;
        if is_control && (!is_final || length > CONTROL_BYTES_MAX) {
            return Err("a WebSocket control frame that is too long or not whole");
        }
        let mask = mask.try_into().unwrap_or_default();
        Ok(Some(Self { opcode, is_final, mask, length, bytes: bytes_of_head }))
    }
}

/// Puts the mask on `bytes`, or takes it off; it is turned to where the next ones begin.
pub(super) fn apply(mask: &mut [u8; 4], bytes: &mut [u8]) {
    // Wide pieces are what the compiler makes vectors of.
    const WIDE: usize = 16;
    let wide: [u8; WIDE] = std::array::from_fn(|at| mask[at % 4]);
    let length = bytes.len();
    let (pieces, rest) = bytes.as_chunks_mut::<WIDE>();
    for piece in pieces {
        for (byte, mask) in piece.iter_mut().zip(wide) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in rest.iter_mut().zip(wide) {
        *byte ^= mask;
    }
    mask.rotate_left(length % 4);
}

/// Writes a frame, a whole message, masked if this side is a client.
pub(super) fn write(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>, network: &mut Vec<u8>) {
    let masked = if mask.is_some() { MASKED } else { 0 };
    network.push(FINAL | opcode as u8);
    match payload.len() {
        length @ 0..=125 => network.push(masked | length as u8),
        length @ 126..=0xFFFF => {
            network.push(masked | 126);
            network.extend((length as u16).to_be_bytes());
        }
        length => {
            network.push(masked | 127);
            network.extend((length as u64).to_be_bytes());
        }
    }
    let Some(mut mask) = mask else { return network.extend_from_slice(payload) };
    network.extend_from_slice(&mask);
    let start = network.len();
    network.extend_from_slice(payload);
    apply(&mut mask, &mut network[start..]);
}
