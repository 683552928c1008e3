//! `faults`: three nodes in namespaces of the network, each with an etcd, under faults from a seed.
//! Clients that wander between them keep a ledger, and it says what was lost of what the cluster
//! promises ([docs/cluster.md](../../../docs/cluster.md)).
//!
//! It takes root and Linux, and is no part of `make test`: docs/developers/faults.md.

mod ballast;
mod client;
mod clock;
mod course;
mod ledger;
mod network;
mod nodes;
mod plan;
mod probe;
mod process;
mod publisher;
mod subscriber;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use plan::{Kind, NODES};
use std::path::PathBuf;
use std::process::ExitCode;

/// Breaks a cluster of three nodes in namespaces, and counts what was lost
#[derive(Debug, Parser)]
#[command(name = "faults")]
pub(crate) struct Options {
    /// What the faults are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long, in minutes
    #[arg(long, value_name = "MINUTES", default_value_t = 10.0)]
    minutes: f64,
    /// Only faults of this kind; may be given several times
    #[arg(long, value_name = "KIND")]
    only: Vec<Kind>,
    /// How many nodes have each session on their disks; with 2 or 3 nothing excuses a loss
    #[arg(long, value_name = "NODES", default_value_t = 1)]
    replicas: u8,
    /// The program
    #[arg(long, value_name = "FILE", default_value = "target/debug/weir")]
    weir: PathBuf,
    /// Where configurations and logs are; made anew
    #[arg(long, value_name = "FOLDER", default_value = "target/faults")]
    folder: PathBuf,
}

impl Options {
    /// Those of the command line; otherwise all that so many copies are to outlive.
    fn kinds(&self) -> Vec<Kind> {
        let all = if self.only.is_empty() { Kind::value_variants() } else { &self.only };
        let is_meant = |kind: &Kind| match kind {
            _ if !self.only.is_empty() => true,
            Kind::KillTwo => usize::from(self.replicas) == NODES,
            Kind::KillAll => self.replicas > 1,
            _ => true,
        };
        all.iter().copied().filter(is_meant).collect()
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(obstacle) = network::obstacle(&options.kinds()) {
        println!("skipped: {obstacle}");
        return ExitCode::SUCCESS;
    }
    let done = network::enter()
        .and_then(|()| network::build().context("cannot make the network"))
        .and_then(|()| course::run(&options));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("faults: {error:#}");
            ExitCode::from(2)
        }
    }
}
