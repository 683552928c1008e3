//! `weir pub` and `weir sub`: clients at the shell.

use std::process::ExitCode;
use weir_pubsub::{Error, PubArgs, SubArgs};
use weir_say::noteln;

pub(crate) fn publish(args: &PubArgs) -> ExitCode {
    told(args.is_quiet(), weir_pubsub::publish(args))
}

pub(crate) fn subscribe(args: &SubArgs) -> ExitCode {
    told(args.is_quiet(), weir_pubsub::subscribe(args))
}

fn told(is_quiet: bool, result: Result<(), Error>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if !is_quiet {
        noteln!("weir: {error}");
    }
    ExitCode::from(error.exit_code())
}
