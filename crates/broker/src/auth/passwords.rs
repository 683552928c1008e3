//! A file of passwords: a line a user, as Mosquitto's `mosquitto_passwd` and `weir passwd` write
//! it.
//!
//! No line has a password: each has a hash of one, made slow to guess. So checking one is slow as
//! well, and is done by the hasher ([`super::hasher`]).

use super::scram::hmac;
use argon2::password_hash::{self, PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Argon2, Params};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha512};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// More rounds of PBKDF2 would hold the hasher for seconds.
const ROUNDS_MAX: u32 = 10_000_000;

/// The same for Argon2: memory in KiB, and passes over it.
const ARGON2_KIB_MAX: u32 = 1024 * 1024;
const ARGON2_PASSES_MAX: u32 = 64;

/// Every user of a file, and a hash of its password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passwords {
    /// Where each user's hash is.
    users: BTreeMap<String, usize>,
    /// In a list, so that finding one to stand in takes as long for each.
    hashes: Vec<Hash>,
}

/// A line that is none of a password file.
#[derive(Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Which, from 1 on.
    pub line: usize,
    /// What is wrong there.
    pub message: String,
}

impl Passwords {
    /// Those of a file's text.
    ///
    /// # Errors
    /// The first line that cannot be used.
    pub(super) fn parse(text: &str) -> Result<Self, BadLine> {
        let (mut users, mut hashes) = (BTreeMap::new(), Vec::new());
        for (line, text) in (1..).zip(text.lines()) {
            let bad = |message: String| BadLine { line, message };
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (user, hash) = text
                .split_once(':')
                .map(|(user, hash)| (user.trim(), hash.trim()))
                .filter(|(user, _)| !user.is_empty())
                .ok_or_else(|| bad("a line is USER:HASH, as weir passwd writes it".into()))?;
            let hash = hash.parse().map_err(|NoHash(why)| bad(format!("{user}: {why}")))?;
            if users.insert(user.to_owned(), hashes.len()).is_some() {
                return Err(bad(format!("{user}: the user has a line above")));
            }
            hashes.push(hash);
        }
        Ok(Self { users, hashes })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    pub(super) fn has(&self, user: &str) -> bool {
        self.users.contains_key(user)
    }

    /// Whether it is the user's password. For a user that is not there it takes as long as for one
    /// that is: `secret` says which.
    pub(super) fn fit(&self, secret: &[u8; 32], user: &str, password: &[u8]) -> bool {
        let (own, other) = (self.hash(user), self.stand_in(secret, user));
        let fits = own.or(other).is_some_and(|hash| hash.fits(password));
        std::hint::black_box(fits) && own.is_some()
    }

    fn hash(&self, user: &str) -> Option<&Hash> {
        self.hashes.get(*self.users.get(user)?)
    }

    fn stand_in(&self, secret: &[u8; 32], user: &str) -> Option<&Hash> {
        let code = hmac(secret, user.as_bytes());
        let number = u32::from_be_bytes([code[0], code[1], code[2], code[3]]) as usize;
        self.hashes.get(number % self.hashes.len().max(1))
    }

    /// The users whose password is another in `new`, or that are not there.
    pub(crate) fn changed<'a>(&'a self, new: &'a Self) -> impl Iterator<Item = &'a str> {
        self.users.keys().map(|user| &**user).filter(|user| self.hash(user) != new.hash(user))
    }
}

/// What a file has of a password.
#[derive(Clone, PartialEq, Eq)]
enum Hash {
    /// Mosquitto's up to 1.6: one round.
    Sha512 { salt: Vec<u8>, hash: [u8; 64] },
    /// Mosquitto's.
    Pbkdf2 { rounds: u32, salt: Vec<u8>, hash: [u8; 64] },
    /// Weir's, as the PHC string format has it.
    Argon2(String),
}

/// A text that is no hash, and why.
struct NoHash(&'static str);

impl Hash {
    fn fits(&self, password: &[u8]) -> bool {
        #[cfg(test)]
        super::tally::note();
        match self {
            Self::Sha512 { salt, hash } => {
                let digest: [u8; 64] =
                    Sha512::new().chain_update(password).chain_update(salt).finalize().into();
                is_same(&digest, hash)
            }
            Self::Pbkdf2 { rounds, salt, hash } => {
                let digest = pbkdf2::pbkdf2_hmac_array::<Sha512, 64>(password, salt, *rounds);
                is_same(&digest, hash)
            }
            Self::Argon2(text) => PasswordHash::new(text)
                .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
        }
    }
}

/// Compares in the same time wherever they differ.
fn is_same(one: &[u8; 64], other: &[u8; 64]) -> bool {
    one.iter().zip(other).fold(0, |differs, (one, other)| differs | (one ^ other)) == 0
}

impl fmt::Debug for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Hash")
    }
}

