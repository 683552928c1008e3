//! User name and password in every CONNECT, for a broker that asks for them.

use crate::varint::{self, Found};

const CONNECT: u8 = 0x10;
/// Flags of CONNECT.
const USER_NAME: u8 = 0x80;
const PASSWORD: u8 = 0x40;

/// Who the clients of the cases say they are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials {
    /// None: the bytes stay as they are.
    pub user_name: Option<String>,
    /// Only with a user name.
    pub password: Option<String>,
}

/// Without the password.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("user_name", &self.user_name).finish_non_exhaustive()
    }
}

impl Credentials {
    /// The bytes with these credentials in the CONNECT that they begin with. What is no whole
    /// CONNECT, or has credentials of its own, stays as it is: that is what its case is about.
    pub fn present(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.presented(&bytes).unwrap_or(bytes)
    }

    fn presented(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let user_name = self.user_name.as_ref()?;
        let (&first, rest) = bytes.split_first()?;
        let Found::Value(length, used) = varint::read(rest) else { return None };
        let mut body = rest.get(used..used + length).filter(|_| first == CONNECT)?.to_vec();
        let name_bytes = usize::from(u16::from_be_bytes([*body.first()?, *body.get(1)?]));
        // After the protocol name and its level.
        let flags = body.get_mut(2 + name_bytes + 1)?;
        if *flags & (USER_NAME | PASSWORD) != 0 {
            return None;
        }
        *flags |= USER_NAME | if self.password.is_some() { PASSWORD } else { 0 };
        for text in [Some(user_name), self.password.as_ref()].into_iter().flatten() {
            body.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
            body.extend(text.as_bytes());
        }
        let mut presented = vec![CONNECT];
        varint::put(body.len(), &mut presented)?;
        presented.extend(body);
        presented.extend(&rest[used + length..]);
        Some(presented)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_connect_gets_them_and_all_else_stays() {
        let one = |user_name: &str, password: Option<&str>| Credentials {
            user_name: Some(user_name.into()),
            password: password.map(Into::into),
        };
        let connect = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a\xc0\x00".to_vec();
        let with_both = b"\x10\x13\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01a\x00\x01u\x00\x01p\xc0\x00";
        assert_eq!(one("u", Some("p")).present(connect.clone()), with_both);
        let with_name = b"\x10\x10\x00\x04MQTT\x04\x82\x00\x3c\x00\x01a\x00\x01u\xc0\x00";
        assert_eq!(one("u", None).present(connect.clone()), with_name);
        assert_eq!(Credentials::default().present(connect.clone()), connect);
        for other in [&with_both[..], &connect[..9], b"\xc0\x00", b"\x10\x02\x00\x04", b""] {
            assert_eq!(one("u", Some("p")).present(other.to_vec()), other);
        }
    }
}
