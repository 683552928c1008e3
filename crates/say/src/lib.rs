//! Printing to standard output and standard error that ends nothing.
//!
//! The standard library's `println!` and `eprintln!` panic where nobody reads, or the disk behind
//! is full. A reader that has gone away, such as `head`, is no failure: what a command does and
//! keeps is done all the same. Another failure of standard output is kept for the end of the
//! program: [`failure`]. `cargo xtask tidy` sees to it that what is shipped prints with this.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::OnceLock;

/// Prints to standard output.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::to_stdout(format_args!($($text)*)) };
}

/// Prints a line to standard output.
#[macro_export]
macro_rules! sayln {
    ($($text:tt)*) => { $crate::to_stdout(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints to standard error, if somebody reads it.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => { $crate::to_stderr(format_args!($($text)*)) };
}

/// Prints a line to standard error, if somebody reads it.
#[macro_export]
macro_rules! noteln {
    ($($text:tt)*) => { $crate::to_stderr(format_args!("{}\n", format_args!($($text)*))) };
}

/// What [`say!`] does.
pub fn to_stdout(text: Arguments<'_>) {
    PRINTED.keep(io::stdout().write_fmt(text));
}

/// What [`note!`] does: all of it at once, since other processes may write there too.
pub fn to_stderr(text: Arguments<'_>) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Whether what is printed to standard output may still be read: else a long list need not go on.
pub fn is_read() -> bool {
    PRINTED.failure.get().is_none()
}

/// Why something could not be written to standard output, but for a reader that has gone away.
pub fn failure() -> Option<&'static io::Error> {
    // What is not the end of a line may still wait.
    PRINTED.keep(io::stdout().flush());
    PRINTED.fault()
}

static PRINTED: Printed = Printed { failure: OnceLock::new() };

/// What became of what was printed.
struct Printed {
    /// The first time that it could not be.
    failure: OnceLock<io::Error>,
}

impl Printed {
    fn keep(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failure.get_or_init(|| error);
        }
    }

    fn fault(&self) -> Option<&io::Error> {
        self.failure.get().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_no_fault_and_a_full_disk_is_one() {
        for (kind, is_fault) in
            [(io::ErrorKind::BrokenPipe, false), (io::ErrorKind::StorageFull, true)]
        {
            let printed = Printed { failure: OnceLock::new() };
            printed.keep(Ok(()));
            assert!(printed.failure.get().is_none());
            printed.keep(Err(kind.into()));
            printed.keep(Err(io::ErrorKind::Other.into()));
            assert_eq!(printed.failure.get().map(io::Error::kind), Some(kind));
            assert_eq!(printed.fault().is_some(), is_fault);
        }
    }
}
