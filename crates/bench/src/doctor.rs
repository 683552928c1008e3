//! What this host bears: needed, present, how to raise it.

use crate::host::{memory_bytes, open_files_max, sysctl};
use crate::usecase::{self, UseCase, connections_max};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// Memory of one connection over loopback: both ends of the socket in the kernel (about 8 KiB
/// measured), and what broker and generator keep of it.
const CONNECTION_BYTES: u64 = 14 * 1024;

/// Connections from one source address.
const PORTS_PER_SOURCE: u64 = 10_000;

/// What `weir bench doctor` prints.
#[derive(Clone, Debug)]
pub struct DoctorReport {
    /// For a person.
    pub text: String,
    /// Whether the Basic Set runs at full scale.
    pub is_basic_runnable: bool,
}

/// One thing a use case needs.
struct Need {
    what: &'static str,
    needed: u64,
    present: u64,
    raise: &'static str,
}

impl Need {
    fn is_met(&self) -> bool {
        self.present >= self.needed
    }
}

fn needs(connections: u64, connect_rate: f64) -> Vec<Need> {
    let number = |name: &str| sysctl(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let ports = sysctl("net.ipv4.ip_local_port_range").unwrap_or_default();
    let mut ports = ports.split(' ').map(|word| word.parse().unwrap_or(0u64));
    let (first, last) = (ports.next().unwrap_or(0), ports.next().unwrap_or(0));
    let (memory, used) = memory_bytes();
    // A tenth of a second of new connections may wait.
    let backlog = (connect_rate / 10.0).ceil() as u64;
    vec![
        Need {
            what: "open files a process",
            needed: connections + 100,
            present: open_files_max(),
            raise: "ulimit -n 1100000 (LimitNOFILE= of a systemd unit; fs.nr_open is above it)",
        },
        Need {
            what: "ports of one source address",
            needed: connections.min(PORTS_PER_SOURCE),
            present: (last + 1).saturating_sub(first),
            raise: "sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
        },
        Need {
            what: "accept backlog",
            needed: backlog,
            present: number("net.core.somaxconn"),
            raise: "sysctl -w net.core.somaxconn=4096",
        },
        Need {
            what: "SYN backlog",
            needed: backlog,
            present: number("net.ipv4.tcp_max_syn_backlog"),
            raise: "sysctl -w net.ipv4.tcp_max_syn_backlog=4096",
        },
        Need {
            what: "memory, MiB",
            needed: (connections * CONNECTION_BYTES) >> 20,
            present: memory.saturating_sub(used) >> 20,
            raise: "more memory, or a smaller --scale",
        },
        Need {
            what: "processors",
            needed: 2,
            present: std::thread::available_parallelism().map_or(1, usize::from) as u64,
            raise: "two at least: one for the broker, one for the load",
        },
    ]
}

/// Looks at the host.
pub fn report() -> DoctorReport {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["use case", "connections", "runs", "what is short"]);
    let mut is_basic_runnable = true;
    let mut missing: Vec<Need> = Vec::new();
    for use_case in usecase::all() {
        let connections = connections(&use_case);
        let unmet: Vec<Need> = needs(connections, use_case.connect_rate_per_s)
            .into_iter()
            .filter(|need| !need.is_met())
            .collect();
        is_basic_runnable &= use_case.set != "basic" || unmet.is_empty();
        let short: Vec<String> = unmet
            .iter()
            .map(|need| format!("{}: {} of {}", need.what, need.present, need.needed))
            .collect();
        table.add_row([
            use_case.name.clone(),
            connections.to_string(),
            runs(&use_case, unmet.is_empty()),
            if short.is_empty() { "-".into() } else { short.join("; ") },
        ]);
        for need in unmet {
            match missing.iter_mut().find(|known| known.what == need.what) {
                Some(known) => known.needed = known.needed.max(need.needed),
                None => missing.push(need),
            }
        }
    }
    let mut text = format!("{table}\n\n");
    if missing.is_empty() {
        text += "Everything runs at full scale.\n";
    } else {
        text += "To run everything at full scale:\n";
        for need in missing {
            let Need { what, needed, present, raise } = need;
            let _ = writeln!(text, "  {what}: {present} present, {needed} needed: {raise}");
        }
    }
    DoctorReport { text, is_basic_runnable }
}

fn connections(use_case: &UseCase) -> u64 {
    use_case.group.iter().map(|group| u64::from(group.clients)).sum()
}

/// At which scale the use case runs here.
fn runs(use_case: &UseCase, is_whole: bool) -> String {
    match usecase::scale(use_case, 1.0, connections_max(true)) {
        Ok(scaled) if scaled.reason.is_some() => format!("at scale {:.4}", scaled.scale),
        Ok(_) if is_whole => "at full scale".into(),
        Ok(_) => "at full scale, with doubt".into(),
        Err(_) => "no".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_use_case_is_looked_at() {
        let text = report().text;
        for use_case in usecase::all() {
            assert!(text.contains(&use_case.name), "{text}");
        }
    }

    #[test]
    fn what_is_short_is_named_with_a_way_to_raise_it() {
        let needs = needs(u64::MAX / (1 << 20), 5_000.0);
        let files = needs.iter().find(|need| need.what.starts_with("open files")).unwrap();
        assert!(!files.is_met() && files.raise.contains("ulimit -n"));
    }
}
