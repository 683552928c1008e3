//! A server that plays a recorded feed to one client stack: no broker's cost is in what is
//! measured.
//!
//! It listens, answers CONNECT, SUBSCRIBE, UNSUBSCRIBE, PINGREQ, PUBLISH and DISCONNECT of MQTT
//! 3.1.1 and 5.0, and plays PUBLISH packets open loop to the one connection that subscribed; what
//! comes back is set against a ledger. Its orders and answers are JSON lines ([`Order`], [`Said`]).
//! It keeps no session, resends nothing and matches no topics: the one filter of a stack gets the
//! whole feed.

mod books;
mod feed;
mod lines;
mod play;
mod server;

pub use feed::{FIRST_NUMBER, PAYLOAD_BYTES, Recorded, Template};
pub use lines::{Counts, Order, Play, PlayError, Played, RESULT_TOPIC, Said};

use server::Server;
use std::io::{self, BufRead, Read, Write};
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use weir_reactor::{ListenerId, Reactor, Transport, Waker};

/// The loop looks up at least this often.
const TURN_MAX: Duration = Duration::from_millis(50);

/// Orders that wait; whoever sends more waits too.
const ORDERS_MAX: usize = 16;

/// Longest order.
const ORDER_BYTES_MAX: u64 = 64 * 1024;

/// What the control thread has read.
enum Heard {
    Order(Order),
    /// A line that is no order, and why.
    Wrong(String),
    End,
}

/// Serves one stack on `listener`: takes orders from `input`, a line each, and says what happens to
/// `output`. Returns when `input` ends.
///
/// # Errors
/// What the system says of epoll, or an `output` that nobody reads any longer.
pub fn serve(
    listener: TcpListener,
    input: impl BufRead + Send + 'static,
    output: impl Write,
) -> io::Result<()> {
    // The default of 50 us is the distance of messages at 20,000 a second. A kernel that refuses
    // plays later, and the lag says so.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let address = listener.local_addr()?;
    let mut reactor = Reactor::new()?;
    reactor.listen(ListenerId(0), listener, Transport::Plain)?;
    let orders = listen_to(input, reactor.waker());
    let mut server = Server::new(output);
    server.say(&Said::Listening { address: address.to_string() });
    loop {
        let wait = server.wait().map_or(TURN_MAX, |wait| wait.min(TURN_MAX));
        reactor.turn(Some(wait), &mut server)?;
        while let Ok(heard) = orders.try_recv() {
            match heard {
                Heard::Order(order) => server.order(reactor.io(), &order),
                Heard::Wrong(why) => server.say(&Said::Failed { why }),
                Heard::End => return Ok(()),
            }
        }
        if let Some(error) = server.output_error() {
            return Err(error);
        }
    }
}

/// Reads orders on a thread of their own and wakes the loop for each.
fn listen_to(mut input: impl BufRead + Send + 'static, waker: Waker) -> Receiver<Heard> {
    let (sender, orders) = sync_channel(ORDERS_MAX);
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            let read = input.by_ref().take(ORDER_BYTES_MAX).read_line(&mut line);
            let heard = match read {
                Ok(0) | Err(_) => Heard::End,
                Ok(_) => match serde_json::from_str(&line) {
                    Ok(order) => Heard::Order(order),
                    Err(error) => Heard::Wrong(format!("an order that is none: {error}")),
                },
            };
            let is_end = matches!(heard, Heard::End);
            let is_heard = sender.send(heard).is_ok();
            waker.wake();
            if is_end || !is_heard {
                return;
            }
        }
    });
    orders
}
