//! A run that is killed leaves nothing: its namespaces go with it, the NAPI thread of the DUT's ingress with them, and the
//! processes of its device; what files those had are found and removed.
//!
//! Without the test harness, because it starts itself again and kills that.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use linerate_experiment::{DutKind, DutSpec};
use linerate_testbed::dut;
use linerate_testbed::dut::flow_table::FlowSwitch;
use linerate_testbed::dut::ovs::OpenVswitch;
use linerate_testbed::placement::{Mode, Placement};
use linerate_testbed::topology::{Topology, TopologySpec};
use linerate_testkit::may_skip;

const CHILD: &str = "LINERATE_TEST_KILLED";

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    match std::env::var(CHILD).as_deref() {
        Ok("router") => build_and_wait(),
        Ok(_) => start_and_wait(),
        Err(_) => {
            kill_and_look();
            kill_with_device_and_look();
        }
    }
    ExitCode::SUCCESS
}

/// Prints the NAPI thread of a new router, or why there is none, and waits to be killed.
fn build_and_wait() {
    let spec = TopologySpec { placement: Placement::Thread { core: None }, ..TopologySpec::default() };
    let topology = match Topology::router(&spec) {
        Ok(topology) => topology,
        Err(error) if may_skip(&error) => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    match topology.mode() {
        Mode::Floating { threads, .. } if !threads.is_empty() => println!("{}", threads[0]),
        mode => return println!("skipped: the DUT runs {mode}"),
    }
    // The parent kills this process; should the parent be gone, it ends by itself.
    std::thread::sleep(Duration::from_secs(60));
}

fn kill_and_look() {
    let child = Command::new("/proc/self/exe").env(CHILD, "router").stdout(Stdio::piped()).spawn();
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
    let deadline = Instant::now() + Duration::from_secs(60);
    while Path::new("/proc").join(thread.to_string()).exists() {
        assert!(Instant::now() < deadline, "the NAPI thread outlives its process");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        linerate_testbed::cleanup::left_behind()
            .iter()
            .all(|name| !name.starts_with(&format!("linerate-{}-", child.id())))
    );
}

/// Starts an Open vSwitch, or a program that starts another one where there is none, and waits to be killed.
fn start_and_wait() {
    let mark = mark(std::process::id());
    let script = format!("sh -c 'while :; do sleep 0.1; done' {mark} & while :; do sleep 0.1; done");
    let start = ["sh", "-c", &script].map(str::to_owned).into();
    let program = DutKind::from(linerate_testbed::dut::command::Command { start, ..Default::default() });
    let devices: Vec<_> = [DutKind::from(OpenVswitch(FlowSwitch::default())), program]
        .into_iter()
        .map(|kind| dut::build(&DutSpec { name: "dut".into(), kind }, &TopologySpec::default()))
        .collect();
    match devices.as_slice() {
        [_, Err(error)] if may_skip(error) => return println!("skipped: {error}"),
        [Err(error), Ok(_)] if may_skip(error) => println!("skipped in part: {error}"),
        [Ok(_), Ok(_)] => println!("started"),
        errors => panic!("{:?}", errors.iter().map(|built| built.as_ref().err()).collect::<Vec<_>>()),
    }
    std::thread::sleep(Duration::from_secs(60));
}

fn kill_with_device_and_look() {
    let child = Command::new("/proc/self/exe").env(CHILD, "device").stdout(Stdio::piped()).spawn();
    let mut child = child.expect("start again");
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    eprintln!("{}", line.trim());
    if line.starts_with("skipped:") {
        child.wait().expect("it is gone");
        return;
    }
    let mark = mark(child.id());
    // The program was started; it starts its child when it has a core.
    let deadline = Instant::now() + Duration::from_secs(60);
    while processes_with(&mark) < 2 {
        assert!(Instant::now() < deadline, "the program has no child");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("kill");
    child.wait().expect("it is gone");
    let deadline = Instant::now() + Duration::from_secs(60);
    while processes_with(&mark) > 0 {
        assert!(Instant::now() < deadline, "{} processes outlive it", processes_with(&mark));
        std::thread::sleep(Duration::from_millis(20));
    }
    let removed = linerate_testbed::cleanup::remove_left_behind();
    assert!(removed.iter().all(|(name, error)| !name.contains(&mark) || error.is_none()), "{removed:?}");
    let left = std::fs::read_dir(std::env::temp_dir()).expect("a folder").flatten();
    assert!(left.filter(|entry| entry.file_name().to_string_lossy().contains(&mark)).count() == 0);
}

/// What the command lines and files of that process's devices have in common.
fn mark(process: u32) -> String {
    format!("linerate-{process}-dut-")
}

fn processes_with(mark: &str) -> usize {
    let entries = std::fs::read_dir("/proc").expect("/proc").flatten();
    let command = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
    entries.filter_map(command).filter(|command| command.contains(mark)).count()
}
