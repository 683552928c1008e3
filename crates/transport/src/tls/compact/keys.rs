//! What one direction of a TLS 1.3 connection is sealed with, and how that follows from its traffic
//! secret (RFC 8446, sections 5.2, 5.3, 7.1 and 7.2).

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, Prk};
use rustls::ConnectionTrafficSecrets;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the longest secret: that of SHA-384.
pub(super) const SECRET_BYTES_MAX: usize = 48;

/// Bytes of the longest key.
const KEY_BYTES_MAX: usize = 32;

/// Bytes that a record ends with, in every suite.
pub(super) const TAG_BYTES: usize = 16;

/// A cipher suite of TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Aes128GcmSha256,
    Aes256GcmSha384,
    Chacha20Poly1305Sha256,
}

impl Suite {
    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128GcmSha256 => &aead::AES_128_GCM,
            Self::Aes256GcmSha384 => &aead::AES_256_GCM,
            Self::Chacha20Poly1305Sha256 => &aead::CHACHA20_POLY1305,
        }
    }

    fn hkdf(self) -> hkdf::Algorithm {
        match self {
            Self::Aes128GcmSha256 | Self::Chacha20Poly1305Sha256 => hkdf::HKDF_SHA256,
            Self::Aes256GcmSha384 => hkdf::HKDF_SHA384,
        }
    }

    fn secret_bytes(self) -> usize {
        match self {
            Self::Aes128GcmSha256 | Self::Chacha20Poly1305Sha256 => 32,
            Self::Aes256GcmSha384 => SECRET_BYTES_MAX,
        }
    }
}

/// The head of a record, which its tag vouches for.
pub(super) type Header = [u8; 5];

/// Of one direction, 64 bytes. Nothing is kept expanded: [`Keys::cipher`] does that for as long as
/// there is something to seal or to open.
pub(super) struct Keys {
    /// What the next keys follow from, and behind it the key if there is room for both; else it is
    /// derived when it is needed.
    secret: [u8; SECRET_BYTES_MAX],
    iv: [u8; aead::NONCE_LEN],
    /// Records that were sealed with this key.
    sequence: u32,
}