impl FromStr for Hash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        if text.starts_with("$argon2") {
            return argon2(text);
        }
        let salted = |parts: [&str; 2]| {
            let [salt, hash] = parts.map(|part| STANDARD.decode(part).ok());
            salt.filter(|salt| !salt.is_empty()).zip(hash?.try_into().ok())
        };
        let torn = NoHash("salt or hash is not what mosquitto_passwd writes");
        match *text.split('$').collect::<Vec<_>>() {
            ["", "6", salt, hash] => {
                salted([salt, hash]).map(|(salt, hash)| Self::Sha512 { salt, hash }).ok_or(torn)
            }
            ["", "7", rounds, salt, hash] => {
                let rounds = rounds.parse().ok().filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
                let rounds = rounds.ok_or(NoHash("the rounds must be 1 to 10,000,000"))?;
                let (salt, hash) = salted([salt, hash]).ok_or(torn)?;
                Ok(Self::Pbkdf2 { rounds, salt, hash })
            }
            _ => Err(NoHash(
                "the hash begins with none of $argon2id$, $7$ and $6$; weir passwd makes one",
            )),
        }
    }
}

fn argon2(text: &str) -> Result<Hash, NoHash> {
    let broken = |_| NoHash("the Argon2 hash is not in the PHC string format");
    let hash = PasswordHash::new(text).map_err(broken)?;
    // More lanes than the crate knows are one multiplication too many for it.
    if hash.params.get_decimal("p").is_some_and(|lanes| lanes > Params::MAX_P_COST) {
        return Err(NoHash("Argon2 has less than 2^24 lanes"));
    }
    let params = Params::try_from(&hash).map_err(broken)?;
    if hash.salt.is_none() || hash.hash.is_none() {
        return Err(NoHash("the Argon2 hash lacks its salt or itself"));
    }
    if params.m_cost() > ARGON2_KIB_MAX || params.t_cost() > ARGON2_PASSES_MAX {
        return Err(NoHash("Argon2 with more than 1 GiB or 64 passes is too costly"));
    }
    Ok(Hash::Argon2(text.into()))
}

/// Whether a text is that of a password file.
///
/// # Errors
/// The first line that cannot be used.
pub fn check_passwords(text: &str) -> Result<(), BadLine> {
    Passwords::parse(text).map(drop)
}

