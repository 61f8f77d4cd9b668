//! What the `ctl` commands share: a connection to a running program, settings, answers, and the exit status.

use std::process::ExitCode;

use linerate_console::{note, print};
use linerate_control::{Connection, ControlError, RuntimeDir, SettingValue, Settings};
use serde::de::DeserializeOwned;
use serde_json::Value;

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

/// Settings of a port from arguments `KEY=VALUE`, of which `example` is one.
pub(super) fn settings(words: &[String], example: &str) -> Result<Settings, String> {
    let setting = |text: &String| {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("{text}: write KEY=VALUE, as {example}"))?;
        Ok((key.to_owned(), SettingValue(value.to_owned())))
    };
    words.iter().map(setting).collect()
}

/// Sends a request that changes something, and prints the answer: as JSON, or its members as words.
pub(super) fn answer(connection: &mut Connection, request: &Value, as_json: bool) -> Result<(), ControlError> {
    let value = connection.ask(request)?;
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let text = match value.as_object() {
        Some(object) if !as_json => {
            let words: Vec<String> = object.iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
            words.join(", ")
        }
        _ => value.to_string(),
    };
    if !text.is_empty() {
        print(&text);
    }
    Ok(())
}

/// A document of an answer.
pub(super) fn read<T: DeserializeOwned>(value: Value) -> Result<T, ControlError> {
    let strange = |error: serde_json::Error| {
        ControlError::new(format!("the program answered something strange: {error}"), "is it of another version?")
    };
    serde_json::from_value(value).map_err(strange)
}

/// A table that comes in parts: `ask` gets the part from a place on, and returns it with the place of the next one.
pub(super) fn parts<T, Place>(
    ask: impl FnMut(Option<Place>) -> Result<(Vec<T>, Option<Place>), ControlError>,
) -> Result<Vec<T>, ControlError> {
    let mut all = Vec::new();
    each_part(ask, |part| {
        all.extend(part);
        true
    })?;
    Ok(all)
}

/// As [`parts`], for tables that need not be kept as a whole: each part goes to `use_part`, until that returns false.
pub(super) fn each_part<T, Place>(
    mut ask: impl FnMut(Option<Place>) -> Result<(Vec<T>, Option<Place>), ControlError>,
    mut use_part: impl FnMut(Vec<T>) -> bool,
) -> Result<(), ControlError> {
    let mut next = None;
    loop {
        let (part, after) = ask(next)?;
        if !use_part(part) || after.is_none() {
            return Ok(());
        }
        next = after;
    }
}
