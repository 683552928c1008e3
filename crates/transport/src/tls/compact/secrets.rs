//! The traffic secrets of one connection, which rustls tells whoever logs keys and nobody else.

use super::keys::SECRET_BYTES_MAX;
use rustls::KeyLog;
use std::fmt;
use std::sync::OnceLock;
use zeroize::Zeroizing;

/// Of both directions, once there are some. Each connection has its own, which no environment
/// variable and no file sees.
#[derive(Default)]
pub(in crate::tls) struct Secrets {
    client: OnceLock<Secret>,
    server: OnceLock<Secret>,
}

struct Secret(Zeroizing<[u8; SECRET_BYTES_MAX]>, usize);

impl Secret {
    fn bytes(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

impl Secrets {
    pub(super) fn client(&self) -> Option<&[u8]> {
        self.client.get().map(Secret::bytes)
    }

    pub(super) fn server(&self) -> Option<&[u8]> {
        self.server.get().map(Secret::bytes)
    }

    fn place(&self, label: &str) -> Option<&OnceLock<Secret>> {
        match label {
            "CLIENT_TRAFFIC_SECRET_0" => Some(&self.client),
            "SERVER_TRAFFIC_SECRET_0" => Some(&self.server),
            _ => None,
        }
    }
}

impl KeyLog for Secrets {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let Some(place) = self.place(label) else { return };
        let mut bytes = Zeroizing::new([0; SECRET_BYTES_MAX]);
        if let Some(start) = bytes.get_mut(..secret.len()) {
            start.copy_from_slice(secret);
            // There is one of each label in a handshake.
            let _ = place.set(Secret(bytes, secret.len()));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        self.place(label).is_some()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Secrets").finish_non_exhaustive()
    }
}
