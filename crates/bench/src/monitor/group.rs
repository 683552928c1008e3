//! The control group of a process (version 2), where it has one of its own.

use std::path::{Path, PathBuf};

/// What the kernel keeps of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSample {
    /// CPU since its begin.
    pub cpu_us: Option<u64>,
    /// Time that its processes were kept from running by the group's share.
    pub throttled_us: Option<u64>,
    /// Memory, the page cache of its files too.
    pub memory_bytes: Option<u64>,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    folder: PathBuf,
    /// As the kernel names it.
    pub(super) name: String,
    /// Whether this process is in it, too: then its figures are those of the load as well.
    pub(super) is_ours: bool,
}

impl Group {
    /// The group of a process, if it is not the one above all.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let read = |of: &str| std::fs::read_to_string(format!("/proc/{of}/cgroup")).ok();
        let name = name(&read(&pid.to_string())?)?;
        let is_ours = read("self").and_then(|text| self::name(&text)).as_ref() == Some(&name);
        Self::at(Path::new("/sys/fs/cgroup"), name, is_ours)
    }

    fn at(root: &Path, name: String, is_ours: bool) -> Option<Self> {
        let folder = root.join(name.trim_start_matches('/'));
        folder.join("cpu.stat").is_file().then_some(Self { folder, name, is_ours })
    }

    pub(super) fn read(&self) -> GroupSample {
        let read = |file: &str| std::fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        let stat = read("cpu.stat");
        let of = |key: &str| {
            let value = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
            value.trim().parse().ok()
        };
        GroupSample {
            cpu_us: of("usage_usec"),
            throttled_us: of("throttled_usec"),
            memory_bytes: read("memory.current").trim().parse().ok(),
        }
    }
}

/// Of the line of version 2, which is `0::NAME`.
fn name(text: &str) -> Option<String> {
    let name = text.lines().find_map(|line| line.strip_prefix("0::"))?.trim();
    (name != "/" && !name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_version_2_is_found_by_its_line_and_the_root_is_none() {
        let text = "9:cpu:/x\n0::/system.slice/broker.service\n";
        assert_eq!(name(text).as_deref(), Some("/system.slice/broker.service"));
        assert_eq!(name("0::/\n"), None);
        assert_eq!(name("1:cpu:/x\n"), None);
    }

    #[test]
    fn what_a_group_does_not_keep_is_absent() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        assert_eq!(Group::at(root.path(), "/a/b".into(), false), None);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("cpu.stat"), "usage_usec 50\nusage_usec_x 1\nuser_usec 20\n")
            .unwrap();
        let group = Group::at(root.path(), "/a/b".into(), false).unwrap();
        let expected = GroupSample { cpu_us: Some(50), ..GroupSample::default() };
        assert_eq!(group.read(), expected);
        std::fs::write(folder.join("cpu.stat"), "usage_usec 60\nthrottled_usec 7\n").unwrap();
        std::fs::write(folder.join("memory.current"), "4096\n").unwrap();
        let expected =
            GroupSample { cpu_us: Some(60), throttled_us: Some(7), memory_bytes: Some(4096) };
        assert_eq!(group.read(), expected);
    }
}
