//! Whoever stands between two ends of a connection, and can cut it.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

/// Carries bytes between two ends until one is gone. Returns both, for [`cut`].
pub(crate) fn carry(one: TcpStream, other: TcpStream) -> [TcpStream; 2] {
    [&one, &other].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
    let ends = [&one, &other].map(|end| end.try_clone().unwrap());
    let (to_one, to_other) = (one.try_clone().unwrap(), other.try_clone().unwrap());
    std::thread::spawn(move || pump(other, to_one));
    std::thread::spawn(move || pump(one, to_other));
    ends
}

/// Ends connections on both sides at once; what is on its way is lost.
pub(crate) fn cut(ends: impl IntoIterator<Item = TcpStream>) {
    // Each end may have gone already.
    ends.into_iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16_384];
    while let Ok(read) = from.read(&mut bytes) {
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    cut([from, to]);
}
