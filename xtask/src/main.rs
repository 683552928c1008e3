//! Checks of the house that no compiler makes: `cargo xtask tidy`, and the page that says what
//! tests each statement of the standards: `cargo xtask coverage`.

mod coverage;
mod functions;
mod tidy;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy::run(),
        ["coverage"] => coverage::run(false),
        ["coverage", "--check"] => coverage::run(true),
        _ => anyhow::bail!("usage: cargo xtask tidy | coverage [--check]"),
    }
}
