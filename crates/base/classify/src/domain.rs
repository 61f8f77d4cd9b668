//! When may memory that readers saw be used again: quiescent states (QSBR), as in liburcu and DPDK's `rte_rcu_qsbr`.
//!
//! ```text
//! version   written by writers: one more for each change that somebody waits for
//! seen      one line a worker, written by it alone: the version that it loaded at its last quiet point, or PARKED
//! ```
//!
//! A worker has a quiet point between two batches, when it holds no reference to shared values. A writer takes a value out of
//! reach, then advances the version to `v`. Once each worker has seen `v` or is parked, none can hold the value any more.

use crate::primitive::{Arc, AtomicBool, AtomicU64, Ordering, fence};

/// What `seen` is of a worker that holds nothing and is not at work.
const PARKED: u64 = u64::MAX;

/// Two cache lines: neighbouring lines are fetched together on current x86 parts.
#[repr(align(128))]
struct Line<T>(T);

struct Seat {
    seen: AtomicU64,
    taken: AtomicBool,
}

pub(crate) struct Shared {
    version: Line<AtomicU64>,
    seats: Box<[Line<Seat>]>,
}

/// A set of workers that read, and the version of what they read. Clones stand for the same domain.
#[derive(Clone)]
pub struct Domain(pub(crate) Arc<Shared>);

impl Domain {
    /// A domain in which up to `workers_max` workers read at a time.
    pub fn new(workers_max: usize) -> Domain {
        let seat = || Line(Seat { seen: AtomicU64::new(PARKED), taken: AtomicBool::new(false) });
        let seats = (0..workers_max).map(|_| seat()).collect();
        Domain(Arc::new(Shared { version: Line(AtomicU64::new(1)), seats }))
    }

    /// A worker, parked; `None` if there are as many as the domain has room for. Its place is free again when it is dropped.
    pub fn worker(&self) -> Option<Worker> {
        let free =
            |seat: &Line<Seat>| seat.0.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let seat = self.0.seats.iter().position(free)?;
        Some(Worker { domain: self.clone(), seat, seen: PARKED })
    }

    /// The current version.
    pub fn version(&self) -> u64 {
        self.0.version.0.load(Ordering::Acquire)
    }

    /// Begins a new version and returns it. A worker that has seen it sees every change that this thread made before.
    pub fn advance(&self) -> u64 {
        self.0.version.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// True if each worker has seen `version` or is parked. Does not wait.
    pub fn quiesced(&self, version: u64) -> bool {
        self.oldest() >= version
    }

    /// The oldest version that a worker saw last; the largest number if all are parked.
    pub(crate) fn oldest(&self) -> u64 {
        // Beside the fence of a worker that unparks: either its seat is seen as in use here, or it sees what this thread
        // changed before.
        fence(Ordering::SeqCst);
        self.0.seats.iter().map(|seat| seat.0.seen.load(Ordering::Acquire)).min().unwrap_or(PARKED)
    }
}

/// One thread that reads. It holds references only while it holds a [`Guard`], so each [`Worker::enter`] is a quiet point.
pub struct Worker {
    domain: Domain,
    seat: usize,
    seen: u64,
}

impl Worker {
    /// Passes a quiet point and begins to read: once a batch. A parked worker is not parked any more.
    #[inline]
    pub fn enter(&mut self) -> Guard<'_> {
        let version = self.domain.0.version.0.load(Ordering::Acquire);
        if version != self.seen {
            self.pass(version);
        }
        Guard { worker: self }
    }

    #[cold]
    fn pass(&mut self, version: u64) {
        let shared = &*self.domain.0;
        let seen = &shared.seats[self.seat].0.seen;
        self.seen = version;
        if seen.load(Ordering::Relaxed) == PARKED {
            seen.store(version, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            self.seen = shared.version.0.load(Ordering::Acquire);
        }
        seen.store(self.seen, Ordering::Release);
    }

    /// Passes a quiet point and stops reading: nobody waits for this worker until it enters again. For a worker that sleeps.
    pub fn park(&mut self) {
        self.seen = PARKED;
        self.domain.0.seats[self.seat].0.seen.store(PARKED, Ordering::Release);
    }

    /// The domain that the worker belongs to.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.park();
        self.domain.0.seats[self.seat].0.taken.store(false, Ordering::Release);
    }
}

