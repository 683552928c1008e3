//! Making connections straight into slots: accept and connect.

use super::ring::{fixed, target};
use super::{Kind, Rings, Slot, name};
use crate::token::Token;
use io_uring::squeue::Entry;
use io_uring::{opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, addr::SocketAddrLen, addr::SocketAddrStorage};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};

/// Connections accepted from a listener in one turn, and with one call: those that are closed at
/// once, since their address is banned, cost the most, and whoever is connected waits for them.
pub(crate) const ACCEPTS_MAX: usize = 8;

/// `IORING_ACCEPT_DONTWAIT`: an accept that finds nobody ends.
const ACCEPT_DONTWAIT: u16 = 1 << 1;

/// What is known of a connection that was accepted.
pub(crate) type Accepted = Result<(Slot, Option<SocketAddrAny>), Errno>;

impl Rings {
    /// Accepts up to as many connections as there are `slots`, without waiting; adds what came of
    /// it to `accepted`. The slots that nothing was accepted into are free again.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    pub(crate) fn accept(
        &mut self,
        listener: &OwnedFd,
        slots: &[Slot],
        accepted: &mut Vec<Accepted>,
    ) {
        let mut peers = [const { MaybeUninit::<SocketAddrStorage>::uninit() }; ACCEPTS_MAX];
        let mut lengths = [size_of::<SocketAddrStorage>() as SocketAddrLen; ACCEPTS_MAX];
        let slots = &slots[..slots.len().min(ACCEPTS_MAX)];
        let (peers_at, lengths_at) = (peers.as_mut_ptr(), lengths.as_mut_ptr());
        for (index, &slot) in slots.iter().enumerate() {
            // SAFETY: the index is less than ACCEPTS_MAX, the length of both.
            let (peer, length) = unsafe { (peers_at.add(index), lengths_at.add(index)) };
            let listener = types::Fd(listener.as_raw_fd());
            let mut entry = opcode::Accept::new(listener, peer.cast(), length)
                .file_index(Some(target(slot.slot)))
                .flags(libc::SOCK_NONBLOCK)
                .build()
                .user_data(name(Kind::Awaited, 0, index as u32));
            set_dont_wait(&mut entry);
            // SAFETY: both addresses are of arrays that outlive `run_all` below, which returns
            // when all of these are completed.
            unsafe { self.ring(slot).push(&entry, true) };
        }
        self.run_all();
        for (index, result) in std::mem::take(&mut self.results) {
            let index = index as usize;
            match result {
                Ok(_) => {
                    // SAFETY: the system has written an address of this length there.
                    let peer =
                        unsafe { SocketAddrAny::read(peers[index].as_ptr(), lengths[index]) };
                    accepted.push(Ok((slots[index], Some(peer))));
                }
                Err(errno) => {
                    self.free_slot(slots[index]);
                    accepted.push(Err(errno));
                }
            }
        }
    }

    /// Opens a socket in `slot` and begins to connect it; readiness follows. On an error the slot
    /// is free again.
    ///
    /// # Errors
    /// What the system says of socket and bind.
    #[expect(unsafe_code, reason = "the system is told addresses")]
    pub(crate) fn connect(
        &mut self,
        (slot, serial, token): (Slot, u32, Token),
        peer: SocketAddr,
        source: Option<IpAddr>,
    ) -> Result<(), Errno> {
        let on = 1i32;
        let source = source.map(|source| SocketAddrAny::from(SocketAddr::new(source, 0)));
        let address = SocketAddrAny::from(peer);
        let socket = fixed(slot.slot);
        // Each of these is done before the next is begun, because it need not wait.
        let no_delay = set_on(slot, libc::IPPROTO_TCP, libc::TCP_NODELAY, &on);
        let mut requests = vec![open(slot, peer.is_ipv4()), no_delay];
        if let Some(source) = &source {
            let length = source.addr_len();
            // The port is picked when both ends are known: see `Io::connect`.
            let option = libc::IP_BIND_ADDRESS_NO_PORT;
            requests.push(set_on(slot, libc::IPPROTO_IP, option, &on));
            requests.push(opcode::Bind::new(socket, source.as_ptr().cast(), length).build());
        }
        for (index, request) in requests.into_iter().enumerate() {
            let request = request.user_data(name(Kind::Awaited, 0, index as u32));
            // SAFETY: the option and the address live until `run` below has returned, which is
            // after these are completed.
            unsafe { self.ring(slot).push(&request, true) };
        }
        let connect = opcode::Connect::new(socket, address.as_ptr().cast(), address.addr_len())
            .build()
            .user_data(name(Kind::Going, serial, token.0));
        // SAFETY: the system copies the address when the request is submitted, which `run` does.
        unsafe { self.ring(slot).push(&connect, false) };
        self.run(usize::from(slot.ring));
        let results = std::mem::take(&mut self.results);
        match results.into_iter().find_map(|(_, result)| result.err()) {
            None => Ok(()),
            Some(errno) => {
                self.close(slot, serial, token);
                Err(errno)
            }
        }
    }
}

fn open(slot: Slot, is_ipv4: bool) -> Entry {
    let domain = if is_ipv4 { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    opcode::Socket::new(domain, kind, libc::IPPROTO_TCP).file_index(Some(target(slot.slot))).build()
}

fn set_on(slot: Slot, level: i32, option: i32, on: &i32) -> Entry {
    let (level, option, on): (_, _, *const i32) = (level as u32, option as u32, on);
    opcode::SetSockOpt::new(fixed(slot.slot), level, option, on.cast(), size_of::<i32>() as u32)
        .build()
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is one io_uring_sqe");

/// Sets the flag that the library has no name for.
#[expect(unsafe_code, reason = "the library keeps the field to itself")]
fn set_dont_wait(entry: &mut Entry) {
    // SAFETY: an entry is one `struct io_uring_sqe` (io_uring_enter(2)): opcode u8, flags u8,
    // ioprio u16. Aligned to 8, so to 2 as well.
    unsafe { (&raw mut *entry).cast::<u16>().add(1).write(ACCEPT_DONTWAIT) }
}
