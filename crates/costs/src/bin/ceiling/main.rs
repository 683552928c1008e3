//! How close a broker stays to its memory ceiling, by attack and number of shards: `ceiling`.

mod attacks;
mod broker;
mod client;
mod witness;

use attacks::ATTACKS;
use broker::Broker;
use clap::Parser;
use std::io::Write as _;

/// Attacks a broker's memory, and prints the most that it was seen with in percent of its ceiling.
#[derive(Parser)]
struct Arguments {
    /// The program to start as `PROGRAM broker`.
    #[arg(default_value = "target/release/weir")]
    program: String,
    /// The ceiling in MiB.
    #[arg(long, default_value_t = 64)]
    mib: u64,
    /// Numbers of shards.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8])]
    shards: Vec<u16>,
    /// How often each is tried.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Only the attacks with this in their name.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> anyhow::Result<()> {
    let Arguments { program, mib, shards, repeat, only } = Arguments::parse();
    let ceiling_bytes = mib * 1024 * 1024;
    println!(
        "most memory in percent of {mib} MiB, each of {repeat} runs; messages acknowledged and lost"
    );
    for attack in ATTACKS.iter().filter(|attack| attack.name.contains(&only)) {
        println!("{}", attack.name);
        for &shards in &shards {
            print!("  {shards} shards:");
            let (mut acknowledged, mut lost) = (0, 0);
            for _ in 0..repeat {
                let config =
                    format!("shards = {shards}\n[process]\nmemory_bytes_max = {ceiling_bytes}\n");
                let broker = Broker::start(&program, &config)?;
                let seen = attack.run(&broker)?;
                acknowledged += seen.acknowledged;
                lost += seen.lost;
                print!(" {}", seen.most_bytes * 100 / ceiling_bytes);
                std::io::stdout().flush()?;
            }
            println!("; {acknowledged} acknowledged, {lost} lost");
        }
    }
    Ok(())
}
