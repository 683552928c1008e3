//! Mosquitto's persistence file, `mosquitto.db`, of format 5 (Mosquitto 1.6) and 6 (2.0, 2.1): from
//! its bytes to records of Weir's log.
//!
//! [`Database::read`] takes the file apart and checks every length against the bytes that are
//! there; [`Database::tell`] tells of it as records. No I/O and no clock: `now` is an argument. The
//! file has 64-bit numbers in the order of the machine that wrote it, of which only little endian
//! is read.

mod chunk;
mod file;
mod records;
mod route;

pub use chunk::Malformed;
pub use file::Database;
pub use records::{Imported, LeftOut};
