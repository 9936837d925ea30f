//! The limit of memory that the process's control group has. Containers and services have one. It
//! is found from what the kernel says of this process, not at a fixed path: a group may lie deep in
//! the tree, and each group above it may have a lower limit.

use std::path::{Path, PathBuf};

/// What a control group's directory and its files are called in a version of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The files of a group that hold a limit, bytes. Above `memory.high` the kernel slows the
    /// process down until it has given memory back.
    fn files(self) -> &'static [&'static str] {
        match self {
            Version::One => &["memory.limit_in_bytes"],
            Version::Two => &["memory.max", "memory.high"],
        }
    }
}

/// A mounted tree of control groups that counts memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupTree {
    version: Version,
    /// The group that is seen at the mount point.
    root: PathBuf,
    mount_point: PathBuf,
}

/// Returns the least limit of the process's group and of all groups above it, bytes. `read` returns
/// the text of a file.
pub(crate) fn memory_limit(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    let mut least: Option<u64> = None;
    for tree in trees(&mounts) {
        let Some(group) = group_in(&groups, tree.version) else { continue };
        for dir in group_dirs(&tree, group) {
            let files = tree.version.files().iter();
            let direct = files.filter_map(|file| limit(&read(&dir.join(file))?));
            // Of version 1 each group knows the least limit above it, also of groups that a
            // container does not see.
            let inherited = (tree.version == Version::One)
                .then(|| inherited_limit(&read(&dir.join("memory.stat"))?))
                .flatten();
            least = direct.chain(inherited).chain(least).min();
        }
    }
    least
}

/// Returns the number of a file; `None` for `max`.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn inherited_limit(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| limit(line.strip_prefix("hierarchical_memory_limit ")?))
}

/// Returns the path of the process's group. Lines of `/proc/self/cgroup` are
/// `number:controllers:path`; version 2 has no controllers there.
fn group_in(groups: &str, version: Version) -> Option<&Path> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let counts_memory = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => controllers.is_empty(),
        };
        counts_memory.then_some(Path::new(path))
    })
}

/// Returns the trees that count memory. Lines of `/proc/self/mountinfo` are `id parent device root
/// mount-point options … - type source options`.
fn trees(mounts: &str) -> Vec<GroupTree> {
    let tree = |line: &str| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, mount_point) = (unescaped(place.next()?), unescaped(place.next()?));
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
        let version = match name {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
            _ => return None,
        };
        Some(GroupTree { version, root, mount_point })
    };
    mounts.lines().filter_map(tree).collect()
}

/// Returns a path of `/proc/self/mountinfo`, where spaces and the like are written as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(char::from(byte));
                path.push_str(&part[3..]);
            }
            None => path.push_str(part),
        }
    }
    PathBuf::from(path)
}

/// Returns the directories of a group and of all groups above it that the mount shows. A group that
/// lies outside of what is mounted is not seen; then the mounted one is the nearest.
fn group_dirs(tree: &GroupTree, group: &Path) -> Vec<PathBuf> {
    let is_plain = !group.components().any(|part| part.as_os_str() == "..");
    let inside = group.strip_prefix(&tree.root).ok().filter(|_| is_plain).unwrap_or(Path::new(""));
    inside.ancestors().map(|part| tree.mount_point.join(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "25 23 0:22 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
        33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
        36 25 0:32 / /sys/fs/cgroup/memory rw shared:15 - cgroup cgroup rw,memory";
    /// A container without a namespace of groups: its own group is at the mount point.
    const V1_CONTAINER: &str =
        "700 690 0:32 /docker/ab /sys/fs/cgroup/memory ro master:15 - cgroup cgroup rw,memory";

    fn told(cgroup: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        memory_limit(|path| match path.to_str().unwrap() {
            "/proc/self/cgroup" => Some(cgroup.to_owned()),
            "/proc/self/mountinfo" => Some(mounts.to_owned()),
            path => files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()),
        })
    }

    /// What it is, `/proc/self/cgroup`, `/proc/self/mountinfo`, other files, the limit.
    type Row<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)], Option<u64>);

    fn check(table: &[Row<'_>]) {
        for (what, cgroup, mounts, files, wanted) in table {
            assert_eq!(told(cgroup, mounts, files), *wanted, "{what}");
        }
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        check(&[
            ("no limit", "0::/user.slice\n", V2, &[("/sys/fs/cgroup/user.slice/memory.max", "max\n")], None),
            (
                "a service",
                "0::/system.slice/db.service\n",
                V2,
                &[
                    ("/sys/fs/cgroup/system.slice/db.service/memory.max", "314572800\n"),
                    ("/sys/fs/cgroup/system.slice/memory.max", "max\n"),
                ],
                Some(300 * MIB),
            ),
            (
                "the group above has less",
                "0::/a.slice/b.slice/db.service\n",
                V2,
                &[
                    ("/sys/fs/cgroup/a.slice/b.slice/db.service/memory.max", "314572800\n"),
                    ("/sys/fs/cgroup/a.slice/memory.max", "104857600\n"),
                ],
                Some(100 * MIB),
            ),
            (
                "slowed down before the limit",
                "0::/s\n",
                V2,
                &[
                    ("/sys/fs/cgroup/s/memory.max", "314572800"),
                    ("/sys/fs/cgroup/s/memory.high", "209715200"),
                ],
                Some(200 * MIB),
            ),
            (
                "a container with a namespace: the root is its group",
                "0::/\n",
                V2,
                &[("/sys/fs/cgroup/memory.max", "314572800\n")],
                Some(300 * MIB),
            ),
            (
                "a group outside of the namespace",
                "0::/../other\n",
                V2,
                &[
                    ("/sys/fs/cgroup/memory.max", "314572800\n"),
                    ("/sys/fs/cgroup/../other/memory.max", "1\n"),
                ],
                Some(300 * MIB),
            ),
        ]);
    }

    #[test]
    fn the_first_version_of_groups_counts_too() {
        let both = format!("{V1}\n42 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
        check(&[
            (
                "version 1, nested",
                "12:cpu,cpuacct:/x\n9:memory:/jobs/7\n0::/init.scope\n",
                V1,
                &[
                    ("/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "9223372036854771712\n"),
                    ("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "314572800\n"),
                ],
                Some(300 * MIB),
            ),
            (
                "version 1, in a container",
                "9:memory:/docker/ab\n",
                V1_CONTAINER,
                &[("/sys/fs/cgroup/memory/memory.limit_in_bytes", "314572800\n")],
                Some(300 * MIB),
            ),
            (
                "version 1, a limit above what the container sees",
                "9:memory:/docker/ab\n",
                V1_CONTAINER,
                &[
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                    ("/sys/fs/cgroup/memory/memory.stat", "cache 5\nhierarchical_memory_limit 104857600\n"),
                ],
                Some(100 * MIB),
            ),
            (
                "both versions at once: memory is counted by one",
                "9:memory:/m\n0::/u\n",
                &both,
                &[("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "314572800\n")],
                Some(300 * MIB),
            ),
            (
                "a mount point with a space",
                "0::/s\n",
                r"30 23 0:26 / /odd\040place rw - cgroup2 none rw",
                &[("/odd place/s/memory.max", "314572800\n")],
                Some(300 * MIB),
            ),
            ("nonsense", "0\n:\n::\n", "- \n30 - cgroup2\n\\9", &[], None),
        ]);
        assert_eq!(memory_limit(|_| None), None);
    }
}
