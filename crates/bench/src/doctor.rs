//! What this host bears: needed, present, how to raise it; and what would spoil a run.

mod check;
mod looks;
mod told;
mod tune;

pub use check::{Check, Demand, State, checks, warn};
pub use tune::{Tune, tune};

use crate::host::{Files, memory_bytes};
use crate::lines::{narrow, prose, wrap};
use crate::numbers::grouped;
use crate::usecase::{self, UseCase, connections_max};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

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
    /// The same for machines: one object.
    pub json: String,
    /// Whether the Basic Set runs at full scale.
    pub is_basic_runnable: bool,
}

/// One thing a use case needs.
struct Need {
    what: &'static str,
    needed: u64,
    /// Nothing where the host does not say.
    present: Option<u64>,
    /// How to get so much of it.
    raise: fn(u64) -> String,
}

impl Need {
    /// What is not known is not held against the host.
    fn is_met(&self) -> bool {
        self.present.is_none_or(|present| present >= self.needed)
    }
}

/// A use case and what it needs at full scale.
struct Row {
    use_case: UseCase,
    connections: u64,
    needs: Vec<Need>,
}

impl Row {
    fn is_met(&self) -> bool {
        self.needs.iter().all(Need::is_met)
    }
}

fn number(name: &str) -> Option<u64> {
    Files::here().sysctl(name)?.parse().ok()
}

/// Ports that the system gives to connections from one address.
fn ports() -> Option<u64> {
    let range = Files::here().sysctl("net.ipv4.ip_local_port_range")?;
    let (first, last) = range.split_once(' ')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some((last + 1).saturating_sub(first))
}

fn raise_files(needed: u64) -> String {
    let kernel = number("fs.nr_open").filter(|&most| most < needed);
    let kernel = kernel.map(|_| format!("sysctl -w fs.nr_open={needed}; ")).unwrap_or_default();
    format!("{kernel}ulimit -n {needed}, as root above the hard limit (systemd: LimitNOFILE=)")
}

fn needs(connections: u64, connect_rate: f64) -> Vec<Need> {
    let (memory, used) = memory_bytes();
    // A tenth of a second of new connections may wait.
    let backlog = (connect_rate / 10.0).ceil() as u64;
    vec![
        Need {
            what: "connections per process",
            needed: connections,
            present: Some(connections_max(&[])),
            raise: raise_files,
        },
        Need {
            what: "ports of one source address",
            needed: connections.min(PORTS_PER_SOURCE),
            present: ports(),
            raise: |_| "sysctl -w net.ipv4.ip_local_port_range='1024 65535'".into(),
        },
        Need {
            what: "accept backlog",
            needed: backlog,
            present: number("net.core.somaxconn"),
            raise: |needed| format!("sysctl -w net.core.somaxconn={}", needed.max(4_096)),
        },
        Need {
            what: "SYN backlog",
            needed: backlog,
            present: number("net.ipv4.tcp_max_syn_backlog"),
            raise: |needed| format!("sysctl -w net.ipv4.tcp_max_syn_backlog={}", needed.max(4_096)),
        },
        Need {
            what: "memory, MiB",
            needed: connections.saturating_mul(CONNECTION_BYTES) >> 20,
            present: Some(memory.saturating_sub(used) >> 20),
            raise: |_| "more memory, or a smaller --scale".into(),
        },
        Need {
            what: "processors",
            needed: 2,
            present: std::thread::available_parallelism().ok().map(|cores| cores.get() as u64),
            raise: |_| "at least two: one for the broker, one for the load".into(),
        },
    ]
}

/// Looks at the host.
pub fn report() -> DoctorReport {
    let rows: Vec<Row> = usecase::all().into_iter().map(row).collect();
    let is_basic_runnable =
        rows.iter().all(|row| row.use_case.set != "basic" || row.needs.iter().all(Need::is_met));
    let basic: Vec<UseCase> = rows
        .iter()
        .filter(|row| row.use_case.set == "basic")
        .map(|row| row.use_case.clone())
        .collect();
    let checks = checks(&Demand::of(&basic, 1.0));
    let text = format!(
        "{}{}\n\n{}\n{}",
        verdicts(&rows),
        narrow(host(&rows)),
        advice(&rows),
        told::text(&checks)
    );
    let json = told::json(&checks, &rows, is_basic_runnable);
    DoctorReport { text, json, is_basic_runnable }
}

fn row(use_case: UseCase) -> Row {
    let connections = use_case.group.iter().map(|group| u64::from(group.clients)).sum();
    let needs = needs(connections, use_case.connect_rate_per_s);
    Row { use_case, connections, needs }
}

/// The use cases that this host is too small for, and at which scale they run here; nothing where
/// all run at full scale, which [`advice`] says.
fn verdicts(rows: &[Row]) -> String {
    let short: Vec<&Row> = rows.iter().filter(|row| !row.is_met()).collect();
    let rest = rows.len() - short.len();
    match (short.len(), rest) {
        (0, _) => String::new(),
        (_, 0) => format!("{}\n\n", narrow(shortages(&short))),
        _ => {
            format!(
                "{}\nThe other {rest} use cases run at full scale.\n\n",
                narrow(shortages(&short))
            )
        }
    }
}

fn shortages(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["use case", "connections", "runs", "what is short"]);
    for row in rows {
        let short: Vec<String> =
            row.needs.iter().filter(|need| !need.is_met()).map(shortage).collect();
        table.add_row([
            row.use_case.name.clone(),
            grouped(row.connections),
            runs(&row.use_case, row.connections, short.is_empty()),
            short.join("; "),
        ]);
    }
    table
}