impl Keys {
    /// What follows from `secret`; nothing if that is not what rustls has come to as well, or if
    /// it has sealed too much already.
    pub(super) fn new(
        secret: &[u8],
        (sequence, theirs): (u64, &ConnectionTrafficSecrets),
    ) -> Option<(Self, Suite)> {
        let (suite, key, iv) = match theirs {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Suite::Aes128GcmSha256, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Suite::Aes256GcmSha384, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
                (Suite::Chacha20Poly1305Sha256, key, iv)
            }
            _ => return None,
        };
        if secret.len() != suite.secret_bytes() {
            return None;
        }
        let mut keys = Self::of(suite, secret);
        keys.sequence = u32::try_from(sequence).ok()?;
        let mut ours = Zeroizing::new([0; KEY_BYTES_MAX]);
        let is_theirs = keys.key(suite, &mut ours) == key.as_ref() && keys.iv == iv.as_ref();
        is_theirs.then_some((keys, suite))
    }

    /// What follows from the bytes that `secret` begins with, as many as the suite's secrets have.
    pub(super) fn of(suite: Suite, secret: &[u8]) -> Self {
        let mut keys = Self::blank();
        let bytes = suite.secret_bytes();
        keys.secret[..bytes].copy_from_slice(&secret[..bytes]);
        keys.derive(suite);
        keys
    }

    /// Without a secret.
    pub(super) fn blank() -> Self {
        Self { secret: [0; SECRET_BYTES_MAX], iv: [0; aead::NONCE_LEN], sequence: 0 }
    }

    pub(super) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Whether the count of records cannot go on.
    pub(super) fn is_worn(&self) -> bool {
        self.sequence == u32::MAX
    }

    /// The next keys, which the last ones do not follow from.
    pub(super) fn update(&mut self, suite: Suite) {
        let mut next = Zeroizing::new([0; SECRET_BYTES_MAX]);
        let next_secret = &mut next[..suite.secret_bytes()];
        expand_label(suite, self.secret(suite), b"traffic upd", next_secret);
        self.secret = *next;
        self.derive(suite);
        self.sequence = 0;
    }

    /// The key as the cipher wants it.
    pub(super) fn cipher(&self, suite: Suite) -> LessSafeKey {
        let mut memory = Zeroizing::new([0; KEY_BYTES_MAX]);
        let key = UnboundKey::new(suite.aead(), self.key(suite, &mut memory));
        LessSafeKey::new(key.expect("it is as long as the suite's keys are"))
    }

    /// Appends a record of `content`, which is of `kind`.
    pub(super) fn seal(
        &mut self,
        cipher: &LessSafeKey,
        kind: u8,
        content: &[u8],
        network: &mut Vec<u8>,
    ) {
        // Whoever seals takes the next keys long before.
        let Some(nonce) = self.next_nonce() else { return };
        let bytes = content.len() + 1 + TAG_BYTES;
        let [high, low] = (bytes as u16).to_be_bytes();
        let header: Header = [super::APPLICATION_DATA, 3, 3, high, low];
        network.reserve(header.len() + bytes);
        network.extend_from_slice(&header);
        let start = network.len();
        network.extend_from_slice(content);
        network.push(kind);
        let sealed =
            cipher.seal_in_place_separate_tag(nonce, Aad::from(header), &mut network[start..]);
        network.extend_from_slice(sealed.expect("a record is short").as_ref());
    }

    /// Appends what `sealed` has in it with kind and padding; nothing if somebody has changed it,
    /// or if this key has opened as much as it may.
    pub(super) fn open(
        &mut self,
        cipher: &LessSafeKey,
        header: Header,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<()> {
        let (sealed, tag) = sealed.split_at_checked(sealed.len().checked_sub(TAG_BYTES)?)?;
        let nonce = self.next_nonce()?;
        let start = plain.len();
        plain.resize(start + sealed.len(), 0);
        let opened =
            cipher.open_separate_gather(nonce, Aad::from(header), sealed, tag, &mut plain[start..]);
        opened.map_err(|_| plain.truncate(start)).ok()
    }

    /// Each of them once: the count of records goes into it.
    fn next_nonce(&mut self) -> Option<Nonce> {
        let sequence = self.sequence;
        self.sequence = sequence.checked_add(1)?;
        let mut nonce = self.iv;
        for (byte, count) in nonce[aead::NONCE_LEN - 4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        Some(Nonce::assume_unique_for_key(nonce))
    }

    fn derive(&mut self, suite: Suite) {
        let (secret, room) = self.secret.split_at_mut(suite.secret_bytes());
        expand_label(suite, secret, b"iv", &mut self.iv);
        if let Some(key) = room.get_mut(..suite.aead().key_len()) {
            expand_label(suite, secret, b"key", key);
        }
    }

    fn secret(&self, suite: Suite) -> &[u8] {
        &self.secret[..suite.secret_bytes()]
    }

    /// The one that is kept, or else one that is derived in `memory`.
    fn key<'a>(&'a self, suite: Suite, memory: &'a mut [u8; KEY_BYTES_MAX]) -> &'a [u8] {
        let (secret, room) = self.secret.split_at(suite.secret_bytes());
        let bytes = suite.aead().key_len();
        room.get(..bytes).unwrap_or_else(|| {
            expand_label(suite, secret, b"key", &mut memory[..bytes]);
            &memory[..bytes]
        })
    }

    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, sequence: u32) {
        self.sequence = sequence;
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.secret.zeroize();
        self.iv.zeroize();
    }
}

/// HKDF-Expand-Label without a context.
fn expand_label(suite: Suite, secret: &[u8], label: &[u8], out: &mut [u8]) {
    struct Bytes(usize);
    impl hkdf::KeyType for Bytes {
        fn len(&self) -> usize {
            self.0
        }
    }
    const PREFIX: &[u8] = b"tls13 ";
    let bytes = (out.len() as u16).to_be_bytes();
    let label_bytes = [(PREFIX.len() + label.len()) as u8];
    let info: [&[u8]; 5] = [&bytes, &label_bytes, PREFIX, label, &[0]];
    Prk::new_less_safe(suite.hkdf(), secret)
        .expand(&info, Bytes(out.len()))
        .and_then(|expanded| expanded.fill(out))
        .expect("HKDF gives more than the few bytes that are asked for");
}
