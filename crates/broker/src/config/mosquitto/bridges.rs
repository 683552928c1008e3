//! The bridges of a mosquitto.conf: an option after `connection` is about that one.

use super::lines::Line;
use super::options;
use toml::{Table, Value};

/// The port where an address has none, with TLS as well.
const PORT: u16 = 1883;

/// A bridge and the lines after it.
#[derive(Debug)]
pub(super) struct Bridge<'a> {
    /// `connection`.
    pub(super) opened_by: &'a Line,
    pub(super) lines: Vec<&'a Line>,
}

/// All of them, and whether each line is behind a `connection` of its file.
pub(super) fn blocks(lines: &[Line]) -> (Vec<Bridge<'_>>, Vec<bool>) {
    let (mut bridges, mut is_behind) = (Vec::<Bridge<'_>>::new(), Vec::with_capacity(lines.len()));
    // Of the main file, and of the one that was included last.
    let (mut main, mut included) = (None, (None, None));
    for line in lines {
        let file = line.file();
        if file.is_some() && file != included.0 {
            included = (file, None);
        }
        let current = if file.is_none() { &mut main } else { &mut included.1 };
        if line.option == "connection" {
            *current = Some(bridges.len());
            bridges.push(Bridge { opened_by: line, lines: Vec::new() });
        } else if let Some(at) = *current {
            bridges[at].lines.push(line);
        }
        is_behind.push(current.is_some());
    }
    (bridges, is_behind)
}

impl Bridge<'_> {
    /// The last value of an option.
    fn value(&self, option: &str) -> Option<&str> {
        let found = self.lines.iter().rev().find(|line| line.option == option);
        found.map(|line| line.value.as_str())
    }

    fn is_true(&self, option: &str, otherwise: bool) -> bool {
        match self.value(option).and_then(options::flag) {
            Some(value) => value == Value::Boolean(true),
            None => otherwise,
        }
    }

    /// Makes of the keys that lines have set the `[[bridge]]` table that means the same. Says what
    /// is missing.
    pub(super) fn settle(&self, bridge: &mut Table) -> Result<(), &'static str> {
        bridge.insert("name".into(), self.opened_by.value.clone().into());
        let scheme = if bridge.contains_key("tls") { "mqtts" } else { "mqtt" };
        let Some(Value::Array(addresses)) = bridge.get_mut("addresses") else {
            return Err("the bridge has no address");
        };
        for address in addresses {
            let place = address.as_str().map(place).unwrap_or_default();
            *address = format!("{scheme}://{place}").into();
        }
        if !bridge.contains_key("topics") {
            return Err("the bridge has no topic");
        }
        if let Some(rests) = self.value("restart_timeout") {
            let rests: Vec<i64> = rests.split_whitespace().flat_map(str::parse).collect();
            if let (Some(first), Some(last)) = (rests.first(), rests.last()) {
                for (key, seconds) in [("retry_ms_min", first), ("retry_ms_max", last)] {
                    bridge.insert(key.into(), seconds.saturating_mul(1000).into());
                }
            }
        }
        let says = self.is_true("notifications", true);
        let both = !self.is_true("notifications_local_only", false);
        let whom = if says { if both { "both" } else { "local" } } else { "none" };
        bridge.insert("notifications".into(), whom.into());
        Ok(())
    }
}

/// A host with its port, as a URL has it.
fn place(address: &str) -> String {
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    let (host, port) = match address.rsplit_once(':') {
        // Several colons are an address of IPv6, unless it is in brackets.
        Some((host, port)) if is_port(port) && (!host.contains(':') || host.ends_with(']')) => {
            (host, port.to_owned())
        }
        _ => (address, PORT.to_string()),
    };
    let host = match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    format!("{host}:{port}")
}
