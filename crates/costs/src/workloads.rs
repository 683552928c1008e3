//! The workloads, each one round of many operations.

mod audit;
mod codec;
mod delivery;
mod elsewhere;
mod matching;
mod retained;

/// Something hot that is done over and over.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name in the baseline.
    pub name: &'static str,
    /// Operations in a round.
    pub operations: u64,
    /// Prepares it; the result is one round.
    pub prepare: fn() -> Box<dyn FnMut()>,
}

/// All of them.
pub const WORKLOADS: &[Workload] = &[
    codec::DECODE_PUBLISH,
    codec::DECODE_PUBLISH_300,
    codec::DECODE_PUBLISH_4K,
    codec::DECODE_PUBLISH_V5,
    codec::DECODE_CONNECT,
    codec::ENCODE_PUBLISH,
    codec::ENCODE_PUBLISH_300,
    codec::ENCODE_PUBLISH_4K,
    matching::EXACT,
    matching::WILDCARDS,
    elsewhere::EXACT,
    elsewhere::WILDCARDS,
    elsewhere::HERE,
    delivery::FAN_OUT_QOS_0,
    delivery::FAN_OUT_QOS_1,
    delivery::PAIRS_QOS_1,
    delivery::FAN_IN_SHARED,
    delivery::LARGE_FAN_OUT,
    delivery::FAN_OUT_RIGHTS,
    delivery::PUBLISH_RIGHTS,
    delivery::CONNECTS,
    retained::ONE,
    retained::MANY,
    audit::LEDGER,
    audit::LEDGER_SWAPPED,
];
