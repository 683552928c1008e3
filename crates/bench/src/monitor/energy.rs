//! Energy of the processors' packages (RAPL), where the kernel shows it and we may read it.

use std::path::{Path, PathBuf};

/// The zones of all packages.
#[derive(Debug)]
pub(super) struct Energy {
    zones: Vec<Zone>,
    /// Since the first reading.
    sum_uj: u64,
}

#[derive(Debug)]
struct Zone {
    counter: PathBuf,
    /// Where the counter begins again.
    range_uj: u64,
    before_uj: u64,
}

impl Energy {
    /// The packages below `root`, if there are any that can be read.
    pub(super) fn new(root: &Path) -> Option<Self> {
        let entries = std::fs::read_dir(root).ok()?;
        let zones: Vec<Zone> = entries.filter_map(|entry| Zone::of(&entry.ok()?.path())).collect();
        (!zones.is_empty()).then_some(Self { zones, sum_uj: 0 })
    }

    /// Microjoules since the first reading; absent if a counter cannot be read any more.
    pub(super) fn read(&mut self) -> Option<u64> {
        for zone in &mut self.zones {
            self.sum_uj += zone.grown()?;
        }
        Some(self.sum_uj)
    }
}

impl Zone {
    fn of(folder: &Path) -> Option<Self> {
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
        // A package has the zones of its cores and its memory below it; those are in it.
        if !read("name")?.starts_with("package") {
            return None;
        }
        let counter = folder.join("energy_uj");
        let range_uj = read("max_energy_range_uj")?.trim().parse().ok()?;
        let before_uj = count(&counter)?;
        Some(Self { counter, range_uj, before_uj })
    }

    fn grown(&mut self) -> Option<u64> {
        let now_uj = count(&self.counter)?;
        let from_uj = std::mem::replace(&mut self.before_uj, now_uj);
        Some(match now_uj.checked_sub(from_uj) {
            Some(grown) => grown,
            None => self.range_uj.saturating_sub(from_uj) + now_uj,
        })
    }
}

fn count(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(root: &Path, folder: &str, name: &str, energy_uj: u64) {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        std::fs::write(folder.join("max_energy_range_uj"), "1000\n").unwrap();
        std::fs::write(folder.join("energy_uj"), format!("{energy_uj}\n")).unwrap();
    }

    #[test]
    fn packages_are_added_and_a_counter_may_begin_again() {
        let root = tempfile::tempdir().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", 900);
        zone(root.path(), "intel-rapl:1", "package-1", 10);
        zone(root.path(), "intel-rapl:0:0", "core", 5);
        let mut energy = Energy::new(root.path()).unwrap();
        assert_eq!(energy.read(), Some(0));
        zone(root.path(), "intel-rapl:0", "package-0", 50);
        zone(root.path(), "intel-rapl:1", "package-1", 30);
        assert_eq!(energy.read(), Some(150 + 20));
    }

    #[test]
    fn a_host_without_counters_has_no_energy() {
        let root = tempfile::tempdir().unwrap();
        assert!(Energy::new(root.path()).is_none());
        assert!(Energy::new(&root.path().join("none")).is_none());
    }
}
