//! Runs the binary, reads its lines while it works, and ends it when a test ends. Shared by the test binaries.
#![allow(dead_code)] // Each test binary uses its own part.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_sys::netdev::Netdev;
use linerate_sys::netns::NetNs;
use linerate_sys::veth::{self, VethEnd};
use linerate_testkit::or_skip;

/// Longer than any run of these tests takes on a busy machine; reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(180);

/// A running `linerate`.
pub struct Run {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Option<JoinHandle<()>>,
    errors: Arc<Mutex<String>>,
}

/// A finished one.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Starts the binary with the words of `line`.
    pub fn start(line: &str) -> Run {
        Run::from(Command::new(env!("CARGO_BIN_EXE_linerate")).args(line.split_whitespace()))
    }

    /// Starts it inside a network namespace.
    pub fn start_in(namespace: &NetNs, line: &str) -> Run {
        namespace.run(|| Run::start(line)).expect("enter the namespace")
    }

    /// Starts a command that the test made.
    pub fn from(command: &mut Command) -> Run {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stdout = child.stdout.take().expect("piped");
        let stderr = child.stderr.take().expect("piped");
        let errors = Arc::new(Mutex::new(String::new()));
        let kept = Arc::clone(&errors);
        Run {
            child,
            stdout: Some(std::thread::spawn(move || {
                let mut text = String::new();
                stdout.read_to_string(&mut text).expect("UTF-8");
                text
            })),
            stderr: Some(std::thread::spawn(move || {
                for line in BufReader::new(stderr).lines() {
                    let mut text = kept.lock().expect("no panic");
                    *text += &line.expect("UTF-8");
                    text.push('\n');
                }
            })),
            errors,
        }
    }

    /// What it has written to stderr so far.
    pub fn stderr(&self) -> String {
        self.errors.lock().expect("no panic").clone()
    }

    /// Waits until stderr satisfies `condition`.
    pub fn wait_for(&self, what: &str, condition: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !condition(&self.stderr()) {
            assert!(Instant::now() < deadline, "no {what} within {PATIENCE:?}:\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the threads have started.
    pub fn wait_until_ready(&self) {
        self.wait_for("Ready...", |text| text.contains("Ready..."));
    }

    /// Sends it a signal by name.
    pub fn signal(&self, name: &str) {
        // The shell's own kill, which is there on every system.
        let status = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status();
        let status = status.expect("a shell");
        assert!(status.success());
    }

    /// A field of /proc/PID/status in kB.
    pub fn status_kb(&self, name: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("running");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).expect("field");
        line.split_whitespace().next().and_then(|number| number.parse().ok()).expect("number")
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().expect("own child") {
                Some(status) => break status,
                None => assert!(Instant::now() < deadline, "still running:\n{}", self.stderr()),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let stdout = self.stdout.take().expect("once").join().expect("reader");
        self.stderr.take().expect("once").join().expect("reader");
        Ended { status, stdout, stderr: self.stderr() }
    }
}

impl Drop for Run {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Ended {
    /// Checks the exit code.
    pub fn expect_code(&self, code: i32) -> &Ended {
        assert_eq!(self.status.code(), Some(code), "stdout:\n{}stderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Packets and bytes of the totals that begin with `did`, taken apart as scripts do.
    pub fn totals(&self, did: &str) -> (u64, u64) {
        let line = self.stdout.lines().find(|line| line.starts_with(&format!("{did} ")));
        let line = line.unwrap_or_else(|| panic!("no {did} in\n{}\n{}", self.stdout, self.stderr));
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[1..] == ["nothing."] {
            return (0, 0);
        }
        assert_eq!((words[2], words[4], words[6]), ("packets", "bytes", "events"), "{line}");
        (words[1].parse().expect("packets"), words[3].parse().expect("bytes"))
    }

    /// Packets that the run says its port lost.
    pub fn lost(&self) -> u64 {
        let lost = self.stderr.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.windows(3).position(|words| words == ["packets", "lost", "at"])?;
            words.get(at.checked_sub(1)?)?.parse::<u64>().ok()
        });
        lost.sum()
    }
}

/// A veth pair, each end in a namespace of its own.
pub struct Wire {
    pub left: NetNs,
    pub right: NetNs,
}

/// Packets that the interface of a namespace dropped instead of sending, by the kernel's count.
pub fn dropped_sending(namespace: &NetNs) -> u64 {
    let text = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/dev")).expect("enter").expect("/proc");
    let line = text.lines().find_map(|line| line.trim().strip_prefix(INTERFACE)?.strip_prefix(':')).expect("interface");
    // Eight columns of receiving, then bytes, packets, errors and drops of sending.
    line.split_whitespace().nth(11).and_then(|number| number.parse().ok()).expect("number")
}

/// Name of both ends.
pub const INTERFACE: &str = "veth0";

impl Wire {
    /// `None`, and a line that says why, where this machine does not allow it.
    pub fn new(queues: u32) -> Option<Wire> {
        let namespace = || or_skip("no network namespace", NetNs::anonymous());
        let (left, right) = (namespace()?, namespace()?);
        let end = |namespace| VethEnd { name: INTERFACE, namespace };
        or_skip("no veth pair", veth::create(end(&left), end(&right), queues))?;
        let wire = Wire { left, right };
        bring_up((&wire.left, INTERFACE), (&wire.right, INTERFACE));
        Some(wire)
    }
}

/// Two veth pairs in a row: `left` has veth0, whose far end is `near` in `middle`, which also has `far`, whose far end is veth0
/// in `right`.
pub struct Chain {
    pub left: NetNs,
    pub middle: NetNs,
    pub right: NetNs,
}

impl Chain {
    /// `None`, and a line that says why, where this machine does not allow it.
    pub fn new() -> Option<Chain> {
        Chain::with_queues(1)
    }

    /// As [`Chain::new`]; each end of a pair has so many queues.
    pub fn with_queues(queues: u32) -> Option<Chain> {
        let namespace = || or_skip("no network namespace", NetNs::anonymous());
        let (left, middle, right) = (namespace()?, namespace()?, namespace()?);
        for (outer, inner) in [(&left, "near"), (&right, "far")] {
            let inside = VethEnd { name: inner, namespace: &middle };
            let pair = veth::create(VethEnd { name: INTERFACE, namespace: outer }, inside, queues);
            or_skip("no veth pair", pair)?;
            bring_up((outer, INTERFACE), (&middle, inner));
        }
        Some(Chain { left, middle, right })
    }

    /// Takes the second pair away.
    pub fn delete_far(&self) {
        let deleted = self.middle.run(|| Command::new("ip").args(["link", "delete", "far"]).status());
        assert!(deleted.expect("enter").expect("ip").success());
    }
}

/// Sets both ends of a pair up, silent.
fn bring_up(one: (&NetNs, &str), other: (&NetNs, &str)) {
    let [one, other] = [one, other].map(|(namespace, interface)| {
        let opened = namespace.run(|| {
            // Without IPv6 the kernel sends nothing by itself here.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"), "1");
            Netdev::open(interface)
        });
        opened.expect("enter").expect("there")
    });
    veth::bring_up(&one, &other).expect("up");
}