/// A hash of `password` for a password file, by Argon2id with a random salt.
///
/// # Errors
/// What the system says of its random source.
pub(super) fn hash_password(password: &[u8]) -> std::io::Result<String> {
    let other = |error: password_hash::Error| std::io::Error::other(error.to_string());
    let mut salt = [0; 16];
    getrandom::fill(&mut salt)?;
    let salt = SaltString::encode_b64(&salt).map_err(other)?;
    let hash = Argon2::default().hash_password(password, &salt).map_err(other)?;
    Ok(hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::tally;
    use super::*;

    /// As `mosquitto_passwd -b -H sha512 FILE ann a` and the same with `sha512-pbkdf2` wrote them.
    const MOSQUITTO: &str = "ann:$6$rTj6jBfEsRK4FNuX$\
        dr4NEBJIZuBYs7h8+QCnoUxlXfrxSZTREWy9yf/KSE4o10d+OCWr4GlJAckt\
        STO+g0ZTQBC4wSMKjMDuzmL7PA==\n\
        # a comment\n\n\
        bob:$7$101$LADnPZez7hfFDO3y$\
        HrjHx7iots6tTiUeeqbk8dNJxT8aaqt/cYLPKP6NrmR69PMc/5gBLzxccEhI\
        1UjmgpuArv96eOI4uOA20xiM/w==\n";

    fn check(passwords: &Passwords, user: &str, password: &str) -> bool {
        passwords.fit(&[7; 32], user, password.as_bytes())
    }

    #[test]
    fn lines_of_mosquitto_fit_the_passwords_that_they_were_made_of() {
        let passwords = Passwords::parse(MOSQUITTO).unwrap();
        assert!(check(&passwords, "ann", "a") && check(&passwords, "bob", "b"));
        for (user, password) in [("ann", "b"), ("ann", ""), ("bob", "a"), ("eve", "a")] {
            assert!(!check(&passwords, user, password), "{user} {password}");
        }
    }

    #[test]
    fn a_hash_of_ones_own_fits_and_no_two_are_the_same() {
        let hashes = [hash_password(b"pencil").unwrap(), hash_password(b"pencil").unwrap()];
        assert!(hashes[0].starts_with("$argon2id$") && hashes[0] != hashes[1]);
        let passwords = Passwords::parse(&format!("ann:{}", hashes[0])).unwrap();
        assert!(check(&passwords, "ann", "pencil") && !check(&passwords, "ann", "pen"));
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        for (text, line, named) in [
            ("ann", 1, "USER:HASH"),
            ("# x\n\n:$6$a$b", 3, "USER:HASH"),
            ("ann:plain", 1, "weir passwd"),
            ("ann:", 1, "weir passwd"),
            ("ann:$6$zz$!!", 1, "salt or hash"),
            ("ann:$7$0$AAAA$AAAA", 1, "rounds"),
            ("ann:$7$101$AAAA$AAAA", 1, "salt or hash"),
            ("ann:$argon2id$v=19$m=19456,t=2,p=1$AAAA", 1, "Argon2"),
            // Found by fuzzing: the crate multiplies it.
            ("Ee:$argon28$p=2444444448,t=44443", 1, "lanes"),
            (
                "ann:$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$AAAAAAAAAAAAAAAAAAAAAA",
                1,
                "costly",
            ),
        ] {
            let bad = Passwords::parse(text).unwrap_err();
            assert!(bad.line == line && bad.message.contains(named), "{text}: {bad:?}");
        }
        let twice = format!("{0}{0}", MOSQUITTO.lines().next().unwrap().to_owned() + "\n");
        assert_eq!(Passwords::parse(&twice).unwrap_err().line, 2);
    }

    #[test]
    fn a_user_that_is_not_there_is_hashed_for_by_the_same_user_each_time() {
        let passwords = Passwords::parse(MOSQUITTO).unwrap();
        let stand_in = |secret, user: &str| passwords.stand_in(&[secret; 32], user).cloned();
        assert!(stand_in(1, "eve").is_some());
        assert_eq!(stand_in(1, "eve"), stand_in(1, "eve"));
        let differ = (0..64).any(|at| stand_in(1, &at.to_string()) != stand_in(1, "eve"));
        assert!(differ, "one line stands in for all");
        assert_eq!(Passwords::default().stand_in(&[1; 32], "eve"), None);
    }

    #[test]
    fn a_user_that_is_not_there_takes_as_many_hashes_as_one_that_is() {
        let passwords = Passwords::parse(MOSQUITTO).unwrap();
        let work = |user| tally::during(|| check(&passwords, user, "x"));
        // One of the password, and one that says who would stand in.
        for user in ["ann", "bob", "eve", "mallory"] {
            assert_eq!(work(user), (false, 2), "{user}");
        }
    }

    #[test]
    fn who_is_gone_or_has_another_password_has_changed() {
        let old = Passwords::parse(MOSQUITTO).unwrap();
        let ann = MOSQUITTO.lines().next().unwrap();
        let new = Passwords::parse(ann).unwrap();
        assert_eq!(old.changed(&new).collect::<Vec<_>>(), ["bob"]);
        assert_eq!(new.changed(&old).count(), 0);
    }
}
