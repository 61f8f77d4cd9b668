//! Why a device could not be built, or does not work.

use std::io;

use crate::netlink::NetlinkError;
use crate::topology::TopologyError;

/// Why a device could not be built, or does not work.
#[derive(Debug, thiserror::Error)]
pub enum DutError {
    /// The path around it could not be built.
    #[error("{0}")]
    Topology(#[from] TopologyError),
    /// The kernel refused a setting of its interfaces.
    #[error("cannot {0}")]
    Netlink(#[from] NetlinkError),
    /// A program that it needs is not installed.
    #[error("the device needs `{program}`, which is not installed{}", package.map_or(String::new(), |package| format!(": install the package {package}")))]
    Missing {
        /// The program.
        program: String,
        /// The package of Debian and its kin that has it.
        package: Option<&'static str>,
    },
    /// It does not fit this path or this machine.
    #[error("{0}")]
    Unsupported(String),
    /// A command of its set-up or for its counters failed.
    #[error("`{command}` {how}{}", tail(output))]
    Command {
        /// The command line.
        command: String,
        /// How it ended: `ended with exit status: 1`.
        how: String,
        /// The end of what it printed.
        output: String,
    },
    /// Its process has ended.
    #[error("{name} died: {how}{}", tail(output))]
    Died {
        /// The device.
        name: String,
        /// How it ended.
        how: String,
        /// The end of what it printed.
        output: String,
    },
    /// It cannot be reset from here.
    #[error("{0} cannot be reset from here")]
    NoReset(String),
    /// Something else that the system refused.
    #[error("{action}: {source}")]
    System {
        /// What was being done.
        action: String,
        /// What the system answered.
        source: io::Error,
    },
}

impl DutError {
    pub(super) fn system<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> Self {
        move |source| Self::System { action: action.into(), source: source.into() }
    }
}

/// The last lines of an output, as the end of a message.
fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.get(lines.len().saturating_sub(LINES_MAX)..) {
        None | Some([]) => ", and printed nothing".to_owned(),
        Some(last) => format!(", and printed last: {}", last.join(" / ")),
    }
}

const LINES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_told_with_its_last_lines() {
        let output = (0..20).map(|line| format!("line {line}\n\n")).collect();
        let error = DutError::Died { name: "ovs".into(), how: "signal 9".into(), output };
        let text = error.to_string();
        assert!(text.starts_with("ovs died: signal 9, and printed last: line 12 / "), "{text}");
        assert!(text.ends_with("/ line 19"), "{text}");
        let error = DutError::Died { name: "ovs".into(), how: "signal 9".into(), output: "\n".into() };
        assert_eq!(error.to_string(), "ovs died: signal 9, and printed nothing");
    }
}
