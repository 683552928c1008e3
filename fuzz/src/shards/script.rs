//! The bytes of a script, read and written.

/// Opens a connection; takes a byte: which shard accepts it, whether the shell refuses it.
pub const OPEN: u8 = 0;
/// Sends bytes as they are; takes a two-byte length, then them.
pub const RAW: u8 = 1;
/// Sends a packet made of choices; takes its kind, how it is split, and the choices. CONNECT opens
/// the connection if it has to.
pub const PACKET: u8 = 2;
/// As above with one byte of it overwritten; takes its kind, where, by what, and the choices.
pub const DAMAGED: u8 = 3;
/// Acknowledges all that the client got.
pub const ACKNOWLEDGE: u8 = 4;
/// The network ends the connection.
pub const CUT: u8 = 5;
/// The client stops or goes on reading; takes a byte.
pub const STUCK: u8 = 6;
/// The authentication port answers; takes a byte.
pub const VERDICT: u8 = 7;
/// Delivers letters of a shard; takes a byte: how many.
pub const MAIL: u8 = 8;
/// Time passes.
pub const PASS: u8 = 9;
/// Memory is short at a shard, or is not; takes a byte.
pub const PRESSED: u8 = 10;

/// Bytes that RAW sends at most.
pub const RAW_BYTES_MAX: usize = 2047;

/// How many steps there are; PACKET stands for what is left of sixteen.
const STEPS: u8 = 11;

/// Connections at once.
pub const CONNECTIONS: u8 = 8;

/// Lets one second pass.
pub const WAIT_1_S: [u8; 1] = [(PASS << 3) | 1];

/// The step in which shard 0 accepts connection `at`.
pub const fn open(at: u8) -> [u8; 2] {
    [(OPEN << 3) | (at % CONNECTIONS), 0]
}

/// The step in which up to 16 letters of a shard are delivered.
pub const fn letters(shard: u8) -> [u8; 2] {
    [(MAIL << 3) | shard, 15]
}

/// The step in which connection `at` is cut.
pub const fn cut(at: u8) -> [u8; 1] {
    [(CUT << 3) | (at % CONNECTIONS)]
}

/// The step in which connection `at` sends the first 2,047 of `bytes`.
pub fn raw(at: u8, bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().min(RAW_BYTES_MAX)];
    let [high, low] = (bytes.len() as u16).to_be_bytes();
    [&[(RAW << 3) | (at % CONNECTIONS), high, low], bytes].concat()
}

/// What is left of a script.
#[derive(Debug)]
pub struct Script<'a> {
    rest: &'a [u8],
}

impl<'a> Script<'a> {
    /// The whole of it.
    pub const fn new(input: &'a [u8]) -> Self {
        Self { rest: input }
    }

    /// The next step, and which connection it is about.
    pub fn step(&mut self) -> Option<(u8, u8)> {
        let byte = self.byte()?;
        let step = byte >> 3 & 0x0F;
        Some((if step < STEPS { step } else { PACKET }, byte % CONNECTIONS))
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    /// The next two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.byte()?, self.byte()?]))
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        Some(all[usize::from(self.byte()?) % all.len()])
    }

    /// The next bytes, or what is left.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        bytes
    }
}
