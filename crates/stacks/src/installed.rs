//! What of a stack is installed: the marker that its setup leaves, and the needs that are met.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use weir_bench::driver::is_program;

pub(crate) const MARKER: &str = "setup.json";

/// What is known of a setup that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    /// Of the files it was done for.
    pub(crate) fingerprint: String,
    /// Variants that cannot be had, and why.
    pub(crate) failed: BTreeMap<String, String>,
}

impl Marker {
    /// Nothing if no setup was done.
    pub(crate) fn read(cache: &Path) -> Option<Self> {
        serde_json::from_str(&std::fs::read_to_string(cache.join(MARKER)).ok()?).ok()
    }
}

/// Why needs of a stack are not met, with what to do; nothing if they are.
pub(crate) fn missing_needs(needs: &[String]) -> Option<String> {
    let missing: Vec<String> = needs.iter().filter(|need| !is_met(need)).cloned().collect();
    if missing.is_empty() {
        return None;
    }
    let packages: Vec<&str> = missing.iter().filter_map(|need| need.strip_prefix("apt:")).collect();
    let programs: Vec<&str> =
        missing.iter().filter(|need| !need.starts_with("apt:")).map(|need| &**need).collect();
    let mut why = Vec::new();
    if !packages.is_empty() {
        why.push(format!("needs apt-get install {}", packages.join(" ")));
    }
    if !programs.is_empty() {
        why.push(format!("needs the program {} on PATH", programs.join(", ")));
    }
    Some(why.join("; "))
}

pub(crate) fn is_met(need: &str) -> bool {
    let Some(package) = need.strip_prefix("apt:") else {
        let program = need.strip_prefix("program:").unwrap_or(need);
        let path = std::env::var_os("PATH").unwrap_or_default();
        return std::env::split_paths(&path).any(|folder| is_program(&folder.join(program)));
    };
    let asked = Command::new("dpkg-query")
        .args(["-W", "-f", "${db:Status-Status}", package])
        .stderr(Stdio::null())
        .output();
    asked.is_ok_and(|output| output.stdout == b"installed")
}
