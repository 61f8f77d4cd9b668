//! `valeS:P` names: port P of the switch valeS of this user, which is started if it does not run.
//!
//! ```text
//! vale0:a    connect to the control socket of switch "vale0"  (else: start `linerate switch --name vale0`, detached, and wait)
//!            attach "a"      -> a memif port of the switch, and the spec of its other end: memif:/run/.../vale0.memif,id=0,role=client
//!            keep the connection: when this process ends, however it ends, the switch takes the port out
//! ```

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use linerate_control::{Command as ControlCommand, Connection, ControlError, ErrorKind, FileLock, RuntimeDir, is_name};
use linerate_port::OpenError;
use serde_json::Value;

use crate::config::PROGRAM;

/// How long a switch that was started goes on without ports and clients, as an argument.
const UNUSED: &str = "5s";
/// How long the start of a switch may take.
const START: Duration = Duration::from_secs(15);
/// How long a name may still be in use by a process that has just ended.
const IN_USE: Duration = Duration::from_secs(3);

/// Connections that ports live by; they are closed when this process ends.
static LEASES: Mutex<Vec<Connection>> = Mutex::new(Vec::new());

/// A name of the form `valeS:P`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValeName {
    /// Name of the switch, with `vale`.
    pub switch: String,
    /// Name of the port.
    pub port: String,
    /// Options for the port's memif end, with the comma in front.
    pub options: String,
}

impl ValeName {
    /// Takes a name apart; `None` when it is of another kind.
    ///
    /// # Errors
    /// It is of this kind, but names something that only netmap's kernel module has, or nothing.
    pub fn parse(text: &str) -> Option<Result<ValeName, OpenError>> {
        let (switch, rest) = text.split_once(':')?;
        let of_switch = switch.strip_prefix("vale")?;
        if !of_switch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        let (port, options) = rest.find(',').map_or((rest, ""), |comma| rest.split_at(comma));
        if is_name(port) {
            return Some(Ok(ValeName { switch: switch.into(), port: port.into(), options: options.into() }));
        }
        let cause = match port.chars().find(|letter| "{}*^/@".contains(*letter)) {
            Some(mark) => {
                format!("pipes, host rings, monitors and flags ({mark}) exist only in netmap's kernel module")
            }
            None => format!("{port:?} is no name for a port"),
        };
        Some(Err(OpenError::new(text, cause, format!("write {switch}:NAME, as {switch}:a"))))
    }
}

/// The spec that a name stands for: `valeS:P` is attached to its switch, anything else is returned as it is. Each call attaches
/// anew, so it comes once for each port that is then opened.
///
/// `program` is what starts a switch: this executable.
///
/// # Errors
/// The switch cannot be reached or started; the port is in use.
pub fn resolve(text: &str, program: &Path) -> Result<String, OpenError> {
    match ValeName::parse(text) {
        None => Ok(text.into()),
        Some(Err(error)) => Err(error),
        Some(Ok(name)) => attach(&name, program).map_err(|error| OpenError::new(text, error.cause, error.hint)),
    }
}

fn attach(name: &ValeName, program: &Path) -> Result<String, ControlError> {
    let dir = RuntimeDir::of(PROGRAM, &name.switch).map_err(|error| ControlError::new(error.to_string(), ""))?;
    let mut connection = connect(&dir, program)?;
    let request = ControlCommand::Attach { port: name.port.clone() };
    let give_up = Instant::now() + IN_USE;
    let answer = loop {
        match connection.ask(&request) {
            Ok(answer) => break answer,
            Err(error) if error.kind == Some(ErrorKind::InUse) && Instant::now() < give_up => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error),
        }
    };
    let Some(spec) = answer.get("spec").and_then(Value::as_str) else {
        return Err(ControlError::new("the switch named no port", "is it of another version?"));
    };
    let spec = format!("{spec}{}", name.options);
    LEASES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(connection);
    Ok(spec)
}

/// Finds the switch, or starts it.
fn connect(dir: &RuntimeDir, program: &Path) -> Result<Connection, ControlError> {
    if let Ok(connection) = Connection::to(dir) {
        return Ok(connection);
    }
    // One process starts it, the others wait here, and then find it.
    let starting = FileLock::take(&dir.starting(), true).map_err(|error| ControlError::new(error.to_string(), ""))?;
    if let Ok(connection) = Connection::to(dir) {
        return Ok(connection);
    }
    let mut child = start(dir.name(), program)?;
    let give_up = Instant::now() + START;
    loop {
        match Connection::to(dir) {
            Ok(connection) => {
                // Whoever ends first: nobody else waits for the switch's end.
                let _ = std::thread::Builder::new().name("switch-end".into()).spawn(move || child.wait());
                drop(starting);
                return Ok(connection);
            }
            Err(error) if Instant::now() >= give_up => return Err(error),
            Err(_) => {}
        }
        if let Ok(Some(status)) = child.try_wait() {
            let hint = format!("`linerate switch --name {}` says why", dir.name());
            return Err(ControlError::new(format!("the switch {} did not start ({status})", dir.name()), hint));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Starts a switch that outlives this process, and ends by itself.
fn start(name: &str, program: &Path) -> Result<std::process::Child, ControlError> {
    let arguments = ["switch", "--name", name, "--idle-exit", UNUSED, "--quiet"];
    let mut command = Command::new(program);
    // Whatever this executable is called here.
    command.arg0("linerate").args(arguments.map(OsString::from));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in this shell is not meant for it; and it keeps no folder busy.
    command.process_group(0).current_dir("/");
    command.spawn().map_err(|error| {
        let hint = format!("start it by hand: linerate switch --name {name}");
        ControlError::new(format!("{} cannot be started: {error}", program.display()), hint)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let parsed = |text: &str| ValeName::parse(text).map(|name| name.map_err(|_| ()));
        let name = |switch: &str, port: &str, options: &str| {
            Some(Ok(ValeName { switch: switch.into(), port: port.into(), options: options.into() }))
        };
        assert_eq!(parsed("vale0:a"), name("vale0", "a", ""));
        assert_eq!(parsed("vale:1"), name("vale", "1", ""));
        assert_eq!(parsed("valeLAB_1:x-y,slots=256"), name("valeLAB_1", "x-y", ",slots=256"));
        for other in ["valentine", "eth0", "pipe:vale", "vale-x:a", "valé:a", "memif:/vale0:a"] {
            assert_eq!(parsed(other), None, "{other}");
        }
        for wrong in ["vale0:", "vale0:a{1", "vale0:a/z", "vale0:a b", "vale0:eth0^"] {
            assert_eq!(parsed(wrong), Some(Err(())), "{wrong}");
        }
    }

    #[test]
    fn other_names_stay_as_they_are() {
        assert_eq!(resolve("tap:x,mtu=9000", Path::new("/none")), Ok("tap:x,mtu=9000".into()));
    }
}
