//! The exit status of commands.

use std::process::ExitCode;

use linerate_console::note;

/// 0, or 1 if something that was asked for did not go well; 2, with a message that begins with `command`, if it could not be begun.
pub(super) fn of(command: &str, done: Result<bool, String>) -> ExitCode {
    match done {
        Ok(well) => ExitCode::from(u8::from(!well)),
        Err(problem) => {
            note(&format!("{command}: {problem}"));
            ExitCode::from(2)
        }
    }
}
