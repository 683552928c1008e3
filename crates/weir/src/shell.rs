//! What a shell and `man` need to know of the program, and which tips of clap's are any use.

use anyhow::Context;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command};
use clap_complete::Shell;
use std::path::PathBuf;
use weir_bench::near::nearest;
use weir_say::say;

const COMPLETIONS_EXAMPLES: &str = "Examples:
  weir completions bash > ~/.local/share/bash-completion/completions/weir
  weir completions zsh > ~/.zfunc/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// Print a script that completes weir's options in a shell
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Write the manual pages of weir and all its subcommands into a folder
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for them, such as ~/.local/share/man/man1
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "weir", &mut script);
    say!("{}", String::from_utf8_lossy(&script));
}

pub(crate) fn man(args: &ManArgs, command: Command) -> anyhow::Result<()> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make {folder}"))?;
    clap_mangen::generate_to(command, &args.folder)
        .with_context(|| format!("cannot write the manual pages into {folder}"))
}

/// Takes out a tip that names something quite different from what was typed: clap calls `--file`
/// similar to `--cafile`.
pub(crate) fn without_far_tips(mut error: clap::Error) -> clap::Error {
    for (typed, tip) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        let Some(ContextValue::String(name)) = error.get(typed).cloned() else { continue };
        let tips = match error.get(tip) {
            Some(ContextValue::String(one)) => vec![one.clone()],
            Some(ContextValue::Strings(all)) => all.clone(),
            _ => continue,
        };
        if nearest(&name, tips.iter().map(String::as_str)).is_none() {
            error.remove(tip);
            // It shows how to use what the tip named.
            error.remove(ContextKind::Usage);
        }
    }
    error
}
