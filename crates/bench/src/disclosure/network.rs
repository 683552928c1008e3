//! The way between load and broker: interface, congestion control, buffers, clocks.

use super::{ABSENT, or_absent};
use crate::host::Files;
use crate::login::Login;
use crate::result::NetworkFacts;
use rustix::net::sockopt;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn facts(target: SocketAddr, login: &Login) -> NetworkFacts {
    let stream = TcpStream::connect_timeout(&target, CONNECT_TIMEOUT).ok();
    let source = stream.as_ref().and_then(|stream| stream.local_addr().ok());
    let is_here = source.is_some_and(|source| source.ip() == target.ip());
    let interface = if target.ip().is_loopback() {
        Some("lo".to_owned())
    } else {
        source.and_then(|source| interface_of(source.ip()))
    };
    let of_interface = |what: &str| {
        let name = interface.as_ref()?;
        Files::here().text(format!("sys/class/net/{name}/{what}"))
    };
    NetworkFacts {
        topology: match (is_here || target.ip().is_loopback(), source) {
            (true, _) => format!("load and broker on one host, over {}", target.ip()),
            (false, Some(source)) => format!("from {} to {}", source.ip(), target.ip()),
            (false, None) => format!("to {}; nothing answered before the run", target.ip()),
        },
        interface: interface.as_ref().map_or_else(
            || "not known: no interface of this host has the address".into(),
            |name| {
                let speed = of_interface("speed").filter(|speed| !speed.starts_with('-'));
                let speed = speed.map_or("no link speed".into(), |mb| format!("{mb} Mb/s"));
                format!("{name}, {speed}")
            },
        ),
        mtu: of_interface("mtu").map_or_else(|| ABSENT.into(), |mtu| format!("{mtu} bytes")),
        congestion_control: congestion_control(stream.as_ref()),
        socket_buffers: stream
            .as_ref()
            .map_or_else(|| "not known: nothing answered before the run".into(), socket_buffers),
        socket_options: "TCP_NODELAY; buffers at the kernel's defaults".into(),
        queueing: or_absent(Files::here().sysctl("net.core.default_qdisc")),
        jitter: format!("before the run {}", jitter(target, login)),
        bandwidth: if is_here {
            "not measured: the traffic stays in this host's memory".into()
        } else {
            "not measured: it would take a program of the suite on the broker's side".into()
        },
        clocks: "the monotonic clock of the host whose client sends and receives, to the \
                 microsecond; across hosts as the agents' lines say"
            .into(),
    }
}

/// The interface with this address, by the kernel's tables.
fn interface_of(address: IpAddr) -> Option<String> {
    let IpAddr::V4(address) = address else { return None };
    let routes = Files::here().text("proc/net/route")?;
    let routes = routes.lines().skip(1).filter_map(|line| {
        let mut words = line.split_whitespace();
        let name = words.next()?;
        let network = u32::from_str_radix(words.next()?, 16).ok()?;
        let mask = u32::from_str_radix(words.nth(5)?, 16).ok()?;
        // The table holds addresses as they lie in memory, first byte lowest.
        let here = u32::from(address).swap_bytes();
        (here & mask == network).then_some((mask.count_ones(), name.to_owned()))
    });
    routes.max_by_key(|(bits, _)| *bits).map(|(_, name)| name)
}

fn congestion_control(stream: Option<&TcpStream>) -> String {
    let offered = Files::here().sysctl("net.ipv4.tcp_available_congestion_control");
    let offered = offered.map_or_else(String::new, |offered| format!(", offered: {offered}"));
    let used = stream.and_then(|stream| sockopt::tcp_congestion(stream).ok());
    match used.or_else(|| Files::here().sysctl("net.ipv4.tcp_congestion_control")) {
        Some(used) => format!("{used}{offered}"),
        None => ABSENT.into(),
    }
}

fn socket_buffers(stream: &TcpStream) -> String {
    let bytes = |size: rustix::io::Result<usize>| {
        size.map_or_else(|error| format!("not known ({error})"), |size| format!("{size} bytes"))
    };
    let send = bytes(sockopt::socket_send_buffer_size(stream));
    let receive = bytes(sockopt::socket_recv_buffer_size(stream));
    let grows = Files::here().sysctl("net.ipv4.tcp_moderate_rcvbuf").is_some_and(|on| on == "1");
    let rule = if grows { "grown by the kernel" } else { "of fixed size" };
    format!("send {send}, receive {receive}, {rule}")
}

/// The middle four fifths of some round trips.
pub(super) fn jitter(target: SocketAddr, login: &Login) -> String {
    match crate::mqtt::round_trips(target, login) {
        Some(times) => {
            let us = |share: usize| times[times.len() * share / 10].as_secs_f64() * 1e6;
            format!("{:.0} to {:.0} us", us(1), us(9))
        }
        None => "not answered".into(),
    }
}
