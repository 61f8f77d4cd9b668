//! The kernel's own word on who had a core: the programs of [`linerate_bpf::programs::core_watch`], attached to a tester's cores.

use std::fs;

use linerate_bpf::programs::core_watch::{CORES_MAX, CoreWatch, Taken, Taker};

use crate::turns::Span;

/// What lasts as long as this is recorded, in nanoseconds.
const RECORDED_NS: u32 = 50_000;

/// A watch on the cores of a tester, kept from one trial to the next.
#[derive(Debug, Default)]
pub struct Watcher {
    watch: Option<CoreWatch>,
    /// Why there is none, once it was tried.
    error: Option<String>,
}

/// What the kernel said about a trial.
#[derive(Debug, Clone, Default)]
pub struct Watched {
    /// In the order of time.
    pub(crate) taken: Vec<TakenBy>,
    /// What it could not say.
    pub(crate) unknown: Vec<String>,
    /// Whether it was asked about tasks at all.
    pub(crate) knows_tasks: bool,
}

/// A time for which a core was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakenBy {
    pub(crate) core: u32,
    pub(crate) span: Span,
    pub(crate) by: Taker,
    /// By the tester, by what it has started, or by the kernel's work on the path.
    pub(crate) is_own: bool,
}

impl Watcher {
    /// Watches these cores anew, with these threads of interest; none where that is not possible.
    pub fn start(&mut self, cores: &[u32], threads: &[(u32, u32)]) -> Option<&CoreWatch> {
        let mut cores = cores.to_vec();
        cores.sort_unstable();
        cores.dedup();
        cores.truncate(CORES_MAX);
        if cores.is_empty() {
            return None;
        }
        if self.watch.as_ref().is_none_or(|watch| watch.cores() != cores) && self.error.is_none() {
            // The old one goes first: two would cost twice.
            self.watch = None;
            match CoreWatch::attach(&cores, RECORDED_NS) {
                Ok(watch) => self.watch = Some(watch),
                Err(error) => self.error = Some(error.to_string()),
            }
        }
        let watch = self.watch.as_ref()?;
        watch.start();
        for (core, thread) in threads {
            watch.watch(*core, *thread);
        }
        Some(watch)
    }

    /// What was recorded since the start, at which these threads of interest (beside those that added themselves) were given.
    pub fn finish(&self, threads: &[(u32, u32)]) -> Watched {
        let Some(watch) = &self.watch else {
            let why = self.error.as_deref().unwrap_or("the threads of this trial are on no cores of their own");
            let unknown = format!("which tasks and interrupts took the cores is not known: {why}");
            return Watched { unknown: vec![unknown], ..Watched::default() };
        };
        let mut watched = Watched { knows_tasks: true, ..Watched::default() };
        let (taken, missed) = watch.taken();
        watched.taken = taken.into_iter().map(TakenBy::new).collect();
        watched.taken.sort_by_key(|taken| taken.span);
        if missed > 0 {
            watched.unknown.push(format!("{missed} times for which cores were taken found no room in the record"));
        }
        // A thread that never ran had nothing to wait for; one with another number in this container is not recognized.
        for (core, thread) in threads.iter().filter(|(core, thread)| !watch.has_seen(*core, *thread)) {
            watched.unknown.push(format!(
                "for how long thread {thread} waited for core {core} is not known: it was not seen there"
            ));
        }
        watched
    }
}

impl Watched {
    /// How long the tester's own tasks kept threads of interest from a core.
    pub(super) fn own_waits_ns(&self, core: Option<u32>) -> u64 {
        let own = self.taken.iter().filter(|taken| taken.is_own && Some(taken.core) == core);
        own.map(|taken| taken.span.length_ns()).sum()
    }
}

impl TakenBy {
    fn new(taken: Taken) -> TakenBy {
        let Taken { core, start_ns, end_ns, by } = taken;
        let is_own = match &by {
            // What soft interrupts leave over runs in ksoftirqd: on the path's cores that is work of the path.
            Taker::Task { process, name, .. } => {
                name.starts_with("ksoftirqd/") || name.starts_with("napi/") || descends_from_here(*process)
            }
            _ => false,
        };
        TakenBy { core, span: Span { start_ns, end_ns }, by, is_own }
    }
}

/// Whether a process is this one, or was started by it.
fn descends_from_here(mut process: u32) -> bool {
    const GENERATIONS_MAX: usize = 16;
    for _ in 0..GENERATIONS_MAX {
        if process == std::process::id() {
            return true;
        }
        match parent(process) {
            Some(parent) if parent > 1 => process = parent,
            _ => return false,
        }
    }
    false
}

fn parent(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name stands in parentheses and may hold anything.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_told_from_others() {
        assert!(descends_from_here(std::process::id()));
        assert!(!descends_from_here(1));
        assert!(!descends_from_here(u32::MAX));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let is_own = descends_from_here(child.id());
        child.kill().expect("ended");
        child.wait().expect("ended");
        assert!(is_own);
    }

    #[test]
    fn without_cores_nothing_is_known() {
        let mut watcher = Watcher::default();
        assert!(watcher.start(&[], &[]).is_none());
        let watched = watcher.finish(&[]);
        assert!(!watched.knows_tasks && watched.taken.is_empty());
        assert!(watched.unknown[0].contains("no cores of their own"), "{:?}", watched.unknown);
    }
}
