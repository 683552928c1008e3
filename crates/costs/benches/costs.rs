//! Times of the workloads: `cargo bench -p weir-costs`; `-- million` for a million filters alone.

use divan::Bencher;
use divan::counter::ItemsCount;
use weir_costs::WORKLOADS;
use weir_costs::sweep::{Bed, TOPICS};

fn main() {
    divan::main();
}

#[divan::bench(args = WORKLOADS.iter().map(|workload| workload.name))]
fn cost(bencher: Bencher<'_, '_>, name: &str) {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name).expect("its own name");
    let mut round = (workload.prepare)();
    bencher.counter(ItemsCount::new(workload.operations)).bench_local(&mut round);
}

/// Messages against so many filters, 30 % of them with wildcards, no topic twice in a row: decoded,
/// matched and delivered.
#[divan::bench(args = [1_000, 1_000_000], sample_count = 10, sample_size = 1)]
fn million_filters(bencher: Bencher<'_, '_>, filters: usize) {
    let mut bed = Bed::new(filters, TOPICS);
    if let Some(bytes) = bed.filter_bytes {
        eprintln!("{filters} filters: {bytes:.0} bytes of resident memory each");
    }
    bencher.counter(ItemsCount::new(Bed::MESSAGES)).bench_local(|| bed.pass());
}

/// The same messages to one subscriber of `#`: what is not the search.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn million_filters_floor(bencher: Bencher<'_, '_>) {
    let mut bed = Bed::floor(TOPICS);
    bencher.counter(ItemsCount::new(Bed::MESSAGES)).bench_local(|| bed.pass());
}
