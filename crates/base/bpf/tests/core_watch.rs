//! The programs that watch a core, on this kernel: who made a thread wait, and when.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use linerate_bpf::BpfError;
use linerate_bpf::programs::core_watch::{CORES_MAX, CoreWatch, Taken, Taker};
use linerate_sys::{affinity, clock};

/// None, having said why, where this user may not watch a core.
fn attached(core: u32) -> Option<CoreWatch> {
    match CoreWatch::attach(&[core], 200_000) {
        Ok(watch) => Some(watch),
        Err(error @ BpfError::Permission { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A core of this process: not the first one, on which most interrupts come.
fn core() -> u32 {
    affinity::allowed_cores().last().copied().unwrap_or(0) as u32
}

/// Spins on the core before all ordinary threads; from when to when. None, having said why, where that is not allowed.
fn spin(core: u32, for_ns: u64) -> Option<(u64, u64)> {
    affinity::pin_to_core(core as usize).expect("one of our cores");
    if let Err(error) = affinity::set_fifo(0, 50) {
        assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
        eprintln!("skipped: a thread of the class SCHED_FIFO: {error}");
        return None;
    }
    let start_ns = clock::now_ns();
    while clock::now_ns() < start_ns + for_ns {}
    Some((start_ns, clock::now_ns()))
}

/// What was recorded while `disturb` ran beside a thread of interest that works on the core all the time.
fn recorded(watch: &CoreWatch, core: u32, disturb: impl FnOnce()) -> (Vec<Taken>, bool) {
    let (thread, works, stop) = (AtomicU32::new(0), AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let working = scope.spawn(|| {
            affinity::pin_to_core(core as usize).expect("one of our cores");
            thread.store(affinity::thread_id() as u32, Ordering::Release);
            // Off the core and on it again, now that its number is known.
            while !watch.has_seen(core, affinity::thread_id() as u32) && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            works.store(true, Ordering::Release);
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        while thread.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        let number = thread.load(Ordering::Acquire);
        watch.start();
        assert!(watch.watch(core, number));
        let give_up_ns = clock::now_ns() + 5_000_000_000;
        while !watch.has_seen(core, number) && clock::now_ns() < give_up_ns {
            std::thread::sleep(Duration::from_millis(1));
        }
        let seen = watch.has_seen(core, number);
        while seen && !works.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        disturb();
        stop.store(true, Ordering::Relaxed);
        working.join().expect("the thread of interest");
        // It leaves its core for good only after it was joined.
        std::thread::sleep(Duration::from_millis(50));
        (watch.taken().0, seen)
    })
}

#[test]
fn who_made_a_thread_wait_and_when() {
    let core = core();
    let Some(watch) = attached(core) else { return };
    // On a busy machine others run before and after the spinner, in one wait, and perhaps for longer: then they are named.
    let mut others = Vec::new();
    for _ in 0..50 {
        let mut spun = None;
        let disturb = || {
            let spinner = std::thread::Builder::new().name("spinner".into());
            spun = spinner.spawn(move || spin(core, 3_000_000)).expect("a thread").join().expect("it spins");
        };
        let (taken, seen) = recorded(&watch, core, disturb);
        let Some((start_ns, end_ns)) = spun else { return };
        // It had the core from before its first reading of the clock until after its last one.
        let slack_ns = 20_000;
        let whole = |taken: &&Taken| taken.start_ns <= start_ns + slack_ns && taken.end_ns + slack_ns >= end_ns;
        let found: Vec<&Taken> = taken.iter().filter(whole).collect();
        let named = |taken: &&Taken| matches!(&taken.by, Taker::Task { name, .. } if name == "spinner");
        if let (true, [found], Some(by_spinner)) = (seen, &found[..], found.iter().find(|taken| named(taken))) {
            let Taker::Task { process, switches, .. } = &by_spinner.by else { return };
            assert_eq!((*process, found.core), (std::process::id(), core));
            assert!(*switches >= 1);
            return;
        }
        others.push((seen, (start_ns, end_ns), taken));
    }
    panic!("in no attempt the spinner was found: {others:?}");
}

#[test]
fn nobody_waits_on_a_core_that_is_not_looked_at() {
    let core = core();
    let Some(watch) = attached(core + 1) else { return };
    assert!(!watch.watch(core, affinity::thread_id() as u32));
    assert!(!watch.has_seen(core, affinity::thread_id() as u32));
    spin(core, 2_000_000);
    assert_eq!(watch.taken(), (Vec::new(), 0));
}

#[test]
fn what_cannot_be_attached_says_why() {
    for cores in [Vec::new(), (0..CORES_MAX as u32 + 1).collect()] {
        let error = CoreWatch::attach(&cores, 1).expect_err("no core, or too many");
        assert!(matches!(error, BpfError::Argument(_)), "{error}");
    }
}
