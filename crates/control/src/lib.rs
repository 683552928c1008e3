//! Whoever runs a broker asks it here: which clients there are, the end of one, the counters.
//!
//! One thread with a runtime of its own serves HTTP over a unix socket. Of the broker it knows a
//! [`Port`] alone: it sends a request to a shard and is given the answer later, so that nothing
//! here ever waits for a shard or holds one up. Everything that a client of it may use is bounded:
//! connections, bytes of a request, time, and letters to a shard.
//!
//! [`Caller`] is the other end: what `weir ctl` asks with.

mod asks;
mod bans;
mod caller;
mod port;
mod routes;
mod server;
mod socket;

pub use bans::{Ban, BanPage, By, Changed, NewBan, Unchanged, Whom};
pub use caller::{CallError, Caller, Reply};
pub use port::{
    Answer, Client, ClientPage, Counters, Full, Kicked, Link, NotMoved, PAGE_CLIENTS_MAX,
    Partitions, Port, REQUESTS_MAX, Request,
};
pub use server::{Control, Server};
pub use socket::{SocketError, SocketFile, listen};
