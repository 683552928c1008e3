//! A listener for whoever comes over TCP, as long as there is a place.

use crate::places::{Guest, Kept, Places};
use axum::serve::Listener;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct Tcp {
    listener: TcpListener,
    places: Places,
}

/// A connection, which has its place for as long as it is there.
pub(crate) struct Placed {
    stream: TcpStream,
    kept: Kept,
}

impl Tcp {
    pub(crate) fn new(listener: TcpListener, places: Places) -> Self {
        Self { listener, places }
    }
}

impl Listener for Tcp {
    type Io = Placed;
    type Addr = Guest;

    async fn accept(&mut self) -> (Placed, Guest) {
        loop {
            // It rests by itself while the system has no files left.
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            if let Some(kept) = self.places.take(peer.ip()) {
                // An answer is written at once.
                let _ = stream.set_nodelay(true);
                let guest = kept.guest;
                return (Placed { stream, kept }, guest);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Guest> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Placed {
    /// Fails once another is to have the place.
    fn stays(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match Pin::new(&mut self.kept.stay).poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

impl AsyncRead for Placed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stays(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Placed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stays(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
