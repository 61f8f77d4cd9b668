//! This test binary again, as a process that holds a port and is killed.
//!
//! ```no_run
//! use linerate_testkit::child::{self, Child, Signal};
//!
//! // #[test] - runs in the child only; does nothing when the suite runs it as a test.
//! fn child_port() {
//!     let Some(name) = child::task() else { return };
//!     // ... opens `name`, and holds it ...
//!     child::ready_and_wait();
//! }
//!
//! fn left_behind() -> std::io::Result<()> {
//!     let child = Child::start("child_port", "veth0")?;
//!     child.end(Signal::Kill)?;
//!     // ... looks for what is left ...
//!     Ok(())
//! }
//! ```
//! The child ends by itself when its parent dies: it waits for the end of its standard input.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{self, Command, Stdio};

const TASK: &str = "LINERATE_TESTKIT_TASK";
const READY: &str = "testkit child is ready";

/// What the parent gave to [`Child::start`]; `None` when this process is no child.
pub fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Tells the parent that the port is open, then holds it until the parent ends this process, or dies.
pub fn ready_and_wait() {
    println!("{READY}");
    let _ = io::stdin().read_to_end(&mut Vec::new());
}

/// How to end a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, as Ctrl-C does.
    Interrupt,
    /// SIGKILL.
    Kill,
}

/// A running child.
pub struct Child {
    process: process::Child,
}

impl Child {
    /// Runs test `test` of this binary in a new process, with `task` for it, and returns when it is ready.
    pub fn start(test: &str, task: &str) -> io::Result<Child> {
        let process = Command::new(std::env::current_exe()?)
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(TASK, task)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut child = Child { process };
        let Some(output) = child.process.stdout.take() else { return Err(io::Error::other("no output")) };
        for line in BufReader::new(output).lines() {
            if line?.ends_with(READY) {
                return Ok(child);
            }
        }
        Err(io::Error::other(format!("the child that runs test {test} ended before it was ready")))
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends the child and waits until it is gone.
    pub fn end(mut self, signal: Signal) -> io::Result<process::ExitStatus> {
        match signal {
            Signal::Kill => self.process.kill()?,
            Signal::Interrupt => {
                let pid = self.process.id();
                let sent = Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status()?;
                if !sent.success() {
                    return Err(io::Error::other("kill -INT failed"));
                }
            }
        }
        self.process.wait()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
