//! Child processes: started, asked, timed by the kernel's account of their threads, and ended by their own handle.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Unable;

/// True when `program` is on the path.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/sbin".into()]);
    folders.iter().any(|folder| folder.join(program).is_file())
}

/// A command that others on the machine hardly interrupt, where that is allowed: loops on two cores that wait for each other else
/// measure the scheduler. Not of real-time priority: a DPDK program whose threads share a core then waits for itself for ever.
pub fn undisturbed(program: &str) -> Command {
    let mut command = Command::new("nice");
    // Where it is not allowed, nice(1) says so and runs the program as it is.
    command.args(["-n", "-20", program]);
    command
}

/// Numbers of the threads of a process whose names pass.
fn threads(pid: u32, passes: impl Fn(&str) -> bool) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let name = |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let passing = tasks.flatten().filter(|task| passes(name(task).trim()));
    passing.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// A running child that is killed when dropped.
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What it said on stderr, line by line.
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Running {
    /// Starts it, with its input and output in hand.
    pub fn start(command: &mut Command) -> Result<Running, Unable> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (sender, lines) = channel();
        if let Some(output) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let complaints: Arc<Mutex<Vec<String>>> = Arc::default();
        if let Some(errors) = child.stderr.take() {
            let all = Arc::clone(&complaints);
            std::thread::spawn(move || {
                let lines = BufReader::new(errors).lines().map_while(Result::ok);
                for line in lines.filter(|line| !line.trim().is_empty()) {
                    all.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                }
            });
        }
        let input = child.stdin.take();
        Ok(Running { child, input, lines, complaints })
    }

    /// The last it said on its output (`line`) and beside it, for people.
    fn last_words(&self, line: &str) -> String {
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let said = if line.is_empty() { "it said nothing".into() } else { format!("its last line: {line}") };
        complaints.last().map_or(said.clone(), |complaint| format!("{said}; on stderr: {complaint}"))
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to it.
    pub fn tell(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// Reads its lines until `found` makes something of one, for at most ten seconds.
    pub fn read_until<T>(&mut self, mut found: impl FnMut(&str) -> Option<T>) -> Result<T, Unable> {
        let give_up = Instant::now() + Duration::from_secs(10);
        let mut last = String::new();
        loop {
            match self.lines.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
                Ok(line) => match found(&line) {
                    Some(value) => return Ok(value),
                    None if line.trim().is_empty() => {}
                    None => last = line,
                },
                Err(RecvTimeoutError::Timeout) => return Err(format!("no answer in 10 s; {}", self.last_words(&last))),
                Err(RecvTimeoutError::Disconnected) => return Err(format!("it ended; {}", self.last_words(&last))),
            }
        }
    }

    /// The first thing that `found` makes of a line of its output or, once that has ended, of stderr.
    pub fn read_everywhere<T>(&mut self, mut found: impl FnMut(&str) -> Option<T>) -> Result<T, Unable> {
        self.read_until(&mut found).or_else(|why| {
            let _ = self.wait(Duration::from_secs(1));
            let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
            complaints.iter().find_map(|line| found(line)).ok_or(why)
        })
    }

    /// Waits until it has ended by itself, for at most `patience`.
    pub fn wait(&mut self, patience: Duration) -> Result<(), Unable> {
        let give_up = Instant::now() + patience;
        while Instant::now() < give_up {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("it ended with {status}")),
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err("it did not end".into())
    }

    /// Asks it to end as Ctrl-C would.
    pub fn interrupt(&self) {
        let _ = Command::new("kill").args(["-INT", &self.id().to_string()]).status();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Nanoseconds on a core of the threads of process `pid` whose name passes, from /proc/PID/task/TID/schedstat. What the kernel
/// does for others in the context of these threads (softirqs) is in it.
pub fn core_ns(pid: u32, passes: impl Fn(&str) -> bool) -> u64 {
    let account = |thread| std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/schedstat")).ok();
    let on_core = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    threads(pid, passes).into_iter().filter_map(account).filter_map(on_core).sum()
}
