//! Child processes that end with this one, however it ends.
//!
//! A child is started and waited for by a thread of its own, its keeper. Three things follow from that:
//! - the child can start in another network namespace, which the keeper has entered;
//! - it can be the first process of a PID namespace of its own (pid_namespaces(7)), so that all that it starts ends with it.
//!   The kernel then delivers it only signals that it catches, SIGKILL apart, so one that it does not catch becomes SIGKILL;
//! - `PR_SET_PDEATHSIG` (prctl(2)), which is sent when the *thread* that started a child ends, means the end of this process,
//!   since the keeper stays as long as the child does.
//!
//! A child has a process group of its own: a signal from the terminal (Ctrl-C) is this process's alone, which then ends its
//! children in its own order.
//!
//! Its standard input is empty or a given text; of each of its two outputs only the end is kept.
//!
//! No packet passes this crate, so it is compiled quickly (`profile.release.package` in the workspace's Cargo.toml).
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use linerate_sys::checked;
use linerate_sys::netns::{self, NetNs};
use linerate_sys::poll::{PollFor, poll};

/// How much of each output is kept unless asked for otherwise.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// What a pipe holds unless asked for otherwise (pipe(7)).
const PIPE_BYTES: usize = 64 << 10;

/// What to start.
#[derive(Debug)]
pub struct Spec {
    /// The program and its arguments. The program is looked up in `PATH`.
    pub command: Vec<String>,
    /// Added to the environment.
    pub environment: Vec<(String, String)>,
    /// Network namespace to start in; `None` = this process's.
    pub namespace: Option<NetNs>,
    /// What it reads; `None` = nothing.
    pub input: Option<String>,
    /// How many bytes of each output are kept: the last ones.
    pub output_bytes_max: usize,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            environment: Vec::new(),
            namespace: None,
            input: None,
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }
}

/// A child. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    shared: Arc<Shared>,
    out: Arc<Output>,
    err: Arc<Output>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Set until the child is waited for, so it names no other process.
    id: Option<libc::pid_t>,
    status: Option<ExitStatus>,
}

/// The end of what a process printed. A thread reads, so that the process never waits for long; what that thread has not come to
/// when the process has ended is read by whoever asks.
#[derive(Debug)]
struct Output {
    reader: PipeReader,
    bytes_max: usize,
    /// What was read, and whether nothing can come any more. Whoever reads has this lock.
    state: Mutex<(VecDeque<u8>, bool)>,
}

