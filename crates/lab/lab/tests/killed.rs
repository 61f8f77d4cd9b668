//! A run that is killed leaves nothing: its namespaces go with it, and the NAPI thread of the DUT's ingress with them.
//!
//! Without the test harness, because it starts itself again and kills that.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use linerate_lab::placement::{Mode, Placement};
use linerate_lab::topology::{Topology, TopologySpec};

const CHILD: &str = "LINERATE_TEST_KILLED";

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match std::env::var_os(CHILD) {
        Some(_) => build_and_wait(),
        None => kill_and_look(),
    }
    ExitCode::SUCCESS
}

/// Prints the NAPI thread of a new router, or why there is none, and waits to be killed.
fn build_and_wait() {
    let spec = TopologySpec { placement: Placement::Thread { core: None }, ..TopologySpec::default() };
    let topology = match Topology::router(&spec) {
        Ok(topology) => topology,
        Err(error) => return println!("skipped: {error}"),
    };
    match topology.mode() {
        Mode::Floating { threads, .. } if !threads.is_empty() => println!("{}", threads[0]),
        mode => return println!("skipped: the DUT runs {mode}"),
    }
    // The parent kills this process; should the parent be gone, it ends by itself.
    std::thread::sleep(Duration::from_secs(60));
}

fn kill_and_look() {
    let child = Command::new("/proc/self/exe").env(CHILD, "1").stdout(Stdio::piped()).spawn();
    let mut child = child.expect("start again");
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let Ok(thread) = line.trim().parse::<u32>() else {
        let _ = child.wait();
        return eprintln!("{}", line.trim());
    };
    let name = std::fs::read_to_string(format!("/proc/{thread}/comm")).expect("the thread is there");
    assert!(name.starts_with("napi/lr-in"), "{name}");
    // SIGKILL.
    child.kill().expect("kill");
    child.wait().expect("it is gone");
    let deadline = Instant::now() + Duration::from_secs(30);
    while Path::new("/proc").join(thread.to_string()).exists() {
        assert!(Instant::now() < deadline, "the NAPI thread outlives its process");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(linerate_lab::cleanup::left_behind().iter().all(|name| !name.contains(&child.id().to_string())));
}
