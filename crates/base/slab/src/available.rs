//! How much memory the kernel can still give to this process.

use std::path::Path;

/// Bytes that can be taken without swapping and without a process being ended for it: the least of what the machine has available
/// (`MemAvailable` of proc(5)) and what the control groups of this process leave to it (`memory.max` of version 2). `None` if the kernel
/// tells neither.
pub(crate) fn available_bytes() -> Option<u64> {
    [machine(), groups()].into_iter().flatten().min()
}

fn machine() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn groups() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let root = Path::new("/sys/fs/cgroup");
    root.join(own).ancestors().take_while(|group| group.starts_with(root)).filter_map(left_in).min()
}

/// Bytes that a control group may still take. Pages of files that nobody used lately are given up for it.
fn left_in(group: &Path) -> Option<u64> {
    let read = |name| std::fs::read_to_string(group.join(name)).ok();
    let number = |name| read(name)?.trim().parse::<u64>().ok();
    let (most, used) = (number("memory.max")?, number("memory.current")?);
    let stat = read("memory.stat").unwrap_or_default();
    let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
    Some(most.saturating_sub(used.saturating_sub(files.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter shows no /proc")]
    fn linux_tells_how_much_is_available() {
        let bytes = available_bytes().expect("/proc/meminfo has MemAvailable since Linux 3.14");
        assert!((1 << 20..1 << 50).contains(&bytes), "{bytes}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "the interpreter isolates files")]
    fn a_group_leaves_what_it_does_not_use_and_what_files_take() {
        let group = std::env::temp_dir().join(format!("linerate-slab-group-{}", std::process::id()));
        std::fs::create_dir_all(&group).unwrap();
        let left = |most: &str, used: &str, stat: &str| {
            for (name, text) in [("memory.max", most), ("memory.current", used), ("memory.stat", stat)] {
                std::fs::write(group.join(name), text).unwrap();
            }
            left_in(&group)
        };
        assert_eq!(left("1000\n", "700\n", "anon 600\ninactive_file 100\n"), Some(400));
        assert_eq!(left("1000\n", "700\n", ""), Some(300));
        assert_eq!(left("1000\n", "1200\n", "inactive_file 1\n"), Some(0));
        assert_eq!(left("max\n", "700\n", ""), None);
        std::fs::remove_dir_all(&group).unwrap();
    }
}
