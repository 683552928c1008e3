//! What the kernel shows of a host: the files of `/proc` and `/sys`, below a root so that a test
//! can show another. Everything of the suite that looks at the host reads it here; `monitor` reads
//! what belongs to processes.

use std::path::{Path, PathBuf};

/// A host's files.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: PathBuf,
}

/// Ticks of all processors since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// Working for somebody.
    pub(crate) busy: u64,
    /// Of it, handling network packets and other soft interrupts.
    pub(crate) softirq: u64,
    /// Taken by the hypervisor for others.
    pub(crate) steal: u64,
}

impl Files {
    /// Of this host.
    pub(crate) fn here() -> Self {
        Self::at(Path::new("/"))
    }

    /// Of the host that a folder shows.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// A file without the space around it; nothing where it cannot be read. Its path has no slash
    /// at the begin.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = std::fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    /// The same, and not empty.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path).filter(|text| !text.is_empty())
    }

    pub(crate) fn has_folder(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).is_dir()
    }

    pub(crate) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// A kernel setting by its dotted name.
    pub(crate) fn sysctl(&self, name: &str) -> Option<String> {
        let text = self.read(Path::new("proc/sys").join(name.replace('.', "/")))?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The first number behind `key` in a file of lines such as `MemAvailable:  17 kB`.
    pub(crate) fn field(&self, path: &str, key: &str) -> Option<u64> {
        let text = self.read(path)?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        line[key.len()..].split_whitespace().find_map(|word| word.parse().ok())
    }

    /// The first line of `/proc/stat`.
    pub(crate) fn ticks(&self) -> Option<Ticks> {
        let text = self.read("proc/stat")?;
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = *ticks else {
            return None;
        };
        Some(Ticks { busy: user + nice + system + irq + softirq, softirq, steal })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A host of these files.
    pub(crate) fn host(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_processors_work_where_they_are_not_idle_and_do_not_wait() {
        let of = |text| Files::at(host(&[("proc/stat", text)]).path()).ticks();
        let expected = Ticks { busy: 21, softirq: 3, steal: 4 };
        assert_eq!(of("cpu  10 1 5 1000 50 2 3 4 0 0\ncpu0 1 2 3\n"), Some(expected));
        assert_eq!(of("cpu  1 2 x"), None);
        assert_eq!(of(""), None);
        assert!(Files::here().ticks().is_some());
    }
}
