//! What later steps need is built while the tests run, which wait for much of their time: by the scheduler's idle class (sched(7)),
//! whose threads run only where a core has nothing else to do, so that the tests do not notice. Nothing depends on it: a step whose
//! build is not there, or failed, builds itself, and says what is wrong.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::tools::works;
use super::{Context, Outcome};

/// Runs `meanwhile`, and beside it the builds, one after the other; comes back when both are done.
pub fn while_building<Made>(context: &Context, builds: Vec<Command>, meanwhile: impl FnOnce() -> Made) -> Made {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        if works(Command::new("chrt").args(["--idle", "0", "true"])) {
            scope.spawn(|| build(context, builds, &ended));
        }
        let made = meanwhile();
        ended.store(true, Ordering::Relaxed);
        made
    })
}

/// A build that has begun is worth ending, because its step waits for it anyway.
fn build(context: &Context, builds: Vec<Command>, ended: &AtomicBool) {
    for (number, command) in builds.iter().enumerate() {
        if ended.load(Ordering::Relaxed) {
            return;
        }
        let log = context.target.join(format!("ahead-{number}.log"));
        match context.outcome_quiet(&mut idle(command), &log) {
            Ok(Outcome::Passed(_)) => {}
            _ => println!("not built ahead: see {}", log.display()),
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
    fn builds_run_in_the_idle_class_beside_the_rest_with_their_folder_and_variables() {
        if !works(Command::new("chrt").args(["--idle", "0", "true"])) {
            return eprintln!("skipped in part: chrt is not installed");
        }
        let folder = std::env::temp_dir().join(format!("xtask-{}-ahead", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).into();
        let context = Context { root, target: folder.clone(), deadline, later: Vec::new() };
        let mut says = Command::new("sh");
        says.args(["-c", "chrt -p $$; pwd; echo $WORD; chrt -p $$ > there"]).current_dir(&folder).env("WORD", "a word");
        let there = folder.join("there");
        let made = while_building(&context, vec![says], || {
            // It runs while this does.
            while !there.exists() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(5));
            }
            there.exists()
        });
        let said = std::fs::read_to_string(folder.join("ahead-0.log")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(made && said.contains("SCHED_IDLE") && said.contains("a word"), "{said}");
        assert!(said.contains(&*folder.to_string_lossy()), "{said}");
    }
}
