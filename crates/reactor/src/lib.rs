//! The readiness loop that the broker and the load generator share.
//!
//! One thread, one [`Reactor`], one [`Handler`]. A turn has a fixed order: wait, read and handle,
//! end of turn, flush, reap. Output is appended to a connection and leaves once a turn, never once
//! a packet. An idle connection owns no buffer: reads go to one buffer of the thread, only a
//! partial packet is kept, and output memory is borrowed from a pool while there is output.
//!
//! Between a socket and the handler there may be layers, such as TLS: values of `weir-transport`,
//! which a read passes on its way in, and once per flush everything that leaves on its way out.
//!
//! This crate knows no MQTT. Everything on the data plane that touches the operating system is
//! here.

#[cfg(not(target_os = "linux"))]
compile_error!("Weir runs on Linux only: its reactor is built on epoll");

mod backend;
mod clock;
mod durations;
mod files;
mod flush;
mod gather;
mod handler;
mod heap;
mod io;
mod layered;
mod listen;
mod mailbox;
mod moved;
mod open;
mod output;
mod reactor;
mod rest;
mod socket;
mod token;
mod uring;
mod waker;

pub use backend::Backend;
pub use clock::now_us;
pub use durations::{BOUNDS_US, Durations};
pub use handler::Handler;
pub use heap::trim;
pub use io::{Io, IoStats};
pub use listen::{UNIX_PEER, listen, listen_at, passed};
pub use mailbox::outside::{Address, Joint, Outside, ToOutside, outside, outside_later};
pub use mailbox::{Mailbox, mailboxes};
pub use moved::Moved;
pub use output::SharedBytes;
pub use reactor::Reactor;
pub use socket::Closed;
pub use token::{ListenerId, Token};
pub use waker::Waker;
pub use weir_transport::{Learnt, Transport};