/// A worker between two quiet points: shared values that it sees stay where they are.
pub struct Guard<'w> {
    worker: &'w Worker,
}

impl Guard<'_> {
    /// The version that the worker saw when it entered. Each change made before that version began is visible.
    #[inline]
    pub fn version(&self) -> u64 {
        self.worker.seen
    }

    /// # Panics
    /// If the guard is of a worker of another domain, which would not protect what is read.
    #[inline]
    pub(crate) fn assert_of(&self, domain: &Domain) {
        assert!(Arc::ptr_eq(&self.worker.domain.0, &domain.0), "the guard is of another domain");
    }
}

/// Values that nobody can reach any more, but that workers may still hold.
pub(crate) struct Limbo<T> {
    domain: Domain,
    /// Not covered by a version yet.
    fresh: Vec<T>,
    /// With the version that each worker must have seen, oldest first.
    tagged: std::collections::VecDeque<(u64, Vec<T>)>,
    len: usize,
}

/// Values that wait for one version together, so that a version is not begun for each.
const TOGETHER: usize = 64;

impl<T> Limbo<T> {
    pub(crate) fn new(domain: &Domain) -> Limbo<T> {
        Limbo { domain: domain.clone(), fresh: Vec::new(), tagged: Default::default(), len: 0 }
    }

    /// Takes a value that the calling thread has put out of reach before.
    pub(crate) fn put(&mut self, value: T) {
        self.fresh.push(value);
        self.len += 1;
        if self.fresh.len() >= TOGETHER {
            self.tag();
        }
    }

    fn tag(&mut self) {
        if !self.fresh.is_empty() {
            let version = self.domain.advance();
            self.tagged.push_back((version, std::mem::take(&mut self.fresh)));
        }
    }

    /// Values that no worker holds any more.
    pub(crate) fn due(&mut self) -> Vec<T> {
        self.tag();
        let Some((first, _)) = self.tagged.front() else { return Vec::new() };
        let (first, oldest) = (*first, self.domain.oldest());
        let mut due = Vec::new();
        if first <= oldest {
            while let Some((_, values)) = self.tagged.pop_front_if(|(version, _)| *version <= oldest) {
                due.extend(values);
            }
        }
        self.len -= due.len();
        due
    }

    /// All values, due or not: for an owner that keeps them until no reader is left.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        self.len = 0;
        let tagged = self.tagged.drain(..).flat_map(|(_, values)| values);
        tagged.chain(self.fresh.drain(..)).collect()
    }

    /// Values that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_quiet_once_all_workers_have_seen_it_or_are_parked() {
        let domain = Domain::new(2);
        let (mut first, mut second) = (domain.worker().unwrap(), domain.worker().unwrap());
        assert!(domain.worker().is_none());
        let before = first.enter().version();
        let version = domain.advance();
        assert!(version > before && !domain.quiesced(version));
        second.enter();
        assert!(!domain.quiesced(version));
        first.park();
        assert!(domain.quiesced(version));
        let next = domain.advance();
        assert!(!domain.quiesced(next));
        assert_eq!(first.enter().version(), next);
        drop(second);
        assert!(domain.quiesced(next) && domain.worker().is_some());
    }

    #[test]
    fn what_nobody_reaches_waits_for_each_worker() {
        let domain = Domain::new(1);
        let mut worker = domain.worker().unwrap();
        let mut limbo = Limbo::new(&domain);
        worker.enter();
        limbo.put(1);
        assert_eq!((limbo.due(), limbo.len()), (vec![], 1));
        limbo.put(2);
        worker.enter();
        assert_eq!((limbo.due(), limbo.len()), (vec![1], 1));
        worker.enter();
        assert_eq!((limbo.due(), limbo.len()), (vec![2], 0));
    }
}
