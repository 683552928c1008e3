//! Checks of the house that no compiler makes. `cargo xtask tidy` runs them all.

mod functions;
mod tidy;

fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy::run(),
        _ => anyhow::bail!("usage: cargo xtask tidy"),
    }
}
