//! The agreement of a cluster, kept by etcd 3.4 or newer: what [`weir_cluster::Ask`] asks, over the
//! JSON gateway that each etcd has on its ordinary port.
//!
//! One thread asks, with deadlines, and the endpoints in turn; what it is said goes into a queue.
//! It keeps nothing: what the answers mean is the business of [`weir_cluster::Members`].

mod gateway;
mod messages;
mod settings;
mod thread;

pub use settings::{BadEtcd, EtcdSettings, User};
pub use thread::{Busy, Etcd, StartError};
pub use weir_http::client::{BadAddress, Identity};
