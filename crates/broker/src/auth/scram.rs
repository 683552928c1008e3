//! SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding: the server's side, and what a client
//! answers.
//!
//! A user's password is not kept: a [`Verifier`] holds what the exchange needs. User names and
//! passwords are compared as they are, without stringprep.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

type Key = [u8; 32];

/// Rounds of PBKDF2 for new verifiers; RFC 7677 asks for at least 4096.
const ITERATIONS: u32 = 4096;

/// Bytes of the salt of new verifiers.
const SALT_BYTES: usize = 16;

/// What the server knows of a user's password: `SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER`, the
/// last three in base64. PostgreSQL writes it the same way.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: Key,
    server_key: Key,
}

/// A text that is no verifier.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a verifier is SCRAM-SHA-256$ITERATIONS:SALT$STORED:SERVER")]
pub struct VerifierError;

impl Verifier {
    /// For `password`, with a random salt.
    ///
    /// # Errors
    /// What the system says of its random source.
    pub fn generate(password: &str) -> std::io::Result<Self> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt)?;
        Ok(Self::new(password, &salt, ITERATIONS))
    }

    pub(crate) fn new(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), salt, iterations);
        let stored_key = Sha256::digest(hmac(&salted, b"Client Key")).into();
        let server_key = hmac(&salted, b"Server Key");
        Self { iterations, salt: salt.to_vec(), stored_key, server_key }
    }

    /// What a challenge shows of it.
    pub(crate) fn shown(&self) -> Shown {
        Shown { iterations: self.iterations, salt_bytes: self.salt.len() }
    }

    /// Of a user that does not exist: always the same for a name, and no password fits. It looks
    /// like one of `others`, who do.
    pub(crate) fn of_nobody(secret: &Key, user: &str, others: &[Shown]) -> Self {
        // Not what the salt is made of, which everybody sees.
        let code = hmac(&hmac(secret, b"whom a user that is not there is like"), user.as_bytes());
        let number = u32::from_be_bytes([code[0], code[1], code[2], code[3]]) as usize;
        let like = others.get(number % others.len().max(1)).copied();
        let Shown { iterations, salt_bytes } =
            like.unwrap_or(Shown { iterations: ITERATIONS, salt_bytes: SALT_BYTES });
        let blocks = std::iter::successors(Some(hmac(secret, user.as_bytes())), |block| {
            Some(hmac(secret, block))
        });
        let salt = blocks.flatten().take(salt_bytes).collect();
        let stored_key = hmac(secret, b"no key has this hash");
        Self { iterations, salt, stored_key, server_key: *secret }
    }
}

/// What a client learns of a verifier before it has proven anything, but for the salt itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    iterations: u32,
    salt_bytes: usize,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Verifier")
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { iterations, salt, stored_key, server_key } = self;
        let [salt, stored, server] =
            [&salt[..], stored_key, server_key].map(|bytes| STANDARD.encode(bytes));
        write!(out, "SCRAM-SHA-256${iterations}:{salt}${stored}:{server}")
    }
}

impl FromStr for Verifier {
    type Err = VerifierError;

    fn from_str(text: &str) -> Result<Self, VerifierError> {
        let parse = || {
            let mut parts = text.splitn(3, '$');
            let ("SCRAM-SHA-256", cost, keys) = (parts.next()?, parts.next()?, parts.next()?)
            else {
                return None;
            };
            let ((iterations, salt), (stored, server)) =
                (cost.split_once(':')?, keys.split_once(':')?);
            let key = |text: &str| Key::try_from(STANDARD.decode(text).ok()?).ok();
            Some(Self {
                iterations: iterations.parse().ok().filter(|&count| count > 0)?,
                salt: STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?,
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        parse().ok_or(VerifierError)
    }
}

/// `client-first-message`.
pub(super) struct ClientFirst {
    pub(super) user: String,
    nonce: String,
    /// The header before it, which `client-final-message` repeats.
    header: String,
    /// All after the header: part of what is signed.
    bare: String,
}

impl ClientFirst {
    pub(super) fn parse(data: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        // `n` or `y`: the client does not bind to a channel. No other identity is taken.
        let bare = text.strip_prefix("n,,").or_else(|| text.strip_prefix("y,,"))?;
        let mut parts = bare.split(',');
        let user = unescape(parts.next()?.strip_prefix("n=")?)?;
        let nonce = parts.next()?.strip_prefix("r=")?;
        let is_valid = !user.is_empty() && !nonce.is_empty();
        is_valid.then(|| Self {
            user,
            nonce: nonce.into(),
            header: text[..3].into(),
            bare: bare.into(),
        })
    }
}

/// `client-final-message`.
pub(super) struct ClientFinal<'a> {
    binding: &'a str,
    nonce: &'a str,
    proof: Key,
    /// All before the proof: part of what is signed.
    unproven: &'a str,
}

impl<'a> ClientFinal<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let (unproven, proof) = text.rsplit_once(",p=")?;
        let mut parts = unproven.split(',');
        Some(Self {
            binding: parts.next()?.strip_prefix("c=")?,
            nonce: parts.next()?.strip_prefix("r=")?,
            proof: Key::try_from(STANDARD.decode(proof).ok()?).ok()?,
            unproven,
        })
    }
}

/// One client's exchange, after `client-first-message`.
pub(super) struct Exchange {
    first: ClientFirst,
    verifier: Verifier,
    /// The client's part and ours.
    nonce: String,
}

impl Exchange {
    pub(super) fn new(first: ClientFirst, verifier: Verifier, random: &[u8]) -> Self {
        let nonce = format!("{}{}", first.nonce, STANDARD.encode(random));
        Self { first, verifier, nonce }
    }

