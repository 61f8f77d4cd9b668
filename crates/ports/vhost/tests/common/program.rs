//! Other people's programs at the other end: started, told, listened to, and killed with the value.
#![allow(dead_code, reason = "each test uses another part")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/sbin".into()]);
    folders.iter().any(|folder| folder.join(program).is_file())
}

pub struct Program {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What it said so far.
    pub said: Vec<String>,
}

impl Program {
    /// Starts it; what it complains of is among what it says.
    pub fn start(command: &mut Command) -> Program {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let (sender, lines) = channel();
        let follow = |output: Box<dyn std::io::Read + Send>| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    if sender.send(String::from_utf8_lossy(&line).trim_end().to_string()).is_err() {
                        break;
                    }
                }
            });
        };
        follow(Box::new(child.stdout.take().unwrap()));
        follow(Box::new(child.stderr.take().unwrap()));
        let input = child.stdin.take();
        Program { child, input, lines, said: Vec::new() }
    }

    pub fn tell(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{line}").and_then(|()| input.flush()).unwrap_or_else(|error| {
            panic!("told to {line}, it has gone ({error}); it said:\n{}", self.said.join("\n"))
        });
    }

    /// Listens until `found` makes something of a line.
    pub fn hear<T>(&mut self, found: impl FnMut(&str) -> Option<T>) -> T {
        self.hear_within(PATIENCE, found).unwrap_or_else(|| panic!("no answer; it said:\n{}", self.said.join("\n")))
    }

    /// As [`Program::hear`]; `None` when nothing of the kind came in time, or ever will.
    pub fn hear_within<T>(&mut self, patience: Duration, mut found: impl FnMut(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let value = found(&line);
                    self.said.push(line);
                    if value.is_some() {
                        return value;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => {
                    self.said.push(format!("(it ended: {:?})", self.child.wait()));
                    return None;
                }
            }
        }
    }

    /// SIGKILL, and no other.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        self.kill();
    }
}
