//! Times of the workloads: `cargo bench -p weir-costs`.

use divan::Bencher;
use divan::counter::ItemsCount;
use weir_costs::WORKLOADS;

fn main() {
    divan::main();
}

#[divan::bench(args = WORKLOADS.iter().map(|workload| workload.name))]
fn cost(bencher: Bencher<'_, '_>, name: &str) {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name).expect("its own name");
    let mut round = (workload.prepare)();
    bencher.counter(ItemsCount::new(workload.operations)).bench_local(&mut round);
}
