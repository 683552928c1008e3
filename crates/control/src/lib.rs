//! Whoever runs a broker asks it here: which clients there are, the end of one, the counters.
//!
//! One thread with a runtime of its own serves HTTP over a unix socket, and over TCP for whoever
//! has a token, and a page that shows the same in a browser. Of the broker it knows a [`Port`]
//! alone: it sends a request to a shard and is given the answer later, so that nothing here ever
//! waits for a shard or holds one up. Everything that a client of it may use is bounded:
//! connections, requests, bytes of a request, time, and letters to a shard.
//!
//! [`Caller`] is the other end: what `weir ctl` asks with.

mod asks;
mod bans;
mod bridges;
mod caller;
mod cluster;
mod dashboard;
mod drops;
mod history;
mod keeper;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod places;
mod port;
mod read;
mod routes;
mod server;
mod site;
mod socket;
mod sys;
mod tcp;
mod tls;
mod tokens;
mod top;
mod tracer;
mod traces;
mod why;
mod window;

pub use bans::{Ban, BanPage, By, Changed, NewBan, Unchanged, Whom};
pub use bridges::Bridge;
pub use caller::{CallError, Caller, Reply};
pub use cluster::{
    Cluster, ClusterLink, ClusterNode, Forgotten, KeptCopies, NodeCopy, NodeCopyState, NodeState,
    NotForgotten, OwnCopy, OwnCopyState,
};
pub use drops::{Drop, DropKind, DropQuery};
pub use keeper::{
    ConfigChange, ConfigSection, Keeper, ListenerPlace, NotKept, PutConfig, Reloaded, Reread,
    ShownCertificate,
};
#[cfg(feature = "otlp")]
pub use otlp::Otlp;
pub use port::{
    Answer, Client, ClientPage, Counters, DrainOrder, DrainState, Full, Histogram, Kicked, Link,
    Message, NotMoved, NotPublished, Outlook, PAGE_CLIENTS_MAX, Partitions, Port, REQUESTS_MAX,
    Request, RetainedPage, Subscription, SubscriptionPage,
};
pub use server::{Control, ControlError, Server, Setup};
pub use site::Site;
pub use socket::{SocketError, SocketFile, listen};
pub use sys::{Sys, SysBook};
pub use tls::{ControlTls, TlsError};
pub use tokens::{Role, Token, TokenBook, TokenHash};
pub use top::{TALKERS_MAX, Talker, Tally, TopWish, Traffic};
pub use traces::{TRACES_MAX, TraceEvent, TraceOf, TraceShown, TraceWish, Traced};
pub use why::{Arrives, Why};
