//! `doctor --tune`: a sysctl file and a limits file for a host that runs brokers and load, each
//! setting with its reason and with what is set now.

use crate::host::{Files, open_files_max};
use std::fmt::Write as _;
use std::str::FromStr;

/// Files and connections that a host is tuned for: the suite's largest use case, and some.
const FILES: u64 = 1_100_000;

/// Which of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tune {
    /// For `/etc/sysctl.d`.
    Sysctl,
    /// For `/etc/security/limits.d`.
    Limits,
    /// One behind the other, for reading.
    Both,
}

impl FromStr for Tune {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sysctl" => Ok(Self::Sysctl),
            "limits" => Ok(Self::Limits),
            "both" => Ok(Self::Both),
            _ => Err("write sysctl, limits or both".into()),
        }
    }
}

/// A kernel setting.
struct Setting {
    name: &'static str,
    wanted: Wanted,
    why: &'static str,
}

/// What it is to be.
enum Wanted {
    /// Numbers; a greater one that is set already stays.
    AtLeast(&'static [u64]),
    /// First and last of a range; a wider one that is set already stays.
    Range(u64, u64),
    /// One of several ways.
    Way(u64),
}

/// What docs/performance.md has under "Tuning a host".
const SETTINGS: &[Setting] = &[
    Setting {
        name: "fs.nr_open",
        wanted: Wanted::AtLeast(&[FILES]),
        why: "the highest limit on open files that a process may have",
    },
    Setting {
        name: "fs.file-max",
        wanted: Wanted::AtLeast(&[4 * FILES]),
        why: "open files of all processes",
    },
    Setting {
        name: "net.core.somaxconn",
        wanted: Wanted::AtLeast(&[4_096]),
        why: "connections waiting to be accepted; a broker cannot get more than this",
    },
    Setting {
        name: "net.ipv4.tcp_max_syn_backlog",
        wanted: Wanted::AtLeast(&[8_192]),
        why: "half-open connections, over a network",
    },
    Setting {
        name: "net.ipv4.tcp_syncookies",
        wanted: Wanted::Way(1),
        why: "if the backlog is full all the same, nothing is dropped",
    },
    Setting {
        name: "net.ipv4.ip_local_port_range",
        wanted: Wanted::Range(1_024, 65_535),
        why: "ports of one source address of the load; keep services out of the range",
    },
    Setting {
        name: "net.ipv4.tcp_tw_reuse",
        wanted: Wanted::Way(1),
        why: "ports of connections that have just ended may be reused",
    },
    Setting {
        name: "net.ipv4.tcp_max_tw_buckets",
        wanted: Wanted::AtLeast(&[262_144]),
        why: "beyond this many, ended connections do not wait out their minute",
    },
    Setting {
        name: "net.core.netdev_max_backlog",
        wanted: Wanted::AtLeast(&[16_384]),
        why: "packets that may wait for a processor before more are dropped",
    },
    Setting {
        name: "net.ipv4.tcp_rmem",
        wanted: Wanted::AtLeast(&[4_096, 131_072, 6_291_456]),
        why: "receive buffer: minimum, initial, and the most that one slow reader may use",
    },
    Setting {
        name: "net.ipv4.tcp_wmem",
        wanted: Wanted::AtLeast(&[4_096, 16_384, 4_194_304]),
        why: "send buffer: the same",
    },
];

/// The file or files as text.
pub fn tune(which: Tune) -> String {
    match which {
        Tune::Sysctl => sysctl_file(&|name| Files::here().sysctl(name)),
        Tune::Limits => limits_file(),
        Tune::Both => {
            format!("{}\n{}", sysctl_file(&|name| Files::here().sysctl(name)), limits_file())
        }
    }
}

fn sysctl_file(present: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = String::from(
        "# Kernel settings for many MQTT connections. To use them, as root:\n\
         #   weir bench doctor --tune sysctl > /etc/sysctl.d/90-mqtt.conf && sysctl --system\n\
         # Remove what you do not want; `weir bench doctor` says what this host lacks.\n",
    );
    for Setting { name, wanted, why } in SETTINGS {
        let now = present(name);
        let value = value(wanted, now.as_deref());
        let now = now.unwrap_or_else(|| "not known".into());
        let _ = write!(text, "\n# {why}\n# now: {now}\n{name} = {value}\n");
    }
    let memory_pages = "\n# net.ipv4.tcp_mem (pages: low, pressure, high) is left as the kernel \
                        chose it for this memory:\n# beyond pressure buffers shrink, beyond high \
                        packets are dropped.\n";
    text.push_str(memory_pages);
    if present("net.netfilter.nf_conntrack_max").is_some() {
        let conntrack = format!(
            "\n# Connection tracking is loaded. No tracking is better than a larger table: exempt \
             the broker's port.\nnet.netfilter.nf_conntrack_max = {}\n",
            2 * FILES
        );
        text.push_str(&conntrack);
    }
    text
}

/// What is wanted, but nothing below what is set already.
fn value(wanted: &Wanted, now: Option<&str>) -> String {
    let mut now = now.unwrap_or_default().split(' ').map_while(|word| word.parse::<u64>().ok());
    let values: Vec<u64> = match *wanted {
        Wanted::AtLeast(wanted) => {
            wanted.iter().map(|&wanted| now.next().map_or(wanted, |now| now.max(wanted))).collect()
        }
        Wanted::Range(first, last) => {
            let (first_now, last_now) = (now.next().unwrap_or(first), now.next().unwrap_or(last));
            vec![first.min(first_now), last.max(last_now)]
        }
        Wanted::Way(way) => vec![way],
    };
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn limits_file() -> String {
    format!(
        "# Open files for whoever runs brokers and load. To use them, as root:\n\
         #   weir bench doctor --tune limits > /etc/security/limits.d/90-mqtt.conf\n\
         # and log in again. Above fs.nr_open nothing is granted. A service of systemd takes\n\
         # LimitNOFILE={FILES} in its unit instead. Now: {} for this process.\n\
         *    soft nofile {FILES}\n\
         *    hard nofile {FILES}\n\
         root soft nofile {FILES}\n\
         root hard nofile {FILES}\n",
        open_files_max()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_the_page_on_tuning_is_in_the_file() {
        let page = include_str!("../../../../docs/performance.md");
        let (_, tuning) = page.split_once("## Tuning a host").unwrap();
        let (tuning, _) = tuning.split_once("### Cores").unwrap();
        let file = sysctl_file(&|_| None) + "nf_conntrack_max";
        let is_name = |word: &&str| word.starts_with("net.") || word.starts_with("fs.");
        let names = tuning.split(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)));
        let names: Vec<&str> = names.filter(is_name).collect();
        assert!(names.len() > 8, "{names:?}");
        for name in names {
            let name = name.strip_prefix("net.netfilter.").unwrap_or(name);
            assert!(file.contains(name), "{name} is missing");
        }
    }

    #[test]
    fn nothing_is_set_below_what_it_is_now() {
        let now = |name: &str| match name {
            "net.core.somaxconn" => Some("65535".to_owned()),
            "net.ipv4.ip_local_port_range" => Some("500 60999".to_owned()),
            "net.ipv4.tcp_tw_reuse" => Some("2".to_owned()),
            "net.ipv4.tcp_rmem" => Some("8192 65536 33554432".to_owned()),
            _ => None,
        };
        let file = sysctl_file(&now);
        for line in [
            "net.core.somaxconn = 65535",
            "net.ipv4.ip_local_port_range = 500 65535",
            "net.ipv4.tcp_rmem = 8192 131072 33554432",
            "net.ipv4.tcp_tw_reuse = 1",
        ] {
            assert!(file.lines().any(|of| of == line), "{line}:\n{file}");
        }
    }

    #[test]
    fn every_line_is_a_comment_or_a_setting() {
        let is_setting = |line: &str| {
            line.split_once(" = ").is_some_and(|(_, value)| {
                value.split(' ').all(|number| number.parse::<u64>().is_ok())
            })
        };
        for line in tune(Tune::Sysctl).lines() {
            assert!(line.is_empty() || line.starts_with('#') || is_setting(line), "{line}");
        }
        for line in tune(Tune::Limits).lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split_whitespace().count(), 4, "{line}");
        }
    }
}
