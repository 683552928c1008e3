//! The end that a person, or who manages the process, asks for.

use std::io;

/// Calls `stop` at each SIGINT and SIGTERM, on a thread of its own. It says whether it was asked
/// before: then the process ends at once.
///
/// # Errors
/// What the system says of handlers and threads.
pub fn obey_signals(mut stop: impl FnMut() -> bool + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            if stop() {
                std::process::exit(128 + signal);
            }
        }
    })?;
    Ok(())
}
