//! Commands with a time limit: a command that takes longer is ended, with everything that it started.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// How often the end of a command is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// How long output is awaited of processes that outlive the command that started them and hold its output open.
const LEFT_BEHIND: Duration = Duration::from_secs(2);

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Ended {
    /// It ended by itself, with status 0.
    pub succeeded: bool,
    /// `exit status: 1`, or that it was ended because its time was over.
    pub how: String,
}

/// Runs a command with its output where ours goes.
pub fn run(command: &mut Command, deadline: Instant) -> Result<Ended> {
    let mut child = command.spawn()?;
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        thread::sleep(LOOK);
    }
    ended(child)
}

/// Runs a command, and gives each line of its output and of its errors, in the order in which they were written.
pub fn watch(command: &mut Command, deadline: Instant, mut take: impl FnMut(&str)) -> Result<Ended> {
    let (reader, writer) = std::io::pipe().context("making a pipe")?;
    let mut child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command must not hold the pipe open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = lines_of(reader);
    let mut last = Instant::now();
    while Instant::now() < deadline {
        match lines.recv_timeout(LOOK) {
            Ok(line) => {
                take(&line);
                last = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if last.elapsed() > LEFT_BEHIND && child.try_wait()?.is_some() => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    while child.try_wait()?.is_none() && Instant::now() < deadline {
        thread::sleep(LOOK);
    }
    ended(child)
}

/// The lines of a pipe, read by a thread of its own, which ends with the pipe.
fn lines_of(pipe: PipeReader) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Waits for a child that has ended; ends one that has not.
fn ended(mut child: Child) -> Result<Ended> {
    if let Some(status) = child.try_wait()? {
        return Ok(Ended { succeeded: status.success(), how: status.to_string() });
    }
    end_tree(child.id());
    child.wait().context("waiting for a command that was ended")?;
    Ok(Ended { succeeded: false, how: "was ended because the time limit of its step was over".into() })
}

/// Ends a process and all that descend from it, which /proc knows (proc(5)).
fn end_tree(root: u32) {
    let children = children();
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(process) = tree.get(next) {
        tree.extend(children.get(process).into_iter().flatten());
        next += 1;
    }
    let ids: Vec<String> = tree.iter().map(u32::to_string).collect();
    // The shell's own kill, which is there on every system. Some of them may have gone meanwhile.
    let line = format!("kill -KILL {} 2>/dev/null", ids.join(" "));
    let _ = Command::new("sh").args(["-c", &line]).status();
}

/// The children of each process that has some.
fn children() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which is in parentheses and may hold any character: the state, then the parent.
        let after = stat.rsplit(')').next().unwrap_or_default();
        if let Some(parent) = after.split_whitespace().nth(1).and_then(|word| word.parse().ok()) {
            children.entry(parent).or_default().push(process);
        }
    }
    children
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    fn in_a_minute() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn output_and_errors_come_in_the_order_in_which_they_were_written() {
        let mut lines = Vec::new();
        let line = "echo a; echo b >&2; echo c; exit 3";
        let ended = watch(&mut shell(line), in_a_minute(), |line| lines.push(line.to_owned())).unwrap();
        assert_eq!(lines, ["a", "b", "c"]);
        assert_eq!(ended, Ended { succeeded: false, how: "exit status: 3".into() });
        assert!(run(&mut shell("exit 0"), in_a_minute()).unwrap().succeeded);
    }

    #[test]
    fn a_command_whose_time_is_over_is_ended_with_all_that_it_started() {
        // No other process sleeps for just so long.
        let seconds = format!("6{}", std::process::id());
        let line = format!("sh -c 'sleep {seconds} & echo started; wait' & wait");
        let sleeps = || {
            let commands = fs::read_dir("/proc").unwrap().flatten();
            let wanted = format!("sleep\0{seconds}\0");
            commands
                .filter(|entry| fs::read_to_string(entry.path().join("cmdline")).is_ok_and(|line| line == wanted))
                .count()
        };
        for watched in [true, false] {
            let deadline = Instant::now() + Duration::from_secs(2);
            let ended = match watched {
                true => watch(&mut shell(&line), deadline, |_| {}),
                false => run(&mut shell(&line), deadline),
            };
            let ended = ended.unwrap();
            assert!(!ended.succeeded && ended.how.contains("time limit"), "{ended:?}");
            let deadline = in_a_minute();
            while sleeps() > 0 {
                assert!(Instant::now() < deadline, "a process is left");
                thread::sleep(LOOK);
            }
        }
    }

    #[test]
    fn a_process_that_is_left_behind_with_the_output_open_holds_nothing_up() {
        let deadline = in_a_minute();
        let mut lines = 0;
        let ended = watch(&mut shell("sleep 90 & echo $!"), deadline, |process| {
            lines += 1;
            // It would hold the test's own output open.
            thread::spawn({
                let process = process.to_owned();
                move || {
                    thread::sleep(LEFT_BEHIND * 3);
                    shell(&format!("kill {process}")).status()
                }
            });
        });
        assert!(ended.unwrap().succeeded && lines == 1 && Instant::now() < deadline);
    }
}