fn shortage(need: &Need) -> String {
    format!("{}: {} of {}", need.what, present(need), grouped(need.needed))
}

fn present(need: &Need) -> String {
    need.present.map_or_else(|| "not known".into(), grouped)
}

/// What is present, beside what the Basic Set and all use cases need.
fn host(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["this host", "present", "needed for Basic", "needed for all"]);
    let basic = most(rows.iter().filter(|row| row.use_case.set == "basic"));
    for (basic, all) in basic.iter().zip(most(rows.iter())) {
        table.add_row([all.what.into(), present(all), grouped(basic.needed), grouped(all.needed)]);
    }
    table
}

/// Of each thing the need that is largest.
fn most<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<&'a Need> {
    let mut most: Vec<&Need> = Vec::new();
    for need in rows.flat_map(|row| &row.needs) {
        match most.iter_mut().find(|known| known.what == need.what) {
            Some(known) if known.needed < need.needed => *known = need,
            Some(_) => {}
            None => most.push(need),
        }
    }
    most
}

/// How to raise what is short.
fn advice(rows: &[Row]) -> String {
    let mut missing = most(rows.iter());
    missing.retain(|need| !need.is_met());
    if missing.is_empty() {
        return format!("All {} use cases run at full scale here.\n", rows.len());
    }
    let mut text = String::from("To run everything at full scale:\n");
    for need in missing {
        prose(&mut text, &format!("{}: {}", need.what, (need.raise)(need.needed)));
    }
    let agents = format!(
        "Each agent of `weir bench run --agents N` has its own limit on open files and holds up \
         to {} connections. The broker is still one process.",
        grouped(connections_max(&[]))
    );
    wrap(&mut text, "", "", &agents);
    text
}

/// At which scale the use case runs here.
fn runs(use_case: &UseCase, connections: u64, is_whole: bool) -> String {
    match usecase::scale(use_case, 1.0, connections_max(&[])) {
        Ok(scaled) if scaled.reason.is_some() => {
            let agents = connections.div_ceil(connections_max(&[]).max(1));
            format!("at scale {}, or --agents {agents}", scaled.scale)
        }
        Ok(_) if is_whole => "at full scale".into(),
        Ok(_) => "at full scale, but barely".into(),
        Err(_) => "no".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_case_that_fits_runs_at_full_scale_and_one_that_does_not_says_how_it_would() {
        let small = crate::run::tests::small();
        assert_eq!(runs(&small, 6, true), "at full scale");
        assert_eq!(runs(&small, 6, false), "at full scale, but barely");
        let text = include_str!("usecase/example.toml");
        let mut large = UseCase::parse("example", text).unwrap();
        let clients = connections_max(&[]).min(u64::from(u32::MAX)) as u32;
        large.group.iter_mut().for_each(|group| (group.clients, group.scales) = (clients, true));
        let told = runs(&large, 3 * u64::from(clients), false);
        assert!(told.starts_with("at scale 0.") && told.ends_with(", or --agents 3"), "{told}");
    }

    #[test]
    fn use_cases_that_this_host_is_too_small_for_are_named_and_the_others_counted() {
        crate::lines::assert_fits(&report().text);
        let mut rows: Vec<Row> = usecase::all().into_iter().map(row).collect();
        for need in rows.iter_mut().flat_map(|row| &mut row.needs) {
            need.present = Some(u64::MAX);
        }
        assert_eq!(verdicts(&rows), "");
        assert!(advice(&rows).contains(&format!("All {} use cases run", rows.len())));
        rows[3].needs[0].present = Some(rows[3].needs[0].needed - 1);
        let text = verdicts(&rows);
        crate::lines::assert_fits(&text);
        let named = rows.iter().filter(|row| text.contains(&row.use_case.name)).count();
        assert!(text.contains(&rows[3].use_case.name) && named == 1, "{text}");
        assert!(text.contains(&format!("The other {} use cases", rows.len() - 1)), "{text}");
        for need in rows.iter_mut().flat_map(|row| &mut row.needs) {
            need.present = Some(0);
        }
        let text = verdicts(&rows);
        assert!(rows.iter().all(|row| text.contains(&row.use_case.name)), "{text}");
        crate::lines::assert_fits(&text);
    }

    #[test]
    fn what_is_short_is_named_with_a_way_to_raise_it() {
        let needs = needs(u64::MAX / (1 << 20), 5_000.0);
        let files = needs.iter().find(|need| need.what.starts_with("connections")).unwrap();
        assert!(!files.is_met());
        // More than the kernel allows a process: its own limit comes first.
        let raise = (files.raise)(files.needed);
        let kernel = format!("sysctl -w fs.nr_open={}", files.needed);
        assert!(raise.starts_with(&kernel) && raise.contains("ulimit -n"), "{raise}");
    }

    #[test]
    fn what_the_host_does_not_say_is_not_short() {
        let raise = |_| String::new();
        let need = |present| Need { what: "ports", needed: 10, present, raise };
        assert!(need(None).is_met() && need(Some(10)).is_met() && !need(Some(9)).is_met());
    }

    #[test]
    fn the_advice_is_for_the_largest_need_of_each_kind() {
        let rows: Vec<Row> = usecase::all().into_iter().map(row).collect();
        let files = most(rows.iter())[0];
        assert_eq!((files.what, files.needed), ("connections per process", 1_000_000));
    }
}
