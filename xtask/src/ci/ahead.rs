//! What later steps need is built beside those that wait for much of their time (`steps::WAITING`), and tests that no deadline ends and counts
//! of instructions are made there, too: by the scheduler's idle class (sched(7)), whose threads run only where a core has nothing else to do,
//! so that those steps do not notice. Nothing depends on it: a step whose build or run is not there, or failed, does it itself, and says what is
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

/// Commands at a time: a command uses one core for much of its time, as miri does, and the linker, and a crate that all others wait for.
const AT_ONCE: usize = 2;

struct Working {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Ahead {
    /// Begins the commands in their order, [`AT_ONCE`] at a time, on threads of their own.
    pub fn begin(&self, context: &Context, commands: Vec<Command>) {
        self.end();
        if commands.is_empty() || !works(Command::new("chrt").args(["--idle", "0", "true"])) {
            return;
        }
        let (ended, next) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(commands.into_iter().enumerate())));
        let begin = || {
            let (context, next, told) = (context.clone(), Arc::clone(&next), Arc::clone(&ended));
            thread::spawn(move || work(&context, &next, &told))
        };
        let threads = (0..AT_ONCE).map(|_| begin()).collect();
        *self.working.lock().unwrap_or_else(PoisonError::into_inner) = Some(Working { ended, threads });
    }

    /// Begins no more commands, and waits for those that have begun, which are worth ending because their steps wait for them anyway.
    pub fn end(&self) {
        let working = self.working.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Working { ended, threads }) = working else { return };
        ended.store(true, Ordering::Relaxed);
        for thread in threads {
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

fn work(context: &Context, next: &Mutex<impl Iterator<Item = (usize, Command)>>, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let Some((number, command)) = next.lock().unwrap_or_else(PoisonError::into_inner).next() else { return };
        let log = context.target.join(format!("ahead-{number}.log"));
        match context.outcome_quiet(&mut idle(&command), &log) {
            Ok(Outcome::Passed(_)) => {
                let mut done = context.ahead.done.lock().unwrap_or_else(PoisonError::into_inner);
                done.push((line_of(&command), log));
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
        // They end when they are let go.
        let says = |name: &str| {
            let line = "chrt -p $$; pwd; echo $WORD; touch there-NAME; while [ ! -e go ]; do sleep 0.01; done; echo to the end";
            shell(&line.replace("NAME", name))
        };
        context.ahead.begin(&context, vec![shell("exit 1"), says("a"), says("b"), shell("touch never")]);
        // They run while this does, both at the same time.
        let there = ["there-a", "there-b"].map(|name| folder.join(name));
        while !there.iter().all(|file| file.exists()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let begun = there.iter().all(|file| file.exists());
        thread::scope(|scope| {
            let ending = scope.spawn(|| context.ahead.end());
            // The last must not begin, so the end is announced before those before it may end.
            thread::sleep(Duration::from_millis(200));
            std::fs::write(folder.join("go"), "").unwrap();
            ending.join().unwrap();
        });
        assert_eq!(context.ahead.output_of(&shell("exit 1")), None, "it failed");
        let said = ["a", "b"].map(|name| context.ahead.output_of(&says(name)).unwrap());
        let said = said.map(|log| std::fs::read_to_string(log).unwrap());
        let last = folder.join("never").exists();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(begun && !last, "{said:?}");
        for said in said {
            for word in ["SCHED_IDLE", "a word", "to the end", &*folder.to_string_lossy()] {
                assert!(said.contains(word), "{word} is not in {said}");
            }
        }
    }
}
