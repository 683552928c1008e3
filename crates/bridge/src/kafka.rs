//! A sink of messages to Kafka: a client of its own broker whose session is the queue, as with
//! bridges, and a producer of a Kafka cluster, on one thread with a runtime of its own.
//!
//! A message is acknowledged to the own broker once Kafka has acknowledged its record with
//! `acks=all`. Nothing is kept here: when Kafka is lost, so is the connection to the own broker,
//! which sends again what was not acknowledged.

mod cluster;
mod fault;
mod lanes;
mod record;
mod settings;
mod sink;
mod tap;
mod worker;

pub use settings::{Batch, KafkaSasl, KafkaSettings, KafkaTopic, Mechanism, RecordKey};
pub(crate) use sink::Sink;
use worker::run;
