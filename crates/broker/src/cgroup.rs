//! What a container, or a unit of systemd, lets this process have of the host's memory: the limits
//! of its control groups.

use std::fs;
use std::path::{Path, PathBuf};

/// Where a limit stands, in version 2 of control groups and in version 1.
const MEMORY_MAX: &str = "memory.max";
const LIMIT_IN_BYTES: &str = "memory.limit_in_bytes";

/// The lowest memory limit of the groups that this process is in, in bytes; nothing where there is
/// none, or the system does not tell. `root` is `/`.
pub(crate) fn memory_bytes_max(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    groups.lines().filter_map(|line| limit_of(line, &mounts, root)).min()
}

/// The lowest limit of a group and those that it is in: a line `NUMBER:CONTROLLERS:PATH`.
fn limit_of(line: &str, mounts: &[Mount], root: &Path) -> Option<u64> {
    let (_, line) = line.split_once(':')?;
    let (controllers, path) = line.split_once(':')?;
    let is_unified = controllers.is_empty();
    if !is_unified && !controllers.split(',').any(|it| it == "memory") {
        return None;
    }
    let mount = mounts.iter().find(|mount| mount.is_unified == is_unified)?;
    let file = if is_unified { MEMORY_MAX } else { LIMIT_IN_BYTES };
    let top = root.join(mount.point.strip_prefix("/").ok()?);
    // The mount may begin at the group itself, as it does in a container. A path that is not below
    // it begins outside of what can be seen.
    let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let is_plain = below.components().all(|it| matches!(it, std::path::Component::Normal(_)));
    let group = top.join(if is_plain { below } else { Path::new("") });
    let groups = group.ancestors().take_while(|group| group.starts_with(&top));
    // `max` is no number, and no limit.
    let limit = |group: &Path| fs::read_to_string(group.join(file)).ok()?.trim().parse().ok();
    groups.filter_map(limit).min()
}

/// Where groups can be seen that have memory limits.
struct Mount {
    /// The group that is seen at `point`.
    root: PathBuf,
    point: PathBuf,
    is_unified: bool,
}

impl Mount {
    /// A line of mountinfo: numbers, the root and the point, options, and behind ` - ` the kind,
    /// the source and more options.
    fn parse(line: &str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let is_unified = match (kind.next()?, kind.nth(1)) {
            ("cgroup2", _) => true,
            ("cgroup", Some(options)) if options.split(',').any(|it| it == "memory") => false,
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3).map(unescaped);
        Some(Self { root: mount.next()?.into(), point: mount.next()?.into(), is_unified })
    }
}

/// What mountinfo writes as a backslash and three octal digits.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with these files.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        memory_bytes_max(root.path())
    }

    const CGROUP: &str = "proc/self/cgroup";
    const MOUNTS: &str = "proc/self/mountinfo";
    const UNIFIED: &str = "25 1 0:22 / /proc rw - proc proc rw\n\
                           30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_lowest_limit_up_the_hierarchy_counts() {
        let mut files = vec![
            (CGROUP, "0::/weir.slice/broker.service\n"),
            (MOUNTS, UNIFIED),
            ("sys/fs/cgroup/weir.slice/broker.service/memory.max", "max\n"),
        ];
        assert_eq!(limit(&files), None, "there is none");
        files.push(("sys/fs/cgroup/weir.slice/memory.max", "1073741824\n"));
        assert_eq!(limit(&files), Some(1 << 30));
        files[2].1 = "536870912\n";
        assert_eq!(limit(&files), Some(1 << 29));
        files[0].1 = "0::/other.service\n";
        assert_eq!(limit(&files), None, "it is another's");
    }

    #[test]
    fn a_container_sees_its_own_group_as_the_root() {
        let own = ("sys/fs/cgroup/memory.max", "268435456\n");
        assert_eq!(limit(&[(CGROUP, "0::/\n"), (MOUNTS, UNIFIED), own]), Some(1 << 28));
        // Moved out of the group that its namespace began with.
        assert_eq!(limit(&[(CGROUP, "0::/../x\n"), (MOUNTS, UNIFIED), own]), Some(1 << 28));
    }

    #[test]
    fn version_1_has_its_memory_groups_by_themselves() {
        let mounts = "40 30 0:35 /docker/ab\\040c /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n\
                      41 30 0:36 /docker/ab\\040c /sys/fs/cgroup/memory ro - cgroup cgroup \
                      rw,memory\n";
        let groups = "5:cpu,cpuacct:/docker/ab c\n4:memory:/docker/ab c\n0::/\n";
        let mut files = vec![
            (CGROUP, groups),
            (MOUNTS, mounts),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n"),
            ("sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n"),
        ];
        assert_eq!(limit(&files), Some(1 << 27));
        // That is how it says that there is none.
        files[2].1 = "9223372036854771712\n";
        assert_eq!(limit(&files), Some(9_223_372_036_854_771_712));
    }

    #[test]
    fn what_the_system_does_not_tell_is_no_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[(CGROUP, "0::/\nnonsense\n"), (MOUNTS, "nonsense\n - \n")]), None);
    }
}
