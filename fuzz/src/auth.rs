//! What the broker makes of files that say who may come in: its own modules, without the rest of it,
//! which would take longer to build than all other targets.

#![expect(dead_code, reason = "the broker uses the rest")]

#[path = "../../crates/broker/src/auth/acl.rs"]
mod acl;
#[path = "../../crates/broker/src/auth/bans.rs"]
mod bans;
#[path = "../../crates/broker/src/auth/passwords.rs"]
mod passwords;
#[path = "../../crates/broker/src/auth/scram.rs"]
mod scram;

pub use acl::check_rights;
pub use bans::check_bans;
pub use passwords::check_passwords;
