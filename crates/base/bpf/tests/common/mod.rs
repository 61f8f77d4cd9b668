//! What the tests share: a private network namespace with a veth pair in it. Each test binary uses a part.
#![allow(dead_code)]

pub mod frames;
pub mod sys;

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use linerate_sys::netns::NetNs;

/// Interface index of the sending end of the pair.
pub const NEAR: u32 = 10;
/// Interface index of the receiving end.
pub const FAR: u32 = 11;

/// Runs `test` in a thread with a network namespace of its own, which dies with the thread and what
/// it holds open. Prints why it is skipped where the machine does not allow it.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("test").to_owned();
    let body = move || {
        if let Err(error) = NetNs::anonymous().and_then(|namespace| namespace.enter()) {
            eprintln!("skipped: no network namespace: {error}");
            return;
        }
        if let Err(error) = linerate_bpf::Map::array("probe", 8, 1) {
            eprintln!("skipped: {error}");
            return;
        }
        test();
    };
    let joined = thread::Builder::new().name(name).spawn(body).unwrap().join();
    if let Err(panic) = joined {
        std::panic::resume_unwind(panic);
    }
}

/// Makes the pair `near` - `far`, without IPv6 so that it is silent, and sets both up; false, having said why, where that cannot be.
pub fn make_pair() -> bool {
    for scope in ["all", "default"] {
        // Where there is no IPv6, there is nothing to switch off.
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    let near = NEAR.to_string();
    let far = FAR.to_string();
    let add = ["link", "add", "name", "near", "index", &near, "type", "veth", "peer", "name", "far"];
    ip(&[&add[..], &["index", &far]].concat())
        && ip(&["link", "set", "near", "up"])
        && ip(&["link", "set", "far", "up"])
}

/// The interface's count of frames dropped on transmit.
pub fn transmit_drops(interface: &str) -> u64 {
    device_count(interface, 11)
}

/// A column of the interface's line in /proc/PID/net/dev (proc_pid_net(5)): 1 packets received, 11 dropped on transmit.
pub fn device_count(interface: &str, column: usize) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{interface}:")));
    line.unwrap().split_whitespace().nth(column).unwrap().parse().unwrap()
}

/// Runs ip(8) in this thread's namespace.
pub fn ip(arguments: &[&str]) -> bool {
    match Command::new("ip").args(arguments).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            let words = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: ip {arguments:?}: {words}");
            false
        }
        Err(error) => {
            eprintln!("skipped: ip: {error}");
            false
        }
    }
}

/// What ip(8) says.
pub fn ip_text(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits for softirqs on other CPUs, and the like; ends after a generous while, and the assertion after it tells.
pub fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(5));
    }
}
