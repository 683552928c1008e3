//! `weir token`: who may ask a broker over HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::ValueEnum;
use weir_broker::TokenConfig;
use weir_control::{Role, TokenHash};
use weir_say::{note, say};

/// Make a token for the HTTP API of a broker, for [[control.token]]
///
/// The token goes to standard error, and is shown this once. The table for the broker's file, which
/// has only a hash of it, goes to standard output: `weir token NAME >> weir.toml` appends it.
/// Whoever has the token sends it in the header Authorization: Bearer TOKEN.
#[derive(Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// Whose it is to be: the log says who changed what
    #[arg(value_name = "NAME")]
    name: String,
    /// What its owner may do
    #[arg(long, value_name = "ROLE", default_value = "viewer")]
    role: RoleArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RoleArg {
    /// Look at everything, and change nothing
    Viewer,
    /// Everything
    Admin,
}

pub(crate) fn run(args: &TokenArgs) -> anyhow::Result<()> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    let token = URL_SAFE_NO_PAD.encode(bytes);
    let table = TokenConfig {
        name: args.name.clone(),
        role: match args.role {
            RoleArg::Viewer => Role::Viewer,
            RoleArg::Admin => Role::Admin,
        },
        sha256: TokenHash::of(&token).to_string(),
    };
    note!("the token, which nobody can show again:\n\n    {token}\n");
    say!("[[control.token]]\n{}", toml::to_string(&table)?);
    Ok(())
}
