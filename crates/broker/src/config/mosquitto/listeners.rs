//! The listeners of a mosquitto.conf: an option after `listener` is about that one.

use super::lines::Line;
use super::options;
use std::net::{Ipv6Addr, UdpSocket};
use toml::{Table, Value};

/// A listener and the lines after it.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// `listener` or `port`; nothing for the lines before both.
    pub(super) opened_by: Option<&'a Line>,
    pub(super) lines: Vec<&'a Line>,
}

/// All of them, and the one that each line belongs to. The first has the lines before any
/// `listener` of their file, which are about the one that `port` opens, if there is that. A file
/// that is included opens none for the others.
pub(super) fn blocks(lines: &[Line]) -> (Vec<Block<'_>>, Vec<usize>) {
    let (mut blocks, mut block_of) = (vec![Block::default()], Vec::with_capacity(lines.len()));
    // Of the main file, and of the one that was included last.
    let (mut main, mut included) = (0, (None, 0));
    for line in lines {
        let file = line.file();
        if file.is_some() && file != included.0 {
            included = (file, 0);
        }
        let current = if file.is_none() { &mut main } else { &mut included.1 };
        match line.option.as_str() {
            "port" => blocks[0].opened_by = Some(line),
            "listener" => {
                *current = blocks.len();
                blocks.push(Block { opened_by: Some(line), lines: Vec::new() });
            }
            _ => blocks[*current].lines.push(line),
        }
        block_of.push(*current);
    }
    (blocks, block_of)
}

impl Block<'_> {
    /// The last value of an option.
    pub(super) fn value(&self, option: &str) -> Option<&str> {
        let found = self.lines.iter().rev().find(|line| line.option == option);
        found.map(|line| line.value.as_str())
    }

    /// Whether the last value of an option is yes.
    pub(super) fn is_true(&self, option: &str) -> bool {
        self.value(option).and_then(options::flag) == Some(Value::Boolean(true))
    }

    /// Where it listens, as `[[listener]]` says it; nothing if Mosquitto would not take it.
    pub(super) fn place(&self) -> Option<(&'static str, String)> {
        let line = self.opened_by?;
        let (port, host) = line.value.split_once([' ', '\t']).unwrap_or((&line.value, ""));
        let (port, host) = (port.parse::<u16>().ok()?, host.trim());
        if port == 0 {
            return host.starts_with('/').then(|| ("unix", host.to_owned()));
        }
        let bound = if line.option == "port" { self.value("bind_address") } else { None };
        let host = match (host, bound, self.value("socket_domain")) {
            ("", Some(bound), _) => bound,
            ("", None, Some("ipv4")) => "0.0.0.0",
            ("", None, Some("ipv6")) => "::",
            // Every address; without IPv6, there is none of it to listen on.
            ("", None, _) if UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok() => "::",
            ("", None, _) => "0.0.0.0",
            (host, ..) => host,
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.into() };
        Some(("address", format!("{host}:{port}")))
    }
}

/// Only one of a certificate and its key is named.
pub(super) struct HalfPair;

/// Makes of the keys that lines have set the `[[listener]]` table that means the same. Mosquitto
/// speaks TLS where there is a certificate, and asks clients for one where it requires it.
///
/// # Errors
/// A certificate without its key, or a key without.
pub(super) fn settle(listener: &mut Table) -> Result<(), HalfPair> {
    if listener.get("websocket") == Some(&Value::Boolean(false)) {
        listener.remove("websocket");
    }
    let Some(Value::Table(tls)) = listener.get_mut("tls") else { return Ok(()) };
    let pair = ["certificate", "key"].map(|key| tls.contains_key(key));
    if pair != [true; 2] {
        listener.remove("tls");
        return if pair == [false; 2] { Ok(()) } else { Err(HalfPair) };
    }
    if tls.get("require_certificate") != Some(&Value::Boolean(true)) {
        for key in ["require_certificate", "client_ca", "crl", "identity"] {
            tls.remove(key);
        }
    }
    Ok(())
}
