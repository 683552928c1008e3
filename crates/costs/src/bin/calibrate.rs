//! The raw costs of this machine in this minute: `calibrate [SOCKETS...]`.

use std::time::Duration;
use weir_costs::raw;

const SOCKETS: [usize; 3] = [100, 1000, 8000];
const DURATION: Duration = Duration::from_secs(2);

fn main() -> anyhow::Result<()> {
    let asked: Vec<usize> =
        std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let counts = if asked.is_empty() { SOCKETS.to_vec() } else { asked };
    println!("{:>8} {:>10} {:>10} {:>10} {:>10}", "sockets", "R us", "V us", "P us", "softirq us");
    for sockets in counts {
        let raw = raw::measure(sockets, DURATION, [0, 1])?;
        let [r, v, p, softirq] = [raw.send_us, raw.receive_us, raw.pair_us(), raw.softirq_us]
            .map(|us| format!("{us:.2}"));
        println!("{sockets:>8} {r:>10} {v:>10} {p:>10} {softirq:>10}");
    }
    Ok(())
}
