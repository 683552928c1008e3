//! A listener for whoever comes over TCP: no address has more than a part of the places.

use axum::serve::Listener;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Connections from one address at a time; others are cut off.
const PER_ADDRESS_MAX: u32 = 32;

type Counts = Arc<Mutex<HashMap<IpAddr, u32>>>;

pub(crate) struct Tcp {
    listener: TcpListener,
    counts: Counts,
}

/// A connection, which is counted for as long as it is there.
pub(crate) struct Counted {
    stream: TcpStream,
    address: IpAddr,
    counts: Counts,
}

impl Tcp {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self { listener, counts: Counts::default() }
    }
}

impl Listener for Tcp {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Counted, SocketAddr) {
        loop {
            // It rests by itself while the system has no files left.
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            let address = peer.ip();
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(address).or_default();
            if *count < PER_ADDRESS_MAX {
                *count += 1;
                // An answer is written at once.
                let _ = stream.set_nodelay(true);
                let counts = Arc::clone(&self.counts);
                return (Counted { stream, address, counts }, peer);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
