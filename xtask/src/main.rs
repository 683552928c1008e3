//! Checks of the house that no compiler makes: `cargo xtask tidy`; the page that says what tests
//! each statement of the standards: `cargo xtask coverage`; the instructions that one operation of
//! the hot paths takes: `cargo xtask costs`.

mod costs;
mod coverage;
mod functions;
mod tidy;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["coverage"] => coverage::run(false),
        ["coverage", "--check"] => coverage::run(true),
        ["costs"] => costs::run(costs::Mode::Show),
        ["costs", "--check"] => costs::run(costs::Mode::Check),
        ["costs", "--keep"] => costs::run(costs::Mode::Keep),
        _ => anyhow::bail!("usage: cargo xtask tidy | coverage [--check] | costs [--check|--keep]"),
    }
}