impl Process {
    /// Starts it.
    ///
    /// # Errors
    /// `NotFound` when there is no such program; `InvalidInput` without a program; what entering the namespace or starting a
    /// thread answers.
    pub fn start(spec: Spec) -> io::Result<Process> {
        let (out, out_end) = Output::follow(spec.output_bytes_max)?;
        let (err, err_end) = Output::follow(spec.output_bytes_max)?;
        let Some((program, arguments)) = spec.command.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no program is given"));
        };
        let mut command = Command::new(program);
        command.args(arguments).envs(spec.environment).stdout(out_end).stderr(err_end);
        command.stdin(if spec.input.is_some() { Stdio::piped() } else { Stdio::null() });
        let shared = Arc::new(Shared::default());
        let (started, answer) = std::sync::mpsc::channel();
        let theirs = shared.clone();
        let keep = move || match spawn(command, spec.namespace, &theirs) {
            Err(error) => drop(started.send(Err(error))),
            Ok(mut child) => {
                let _ = started.send(Ok(child.stdin.take()));
                theirs.keep(child);
            }
        };
        thread::Builder::new().name("dut-keeper".into()).spawn(keep)?;
        let stdin = answer.recv().map_err(|_| io::Error::other("the keeper of a process ended"))??;
        if let Some((mut stdin, input)) = stdin.zip(spec.input) {
            // A thread: the process may print before it has read all. One that reads nothing closes its end.
            let write = move || drop(stdin.write_all(input.as_bytes()));
            thread::Builder::new().name("dut-input".into()).spawn(write)?;
        }
        Ok(Process { shared, out, err })
    }

    /// Its process id; `None` once it has ended.
    pub fn id(&self) -> Option<u32> {
        self.shared.lock().id.and_then(|id| u32::try_from(id).ok())
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.shared.lock().status
    }

    /// Waits until it has ended, at most for `time`; how it ended, if it has.
    pub fn wait(&self, time: Duration) -> Option<ExitStatus> {
        self.shared.wait(time)
    }

    /// Asks it to end, and kills it when it has not ended after `grace`.
    pub fn stop(&self, grace: Duration) -> Option<ExitStatus> {
        if self.shared.ask() {
            self.wait(grace);
        }
        self.kill()
    }

    /// Kills it, and with it all that it started where it has a PID namespace of its own.
    pub fn kill(&self) -> Option<ExitStatus> {
        self.shared.signal(libc::SIGKILL);
        // A killed process ends as soon as the kernel can.
        self.wait(Duration::from_secs(10))
    }

    /// The end of what it wrote to its standard output. Of a process that has ended, all that it wrote.
    pub fn printed(&self) -> String {
        self.drain();
        self.out.text()
    }

    /// The end of what it wrote to standard output and standard error.
    pub fn output(&self) -> String {
        self.drain();
        let (out, err) = (self.out.text(), self.err.text());
        let between = if out.is_empty() || out.ends_with('\n') { "" } else { "\n" };
        format!("{out}{between}{err}")
    }

    fn drain(&self) {
        if self.ended().is_some() {
            self.out.read_what_is_there();
            self.err.read_what_is_there();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// On the keeper's thread: enters the namespaces and starts the child.
fn spawn(mut command: Command, namespace: Option<NetNs>, shared: &Shared) -> io::Result<Child> {
    if let Some(namespace) = namespace {
        namespace.enter()?;
    }
    // A wish: without it the child alone ends with this process, and not what it started.
    let _ = netns::unshare(libc::CLONE_NEWPID);
    command.process_group(0);
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe.
    unsafe { command.pre_exec(end_with_parent) };
    let mut state = shared.lock();
    let child = command.spawn()?;
    state.id = libc::pid_t::try_from(child.id()).ok();
    Ok(child)
}

fn end_with_parent() -> io::Result<()> {
    // SAFETY: prctl with these constants changes nothing but a setting of the calling process.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) }).map(drop)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the child's end. Its number stays its own until it is taken out of `state`.
    fn keep(&self, mut child: Child) {
        wait_without_reaping(child.id());
        let mut state = self.lock();
        state.id = None;
        state.status = child.wait().ok();
        self.changed.notify_all();
    }

    fn wait(&self, time: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + time;
        let mut state = self.lock();
        while state.id.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.status
    }

    /// Sends SIGTERM, if the child would see it.
    fn ask(&self) -> bool {
        let state = self.lock();
        state.id.is_some_and(|id| catches(id, libc::SIGTERM) && send(id, libc::SIGTERM))
    }

    fn signal(&self, signal: libc::c_int) {
        let state = self.lock();
        if let Some(id) = state.id {
            send(id, signal);
        }
    }
}

fn send(id: libc::pid_t, signal: libc::c_int) -> bool {
    // SAFETY: kill takes two numbers; `id` is a child that was not waited for, so no other process.
    unsafe { libc::kill(id, signal) == 0 }
}

/// Whether a process has a handler for `signal` (`SigCgt` of proc(5)).
fn catches(id: libc::pid_t, signal: libc::c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught >> (signal - 1) & 1 == 1
}

fn wait_without_reaping(id: u32) {
    loop {
        // SAFETY: a zeroed siginfo_t is valid, and waitid writes it while it lives.
        let result = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, id, &mut information, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

impl Output {
    /// A place to write to, whose end is kept.
    fn follow(bytes_max: usize) -> io::Result<(Arc<Output>, io::PipeWriter)> {
        let (output, writer) = Output::new(bytes_max)?;
        let output = Arc::new(output);
        let theirs = output.clone();
        thread::Builder::new().name("dut-output".into()).spawn(move || theirs.keep())?;
        Ok((output, writer))
    }

    fn new(bytes_max: usize) -> io::Result<(Output, io::PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        Ok((Output { reader, bytes_max, state: Mutex::default() }, writer))
    }

    /// Reads until nothing can come any more.
    fn keep(&self) {
        while !self.lock().1 && poll(self.reader.as_fd(), PollFor::Reading, u64::MAX).is_ok() {
            self.read_what_is_there();
        }
    }

    /// Reads without waiting; as much as a pipe holds at the most, since something that inherited the other end may write on.
    fn read_what_is_there(&self) {
        let mut state = self.lock();
        let (mut buffer, mut left) = ([0; 4096], PIPE_BYTES);
        while !state.1 && left > 0 {
            match poll(self.reader.as_fd(), PollFor::Reading, 0) {
                Ok(polled) if polled.ready || polled.failed => {}
                _ => return,
            }
            let bytes = match (&self.reader).read(&mut buffer) {
                Ok(len) => buffer.get(..len).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => &[],
            };
            state.1 = bytes.is_empty();
            state.0.extend(bytes);
            left = left.saturating_sub(bytes.len());
            let excess = state.0.len().saturating_sub(self.bytes_max);
            state.0.drain(..excess);
        }
    }

    fn text(&self) -> String {
        let state = self.lock();
        let (first, second) = state.0.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }

    fn lock(&self) -> MutexGuard<'_, (VecDeque<u8>, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Process {
        let command = ["sh", "-c", script].map(str::to_owned).into();
        Process::start(Spec { command, ..Spec::default() }).expect("a shell")
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn the_end_and_the_output_of_a_process_are_known() {
        let process = shell("echo out; echo err >&2; exit 3");
        assert_eq!(process.wait(LONG).and_then(|status| status.code()), Some(3));
        assert_eq!((process.printed().as_str(), process.output().as_str()), ("out\n", "out\nerr\n"));
        assert_eq!(process.id(), None);
    }

    #[test]
    fn what_it_reads_is_given_or_empty_and_only_the_end_of_a_long_output_is_kept() {
        let command = vec!["cat".to_owned()];
        let input = format!("{}end", "x".repeat(3 * OUTPUT_BYTES_MAX));
        let process = Process::start(Spec { command, input: Some(input), ..Spec::default() }).expect("cat");
        assert!(process.wait(LONG).is_some_and(|status| status.success()));
        let printed = process.printed();
        assert_eq!(printed.len(), OUTPUT_BYTES_MAX);
        assert!(printed.ends_with("xend"));
        assert!(shell("cat").wait(LONG).is_some_and(|status| status.success()), "nothing to read");
    }

    #[test]
    fn what_was_written_is_there_though_no_thread_came_to_read_it_and_the_other_end_is_open() {
        let (output, mut writer) = Output::new(OUTPUT_BYTES_MAX).expect("a pipe");
        writer.write_all(&[b'x'; PIPE_BYTES]).expect("as much as it holds");
        output.read_what_is_there();
        assert_eq!((output.text().len(), output.lock().1), (PIPE_BYTES, false));
        writer.write_all(b"end").expect("room again");
        drop(writer);
        // A process that another test starts at this moment has the other end until it executes its program.
        wait_until(|| {
            output.read_what_is_there();
            output.lock().1
        });
        assert!(output.text().ends_with("xend"));
        output.read_what_is_there();
        assert_eq!(output.text().len(), OUTPUT_BYTES_MAX);
    }

    #[test]
    fn one_that_catches_sigterm_may_tidy_up_and_one_that_does_not_is_killed_at_once() {
        let process = shell("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done");
        wait_until(|| process.printed().contains("ready"));
        assert_eq!(process.stop(LONG).and_then(|status| status.code()), Some(0));
        assert!(process.printed().ends_with("bye\n"));
        let process = shell("exec sleep 600");
        assert_eq!(process.stop(LONG).and_then(|status| status.code()), None);
    }

    #[test]
    fn what_a_process_started_ends_with_it() {
        let process = shell("sleep 601 & echo $!; wait");
        wait_until(|| process.printed().ends_with('\n'));
        let own_numbers = process.printed().trim().parse::<u32>().is_ok_and(|id| id < 10);
        if !own_numbers {
            return eprintln!("skipped: no PID namespace of its own");
        }
        drop(process);
        wait_until(|| !commands().iter().any(|command| command.split('\0').eq(["sleep", "601", ""])));
    }

    #[test]
    fn a_signal_to_this_process_group_does_not_reach_it() {
        let child =
            Process::start(Spec { command: vec!["sleep".into(), "602".into()], ..Spec::default() }).expect("sleep");
        let id = child.id().expect("it runs");
        // The fifth word of /proc/PID/stat (proc_pid_stat(5)) is the process group; the second, in parentheses, has no space here.
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
        assert_eq!(stat.split(' ').nth(4), Some(id.to_string().as_str()), "{stat}");
    }

    #[test]
    fn a_program_that_is_not_there_is_not_found() {
        let command = vec!["linerate-no-such-program".to_owned()];
        let error = Process::start(Spec { command, ..Spec::default() }).expect_err("not there");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(Process::start(Spec::default()).expect_err("no program").kind(), io::ErrorKind::InvalidInput);
    }

    /// Command lines of all processes that are children of this one, or of those.
    fn commands() -> Vec<String> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok()).collect()
    }

    fn wait_until(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !condition() {
            assert!(Instant::now() < deadline, "it does not come");
            thread::sleep(Duration::from_millis(5));
        }
    }
}
