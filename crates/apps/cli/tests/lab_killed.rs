//! Ctrl-C and kill -9 at random moments of a run: it ends at once, keeps what it had, goes on, and leaves nothing after
//! `lab clean`: no namespace with its interfaces and programs, no process, no setting of the machine.

mod lab_support;
mod left_behind;

use std::process::Child;
use std::time::{Duration, Instant};

use lab_support::{Ended, Experiment, TINY, assert_accounts, can_measure, load, signal};
use left_behind::Machine;

/// Longest time from the signal to the end of the process, on a busy machine: a trial is 50 ms, a path at rest 2 s.
const END_MAX: Duration = Duration::from_secs(60);
const MOMENTS: u32 = 10;
/// A run takes some seconds; moments are spread over its beginning and middle.
const MOMENT_MAX_MS: u64 = 2_500;

/// Moments that differ from run to run of the test, and are printed, so that a failure can be tried again.
fn moments() -> Vec<u64> {
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let mut state = seed | 1;
    let mut next = || {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % MOMENT_MAX_MS
    };
    (0..MOMENTS).map(|_| next()).collect()
}

fn end_at(place: &Experiment, machine: &mut Machine, name: &str, moment_ms: u64) -> Ended {
    let child: Child = place.start_as(left_behind::mark);
    std::thread::sleep(Duration::from_millis(moment_ms));
    machine.note(child.id());
    signal(&child, name);
    let signalled = Instant::now();
    let ended = Ended::from(child.wait_with_output().expect("own child"));
    assert!(signalled.elapsed() < END_MAX, "{name} after {moment_ms} ms: it took {:?} to end", signalled.elapsed());
    ended
}

/// A program as the first device, so that there is a process to leave behind: [`lab_support::NO_FORWARDER`].
fn with_program() -> String {
    let program = "[[dut]]\nname = \"program\"\nkind = \"command\"\nstart = [\"sleep\", \"1000\"]\n[[dut]]";
    TINY.replacen("[[dut]]", program, 1)
}

fn at_random_moments(name: &str, is_expected: impl Fn(&Ended) -> bool) {
    let place = Experiment::new(&with_program());
    let mut machine = Machine::now();
    for moment_ms in moments() {
        eprintln!("{name} after {moment_ms} ms");
        let ended = end_at(&place, &mut machine, name, moment_ms);
        if !can_measure(&ended) {
            return;
        }
        assert!(is_expected(&ended), "after {moment_ms} ms: {ended:?}");
        for run in place.runs() {
            assert_accounts(&load(&run));
        }
    }
    let cleaned = place.lab(&["clean"]);
    assert_eq!(cleaned.code, Some(0), "{}", cleaned.stderr);
    place.assert_nothing_left();
    eprintln!("{} network namespaces were held at those moments", machine.seen());
    machine.assert_nothing_left();
    let again = place.lab(&["clean"]);
    assert!(again.stdout.contains("nothing was left behind"), "{} {}", again.stdout, again.stderr);
    let ended = place.lab(&["run", &place.file(), "--plain", "--yes"]);
    assert!(matches!(ended.code, Some(0 | 1)), "it goes on to its end: {}", ended.stderr);
    assert!(place.runs().iter().any(|run| load(run)["complete"] == true));
}

#[test]
fn ctrl_c_at_ten_random_moments() {
    // Before its signals are caught the process simply ends; after its last trial it is done.
    at_random_moments("INT", |ended| matches!(ended.code, None | Some(0..=2)));
}

#[test]
fn kill_at_ten_random_moments() {
    at_random_moments("KILL", |ended| matches!(ended.code, None | Some(0 | 1)));
}
