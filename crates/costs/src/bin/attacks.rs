//! What others feel of one client that asks for as much as it can: `attacks`.

use procfs::process::Process;
use weir_costs::attacks::{ATTACKS, Felt};

fn main() -> anyhow::Result<()> {
    println!(
        "{:>14} {:>14} {:>14} {:>9} {:>8}",
        "turn max us", "victim p99 us", "victim max us", "seconds", "MB more"
    );
    for attack in ATTACKS {
        let (before, during, bytes) = attack.run(|| resident().unwrap_or_default());
        println!("{}", attack.name);
        row("before", before, None);
        row("during", during, Some(bytes));
    }
    Ok(())
}

fn row(name: &str, felt: Felt, bytes: Option<u64>) {
    let Felt { turn_us_max, latency_us_p99, latency_us_max, seconds } = felt;
    let bytes = bytes.map_or(String::new(), |bytes| format!("{:.1}", bytes as f64 / 1e6));
    println!(
        "{turn_us_max:>14.0} {latency_us_p99:>14.1} {latency_us_max:>14.0} {seconds:>9.2} \
         {bytes:>8} {name}"
    );
}

fn resident() -> anyhow::Result<u64> {
    Ok(Process::myself()?.statm()?.resident * procfs::page_size())
}
