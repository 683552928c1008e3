//! Runs tables from files against a broker that is already running:
//! `cargo run -p weir-conformance --example run -- HOST:PORT FILE.toml... [--only PART-OF-A-NAME]`

use anyhow::Context;
use weir_conformance::{Patience, Remote, Table, Verdict, probe, run_case};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().context("HOST:PORT is missing")?.parse()?;
    let (mut files, mut only) = (Vec::new(), String::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--only" => only = arguments.next().context("--only needs a part of a name")?,
            _ => files.push(argument),
        }
    }
    let mut broker = Remote::tcp(address, Patience::default());
    let run = format!("{:04x}", std::process::id() & 0xFFFF);
    let offers = probe(&mut broker, &format!("{run}p")).map_err(anyhow::Error::msg)?;
    let (mut count, mut failed) = (0, 0);
    for file in files {
        let table = Table::parse(&file, &std::fs::read_to_string(&file)?)?;
        for case in table.cases.iter().filter(|case| case.name.contains(&only)) {
            for &version in &case.versions {
                count += 1;
                let unique = format!("{run}{count}");
                let outcome = run_case(case, version, &unique, &offers, &mut broker);
                let name = &case.name;
                match outcome.verdict {
                    Verdict::Pass => println!("pass  {version:5} {name}"),
                    Verdict::Skip { why } => println!("skip  {version:5} {name}: {why}"),
                    Verdict::Fail { step, why } => {
                        failed += 1;
                        println!("FAIL  {version:5} {name}\n      at: {step}\n      {why}");
                    }
                }
            }
        }
    }
    println!("{count} cases, {failed} failed");
    Ok(())
}
