//! Builds of later steps, tests that no deadline ends and counts of instructions are made beside the steps before them: by the scheduler's idle class
//! (sched(7)), whose threads run only where a core has nothing else to do, so that those steps do not notice. Nothing depends on it: a step whose
//! build or run is not there, or failed, does it itself, and says what is wrong.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::tools::{line_of, works};
use super::{Context, Outcome};

/// Commands of later steps, if there are any.
#[derive(Default)]
pub struct Ahead {
    state: Mutex<State>,
    /// A command has ended.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Commands that nobody has begun, in their order.
    waiting: VecDeque<Command>,
    /// Commands that have begun, by their lines.
    running: Vec<String>,
    /// The commands that succeeded, with the files that have their output.
    done: Vec<(String, PathBuf)>,
    /// Commands that were ever begun, which numbers the files.
    begun: usize,
    /// Threads that look for commands.
    working: usize,
    threads: Vec<JoinHandle<()>>,
}

/// Commands at a time: a command uses one core for much of its time, as miri does, and the linker, and a crate that all others wait for.
const AT_ONCE: usize = 2;

impl Ahead {
    /// Has the commands run in their order, behind those that wait, [`AT_ONCE`] at a time, on threads of their own.
    pub fn add(&self, context: &Context, commands: Vec<Command>) {
        if commands.is_empty() || !works(Command::new("chrt").args(["--idle", "0", "true"])) {
            return;
        }
        let mut state = self.state();
        state.waiting.extend(commands);
        while state.working < AT_ONCE {
            let context = context.clone();
            state.working += 1;
            state.threads.push(thread::spawn(move || work(&context)));
        }
    }

    /// Begins no more commands, and waits for those that have begun.
    pub fn end(&self) {
        let mut state = self.state();
        state.waiting.clear();
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// The file with the output of a command that has succeeded ahead. Waits for it if it has begun; if it has not, it will not begin.
    pub fn output_of(&self, command: &Command) -> Option<PathBuf> {
        let line = line_of(command);
        let mut state = self.state();
        state.waiting.retain(|waiting| line_of(waiting) != line);
        while state.running.contains(&line) {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.done.iter().find(|(known, _)| *known == line).map(|(_, log)| log.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs commands until none waits.
fn work(context: &Context) {
    let ahead = &context.ahead;
    loop {
        let mut state = ahead.state();
        let Some(command) = state.waiting.pop_front() else {
            state.working -= 1;
            return;
        };
        let (line, log) = (line_of(&command), context.target.join(format!("ahead-{}.log", state.begun)));
        state.begun += 1;
        state.running.push(line.clone());
        drop(state);
        let outcome = context.outcome_quiet(&mut idle(&command), &log);
        let mut state = ahead.state();
        state.running.retain(|running| *running != line);
        match outcome {
            Ok(Outcome::Passed(_)) => state.done.push((line, log)),
            _ => println!("not done ahead: see {}", log.display()),
        }
        ahead.ended.notify_all();
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
    use std::sync::Arc;
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
        context.ahead.add(&context, vec![shell("exit 1"), says("a")]);
        context.ahead.add(&context, vec![says("b"), shell("touch never"), shell("touch never either")]);
        // They run while this does, both at the same time.
        let there = ["there-a", "there-b"].map(|name| folder.join(name));
        while !there.iter().all(|file| file.exists()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let begun = there.iter().all(|file| file.exists());
        assert_eq!(context.ahead.output_of(&shell("touch never")), None, "it has not begun, and must not any more");
        thread::scope(|scope| {
            let ending = scope.spawn(|| context.ahead.end());
            // Who asks for the output of one that has begun waits for its end.
            let asking = scope.spawn(|| context.ahead.output_of(&says("a")));
            // The last must not begin, so the end is announced before those before it may end.
            thread::sleep(Duration::from_millis(200));
            let is_early = asking.is_finished() || ending.is_finished();
            std::fs::write(folder.join("go"), "").unwrap();
            ending.join().unwrap();
            assert!(asking.join().unwrap().is_some() && !is_early);
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
