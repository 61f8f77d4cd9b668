//! What a run that was ended could leave on the machine, told apart from what others have there: the network namespaces that it held
//! (with them go its interfaces, their threads and XDP programs), pinned programs, and settings of the machine.
#![allow(dead_code)] // Each test binary uses its own part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The kernel takes namespaces down in the background; other tests put settings back that they changed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Folders of machine-wide settings that a lab could want to change.
const SETTINGS: [&str; 3] = ["/proc/sys/net/core", "/proc/sys/net/netfilter", "/proc/sys/net/ipv4"];

/// The machine before any run, and the namespaces that runs have held since.
pub struct Machine {
    settings: BTreeMap<PathBuf, String>,
    pinned: BTreeSet<PathBuf>,
    held: BTreeSet<String>,
    own: String,
}

impl Machine {
    /// As it is now.
    pub fn now() -> Self {
        let own = std::fs::read_link("/proc/self/ns/net").map_or(String::new(), |link| link.display().to_string());
        Self { settings: settings(), pinned: entries("/sys/fs/bpf").collect(), held: BTreeSet::new(), own }
    }

    /// Notes the namespaces that a process holds or works in: call it just before the process is ended.
    pub fn note(&mut self, process: u32) {
        let found = namespaces(&format!("/proc/{process}"));
        self.held.extend(found.into_iter().filter(|namespace| *namespace != self.own));
    }

    /// How many namespaces were seen.
    pub fn seen(&self) -> usize {
        self.held.len()
    }

    /// Waits until nothing of the runs is there.
    pub fn assert_nothing_left(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {left:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for process in
            entries("/proc").filter(|path| path.join("ns").exists() && is_marked(path) && !descends_from_here(path))
        {
            let there = namespaces(&process.display().to_string());
            let ours =
                there.intersection(&self.held).map(|name| format!("{} is in or holds {name}", process.display()));
            left.extend(ours);
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        left.extend(self.held.iter().filter(|name| mounts.contains(*name)).map(|name| format!("{name} is mounted")));
        let pinned: BTreeSet<PathBuf> = entries("/sys/fs/bpf").collect();
        left.extend(pinned.difference(&self.pinned).map(|path| format!("{} is pinned", path.display())));
        let now = settings();
        let changed = self.settings.iter().filter(|(path, value)| now.get(*path).is_some_and(|other| other != *value));
        left.extend(changed.map(|(path, value)| format!("{} was {value}", path.display())));
        left
    }
}

/// Marks what a test of this process runs, and all that this starts: the numbers of namespaces that are gone come again, in programs
/// of others, too, which are none of a test's business.
pub fn mark(command: &mut Command) -> &mut Command {
    command.env(MARK, std::process::id().to_string())
}

const MARK: &str = "LINERATE_TEST_RUNS";

fn is_marked(process: &Path) -> bool {
    let mark = format!("{MARK}={}", std::process::id());
    let environment = std::fs::read(process.join("environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
}

/// Whether a process is this one, or was started by it or by one that was. What a run leaves behind has lost its parent; what
/// has one belongs to a test beside this one, and its namespaces may have the numbers of those that are gone.
fn descends_from_here(process: &Path) -> bool {
    let parent = |process: &Path| {
        let status = std::fs::read_to_string(process.join("status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:")).map(|number| Path::new("/proc").join(number.trim()))
    };
    let here = Path::new("/proc").join(std::process::id().to_string());
    std::iter::successors(Some(process.to_owned()), |process| parent(process)).any(|process| process == here)
}

/// Network namespaces that a process or one of its threads is in, or holds open.
fn namespaces(process: &str) -> BTreeSet<String> {
    let threads = entries(&format!("{process}/task")).map(|thread| thread.join("ns/net"));
    let links = entries(&format!("{process}/fd")).chain(threads);
    let names = links.filter_map(|link| std::fs::read_link(link).ok()).map(|target| target.display().to_string());
    names.filter(|name| name.starts_with("net:[")).collect()
}

fn entries(folder: &str) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Settings that are values, not counts of what happens now.
fn settings() -> BTreeMap<PathBuf, String> {
    let is_count = |path: &PathBuf| path.ends_with("nf_conntrack_count");
    let files = SETTINGS.iter().flat_map(|folder| entries(folder)).filter(|path| path.is_file() && !is_count(path));
    files.filter_map(|path| Some((path.clone(), std::fs::read_to_string(&path).ok()?.trim().to_owned()))).collect()
}
