//! The audit of deliveries.

use super::Workload;
use std::hint::black_box;
use weir_ledger::{Arrival, Ledger};

const PAIRS: usize = 5000;

pub(super) const LEDGER: Workload = Workload {
    name: "ledger-in-order",
    operations: PAIRS as u64,
    prepare: || {
        let mut ledger = Ledger::new(PAIRS);
        let mut sequence = 0;
        Box::new(move || {
            for pair in 0..PAIRS {
                assert_eq!(black_box(ledger.note(pair, sequence)), Arrival::InOrder);
            }
            sequence += 1;
        })
    },
};

pub(super) const LEDGER_SWAPPED: Workload = Workload {
    name: "ledger-swapped",
    operations: 2 * PAIRS as u64,
    prepare: || {
        let mut ledger = Ledger::new(PAIRS);
        let mut sequence = 0;
        Box::new(move || {
            for pair in 0..PAIRS {
                assert_eq!(black_box(ledger.note(pair, sequence + 1)), Arrival::InOrder);
                assert_eq!(black_box(ledger.note(pair, sequence)), Arrival::AfterLater);
            }
            sequence += 2;
        })
    },
};