    /// The user that the client claims to be.
    pub(super) fn user(&self) -> &str {
        &self.first.user
    }

    /// `server-first-message`.
    pub(super) fn server_first(&self) -> String {
        let Verifier { salt, iterations, .. } = &self.verifier;
        format!("r={},s={},i={iterations}", self.nonce, STANDARD.encode(salt))
    }

    /// `server-final-message`, if the proof is right.
    pub(super) fn finish(&self, last: &ClientFinal<'_>) -> Option<String> {
        let is_same = last.nonce == self.nonce
            && STANDARD.decode(last.binding).ok()? == self.first.header.as_bytes();
        if !is_same {
            return None;
        }
        let signed = format!("{},{},{}", self.first.bare, self.server_first(), last.unproven);
        let signature = hmac(&self.verifier.stored_key, signed.as_bytes());
        let client_key = xor(&last.proof, &signature);
        // Hashes are compared, so how long it takes tells nothing of the key.
        if Key::from(Sha256::digest(client_key)) != self.verifier.stored_key {
            return None;
        }
        let server_signature = hmac(&self.verifier.server_key, signed.as_bytes());
        Some(format!("v={}", STANDARD.encode(server_signature)))
    }
}

pub(super) fn hmac(key: &[u8], message: &[u8]) -> Key {
    #[cfg(test)]
    super::tally::note();
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

fn xor(a: &Key, b: &Key) -> Key {
    std::array::from_fn(|at| a[at] ^ b[at])
}

/// A user name with its commas and equal signs back.
fn unescape(name: &str) -> Option<String> {
    let plain = name.replace("=2C", ",");
    // Every other `=` must be the one of `=3D`.
    let is_valid = name.replace("=2C", "").replace("=3D", "").find('=').is_none();
    is_valid.then(|| plain.replace("=3D", "="))
}

/// `client-final-message` of a client that answers `server_first`, having sent
/// `n,,n=USER,r=NONCE`; nothing if that is no challenge.
pub fn client_final(
    user: &str,
    password: &str,
    nonce: &str,
    server_first: &[u8],
) -> Option<String> {
    let server_first = std::str::from_utf8(server_first).ok()?;
    let mut parts = server_first.split(',');
    let full_nonce = parts.next()?.strip_prefix("r=")?;
    let salt = STANDARD.decode(parts.next()?.strip_prefix("s=")?).ok()?;
    let rounds = parts.next()?.strip_prefix("i=")?.parse().ok()?;
    let salted = pbkdf2::pbkdf2_hmac_array::<Sha256, 32>(password.as_bytes(), &salt, rounds);
    let client_key = hmac(&salted, b"Client Key");
    let unproven = format!("c=biws,r={full_nonce}");
    let signed = format!("n={user},r={nonce},{server_first},{unproven}");
    let signature = hmac(&Key::from(Sha256::digest(client_key)), signed.as_bytes());
    Some(format!("{unproven},p={}", STANDARD.encode(xor(&client_key, &signature))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc_is_accepted() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::new("pencil", &salt, 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        assert_eq!(first.user, "user");
        let mut exchange = Exchange::new(first, verifier, b"");
        exchange.nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".into();
        let last = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
            p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        let server_final = exchange.finish(&ClientFinal::parse(last).unwrap());
        let expected = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(server_final.as_deref(), Some(expected));
    }

    #[test]
    fn a_wrong_nonce_binding_or_proof_is_refused() {
        let verifier = Verifier::new("pencil", &[1; 16], 4096);
        let first = ClientFirst::parse(b"n,,n=user,r=abc").unwrap();
        let exchange = Exchange::new(first, verifier, b"def");
        let right =
            client_final("user", "pencil", "abc", exchange.server_first().as_bytes()).unwrap();
        let finish = |text: &str| exchange.finish(&ClientFinal::parse(text.as_bytes()).unwrap());
        assert!(finish(&right).is_some());
        assert_eq!(finish(&right.replace("r=abc", "r=abd")), None);
        assert_eq!(finish(&right.replace("c=biws", "c=eSws")), None);
        let wrong = client_final("user", "pencils", "abc", exchange.server_first().as_bytes());
        let wrong = wrong.unwrap();
        assert_eq!(finish(&wrong), None);
    }

    #[test]
    fn a_user_that_is_not_there_looks_like_one_of_those_that_are() {
        let shown = [(9_000, 40), (20_000, 8)]
            .map(|(rounds, bytes)| Verifier::new("x", &vec![1; bytes], rounds).shown());
        let made_up = |nth: u32| Verifier::of_nobody(&[7; 32], &nth.to_string(), &shown);
        let like = |shown| (0..64).filter(|&nth| made_up(nth).shown() == shown).count();
        let likes = shown.map(like);
        assert!(likes[0] > 0 && likes[1] > 0 && likes.iter().sum::<usize>() == 64, "{likes:?}");
        assert_eq!(made_up(1), made_up(1));
    }

    #[test]
    fn a_verifier_reads_back_what_it_wrote() {
        let verifier = Verifier::generate("pencil").unwrap();
        assert_eq!(verifier.to_string().parse(), Ok(verifier));
        for text in ["", "SCRAM-SHA-256$4096:AA==$x:y", "SCRAM-SHA-1$1:AA==$AA==:AA=="] {
            assert_eq!(text.parse::<Verifier>(), Err(VerifierError));
        }
    }

    #[test]
    fn a_user_name_may_hold_commas_and_equal_signs_only_escaped() {
        assert_eq!(unescape("a=2Cb=3Dc").as_deref(), Some("a,b=c"));
        assert_eq!(unescape("a=b"), None);
        assert_eq!(unescape("=3D2C").as_deref(), Some("=2C"));
    }
}
