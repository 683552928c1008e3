//! `weir store salvage`.

use super::{DAMAGED, check, counted};
use std::path::PathBuf;
use std::process::ExitCode;
use weir_say::sayln;

#[derive(Debug, clap::Args)]
pub(super) struct SalvageArgs {
    /// The broker's folder
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Where to write what is whole, instead of beside the damaged generation: a folder without a
    /// store
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(super) fn run(args: &SalvageArgs) -> anyhow::Result<ExitCode> {
    let SalvageArgs { folder, to } = args;
    let salvaged = weir_broker::salvage(folder, to.as_deref(), |loss| sayln!("{loss}"))?;
    let Some(salvaged) = salvaged else {
        sayln!("{}: nothing is damaged, and nothing was done", folder.display());
        return Ok(ExitCode::SUCCESS);
    };
    let lines = counted(salvaged.losses, "line", "lines");
    sayln!("{lines} of what is damaged, lost or in doubt; kept: {}", check::amounts(salvaged.kept));
    match (salvaged.aside, to) {
        (Some(aside), _) => sayln!("the damaged generation is now {}", aside.display()),
        (None, Some(to)) => sayln!("start with: weir broker --store {}", to.display()),
        (None, None) => {}
    }
    Ok(ExitCode::from(DAMAGED))
}
