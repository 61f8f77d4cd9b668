//! What the `ctl` commands share: a connection to a running program, and the exit status.

use std::process::ExitCode;

use linerate_control::{Connection, ControlError, RuntimeDir};

use linerate_console::note;

/// Connects to the running program `name` of a kind, and talks to it. The exit status is 0 when all was done, 1 when the program refused, and 2
/// when there is no such program; `command` begins each message, e.g. `linerate switch ctl`.
pub(super) fn connected(
    command: &str,
    (program, name): (&'static str, &str),
    talk: impl FnOnce(Connection) -> Result<(), ControlError>,
) -> ExitCode {
    let connection = RuntimeDir::existing(program, name).map_err(|error| error.to_string());
    let connection = connection.and_then(|dir| Connection::to(&dir).map_err(|error| error.to_string()));
    match connection {
        Ok(connection) => match talk(connection) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => complain(command, &error.to_string(), 1),
        },
        Err(problem) => complain(command, &problem, 2),
    }
}

/// Says what went wrong.
pub(super) fn complain(command: &str, problem: &str, status: u8) -> ExitCode {
    note(&format!("{command}: {problem}"));
    ExitCode::from(status)
}
