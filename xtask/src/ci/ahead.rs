//! What later steps need is built beside those that wait for much of their time, the tests and the OpenFlow suite, and tests that no
//! deadline ends run there, too: by the scheduler's idle class (sched(7)), whose threads run only where a core has nothing else to do, so
//! that those steps do not notice. Nothing depends on it: a step whose build or run is not there, or failed, does it itself, and says what is
//! wrong.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::tools::{line_of, works};
use super::{Context, Outcome};

/// Commands of later steps, if there are any.
#[derive(Default)]
pub struct Ahead {
    working: Mutex<Option<Working>>,
    /// The commands that succeeded, with the files that have their output.
    done: Mutex<Vec<(String, PathBuf)>>,
}

struct Working {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Ahead {
    /// Begins the commands, one after the other, on a thread of its own.
    pub fn begin(&self, context: &Context, commands: Vec<Command>) {
        self.end();
        if commands.is_empty() || !works(Command::new("chrt").args(["--idle", "0", "true"])) {
            return;
        }
        let ended = Arc::new(AtomicBool::new(false));
        let (context, told) = (context.clone(), Arc::clone(&ended));
        let thread = thread::spawn(move || work(&context, &commands, &told));
        *self.working.lock().unwrap_or_else(PoisonError::into_inner) = Some(Working { ended, thread });
    }

    /// Begins no more commands, and waits for the one that has begun, which is worth ending because its step waits for it anyway.
    pub fn end(&self) {
        let working = self.working.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Working { ended, thread }) = working {
            ended.store(true, Ordering::Relaxed);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// The file with the output of a command that has succeeded ahead.
    pub fn output_of(&self, command: &Command) -> Option<PathBuf> {
        let (line, done) = (line_of(command), self.done.lock().unwrap_or_else(PoisonError::into_inner));
        done.iter().find(|(known, _)| *known == line).map(|(_, log)| log.clone())
    }
}

fn work(context: &Context, commands: &[Command], ended: &AtomicBool) {
    for (number, command) in commands.iter().enumerate() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let log = context.target.join(format!("ahead-{number}.log"));
        match context.outcome_quiet(&mut idle(command), &log) {
            Ok(Outcome::Passed(_)) => {
                let mut done = context.ahead.done.lock().unwrap_or_else(PoisonError::into_inner);
                done.push((line_of(command), log));
            }
            _ => println!("not done ahead: see {}", log.display()),
        }
    }
}

/// The same command in the idle class, with all that it starts.
fn idle(command: &Command) -> Command {
    let mut idle = Command::new("chrt");
    idle.args(["--idle", "0"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => idle.env(name, value),
            None => idle.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        idle.current_dir(folder);
    }
    idle
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn commands_run_in_the_idle_class_beside_the_rest_with_their_folder_and_variables_until_they_are_ended() {
        if !works(Command::new("chrt").args(["--idle", "0", "true"])) {
            return eprintln!("skipped in part: chrt is not installed");
        }
        let folder = std::env::temp_dir().join(format!("xtask-{}-ahead", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).into();
        let context = Context { root, target: folder.clone(), deadline, later: Vec::new(), ahead: Arc::default() };
        let shell = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).current_dir(&folder).env("WORD", "a word");
            command
        };
        // It ends when it is let go.
        let says = "chrt -p $$; pwd; echo $WORD; touch there; while [ ! -e go ]; do sleep 0.01; done; echo to the end";
        context.ahead.begin(&context, vec![shell("exit 1"), shell(says), shell("touch never")]);
        // It runs while this does.
        let there = folder.join("there");
        while !there.exists() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let begun = there.exists();
        thread::scope(|scope| {
            let ending = scope.spawn(|| context.ahead.end());
            // The last must not begin, so the end is announced before the one before it may end.
            thread::sleep(Duration::from_millis(200));
            std::fs::write(folder.join("go"), "").unwrap();
            ending.join().unwrap();
        });
        assert_eq!(context.ahead.output_of(&shell("exit 1")), None, "it failed");
        let said = std::fs::read_to_string(context.ahead.output_of(&shell(says)).unwrap()).unwrap();
        let last = folder.join("never").exists();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(
            begun && said.contains("SCHED_IDLE") && said.contains("a word") && said.contains("to the end"),
            "{said}"
        );
        assert!(said.contains(&*folder.to_string_lossy()) && !last, "{said}");
    }
}
