//! The program as a user meets it. No test here judges how fast anything is: they run side by side.
//! Those that do, and those that take the machine for themselves, are in `tests/alone`.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

#[path = "../../../load/tests/it/fake_broker/mod.rs"]
mod fake_broker;
#[path = "../../../access/tests/it/fake.rs"]
mod fake_service;
#[path = "../../../bench/tests/it/look.rs"]
mod look;
mod support;

mod abreast;
mod access;
mod agents;
mod api;
mod auth_service;
mod bans;
mod bench;
mod bench_nodes;
mod bridges;
mod broker_options;
mod clients;
mod cluster;
mod cluster_absent;
mod cluster_copied;
mod cluster_minority;
mod cluster_shown;
mod cluster_stopped;
mod conformance;
mod contract;
mod control_attacks;
mod crash;
mod ctl;
mod dashboard;
mod drain;
mod drivers;
mod drop_in;
mod emqtt;
mod export;
mod flaws;
mod flow;
mod flow_beside;
mod flow_kill;
#[cfg(feature = "kafka")]
mod kafka;
mod kept;
mod kept_api;
mod listeners;
mod live;
mod log;
#[cfg(feature = "otlp")]
mod otlp;
mod packages;
mod printing;
mod proxies;
mod pub_sub;
mod pub_sub_options;
mod reload;
mod reload_threads;
mod secure;
mod secure_bench;
mod shell;
mod stacks;
mod stand_ins;
mod steps;
mod store;
mod store_disk;
mod store_import;
mod store_pages;
mod store_tool;
mod swaps;
mod sys;
mod systemd;
mod tls;
mod tokens;
mod top;
mod traces;
mod upgrade;
mod why;
