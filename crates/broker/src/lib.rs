//! The broker: shards of `weir-core`, each on a thread and reactor of its own, with configuration,
//! log and signals; conditions and rules on content are `weir-flow`'s.
//!
//! What must outlive the broker goes through `journal` to the logs of `weir-store`. Authentication
//! is SCRAM-SHA-256 from the configuration or by a file of passwords.

mod admission;
mod auth;
mod bridges;
mod cgroup;
mod cluster;
mod config;
mod content;
mod control;
mod copies;
mod doorman;
mod drops;
mod handover;
mod host;
mod journal;
mod keeper;
mod kept_file;
mod letter;
mod listener;
mod log;
mod memory;
mod patience;
mod post;
mod reload;
mod rules;
mod server;
mod shell;
mod shrink;
mod stopper;
mod sys;
mod top;
mod trace;
mod watched;
mod worker;

pub use admission::ProcessLimits;
pub use auth::{
    AuthConfig, BadLine, FileError, UserUnchanged, Verifier, VerifierError, check_bans,
    check_passwords, check_rights, check_user_name, scram_client_final, set_password,
};
pub use bridges::{
    BridgeConfig, BridgeDirection, BridgeStart, BridgeTls, BridgeTopic, BridgeVersion, KafkaConfig,
    KafkaKey, KafkaMechanism, KafkaTopicConfig, Notifications,
};
pub use cluster::{ClusterConfig, ClusterTls, NoPlace};
pub use config::{
    Config, ConfigError, IoBackend, LogConfig, MOSQUITTO_OPTIONS, MosquittoFile, MosquittoNote,
    MosquittoOptions, RANGES, Range, SECTIONS, Section, check_log_level,
};
pub use control::{ControlConfig, OtlpConfig, TokenConfig};
pub use journal::{
    Amounts, Damaged, Durability, Entry, LogCheck, Loss, NoStore, OnDamage, Salvaged, StoreConfig,
    StoreReader, StoreWriter, salvage,
};
pub use kept_file::KeptFile;
pub use listener::{
    CertificateConfig, IdentityConfig, ListenerConfig, PeerIdentity, ProxyConfig,
    RecordLayerConfig, TlsConfig, TlsFault, TlsVersion,
};
pub use log::CLIENTS;
pub use reload::{ReadConfig, Reloader, SetLogLevel, Source};
pub use rules::FlowRules;
pub use server::{ServeError, Server};
pub use stopper::Stopper;
pub use sys::SysConfig;
