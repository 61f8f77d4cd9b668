//! Running the programs that set devices up, in a device's namespace.

use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use linerate_process::{OUTPUT_BYTES_MAX, Process, Spec};
use linerate_sys::affinity;
use linerate_sys::netns::NetNs;

use super::DutError;
use crate::threads::{Priority, raise_priority};

/// Longest run of a tool. Loading 65,536 rules takes seconds.
pub(super) const TOOL_MAX: Duration = Duration::from_secs(60);

/// The most that is read of a tool: the list of 65,536 rules is a tenth of it.
const TOOL_OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Programs and the packages of Debian and its kin that have them.
const PACKAGES: [(&str, &str); 12] = [
    ("ovs-vswitchd-dpdk", "openvswitch-switch-dpdk"),
    ("ping", "iputils-ping"),
    ("iptables-restore", "iptables"),
    ("iptables-save", "iptables"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
    ("ovsdb-tool", "openvswitch-switch"),
    ("ovsdb-server", "openvswitch-switch"),
    ("ovs-vswitchd", "openvswitch-switch"),
    ("ovs-vsctl", "openvswitch-switch"),
    ("ovs-ofctl", "openvswitch-switch"),
    ("ovs-appctl", "openvswitch-switch"),
];

/// Where tools are that an ordinary user's PATH leaves out: those of an administrator, and variants that are chosen by a link.
const DIRECTORIES: [&str; 5] =
    ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/lib/openvswitch-switch-dpdk"];

/// Where tools run.
#[derive(Debug, Default)]
pub(super) struct Place<'a> {
    /// In this namespace; `None` = this process's.
    pub(super) namespace: Option<&'a NetNs>,
    /// Added to the environment.
    pub(super) environment: Vec<(String, String)>,
    /// On these cores; none = wherever this process may run.
    pub(super) cores: &'a [usize],
}

impl<'a> Place<'a> {
    pub(super) fn inside(namespace: &'a NetNs) -> Self {
        Self { namespace: Some(namespace), ..Self::default() }
    }

    /// Starts a program that stays.
    pub(super) fn start(&self, command: &[String]) -> Result<Process, DutError> {
        self.spawn(command, None, OUTPUT_BYTES_MAX)
    }

    /// As [`Place::start`], ahead of what else runs on its cores: so do the tester's threads and those of its interfaces, which would
    /// else leave it nothing of a core that they share with it. For programs that sleep when there is nothing to do: others would
    /// leave nothing to the lab.
    pub(super) fn start_ahead(&self, command: &[String]) -> Result<Process, DutError> {
        let ahead = || {
            raise_priority(0, Priority::Nice);
            self.start(command)
        };
        std::thread::scope(|scope| scope.spawn(ahead).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    fn spawn(&self, command: &[String], input: Option<&str>, output_bytes_max: usize) -> Result<Process, DutError> {
        let mut command = command.to_vec();
        let name = command.first().cloned().unwrap_or_default();
        if let Some(program) = command.first_mut() {
            *program = found(program);
        }
        let namespace = self.namespace.map(NetNs::try_clone).transpose();
        let namespace = namespace.map_err(DutError::system("hold the device's namespace"))?;
        let (environment, input) = (self.environment.clone(), input.map(str::to_owned));
        match on_cores(self.cores, || Process::start(Spec { command, environment, namespace, input, output_bytes_max }))
        {
            Ok(process) => Ok(process),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing(&name)),
            Err(error) => Err(DutError::System { action: format!("start `{name}`"), source: error }),
        }
    }

    /// Runs a program to its end and returns what it printed.
    pub(super) fn run(&self, command: &[String], input: Option<&str>) -> Result<String, DutError> {
        self.run_for(command, input, TOOL_MAX)
    }

    /// What a program prints that ends within a time, however it ends.
    pub(super) fn printed_by(&self, command: &[String], at_most: Duration) -> Result<String, DutError> {
        self.ended(command, None, at_most).map(|(process, _)| process.printed())
    }

    /// A program at its end, and how it ended: by itself, or killed after that time.
    fn ended(
        &self,
        command: &[String],
        input: Option<&str>,
        at_most: Duration,
    ) -> Result<(Process, Option<ExitStatus>), DutError> {
        let process = self.spawn(command, input, TOOL_OUTPUT_BYTES_MAX)?;
        let ended = process.wait(at_most);
        if ended.is_none() {
            process.kill();
        }
        Ok((process, ended))
    }

    /// As [`Place::run`], for a given time at most.
    pub(super) fn run_for(
        &self,
        command: &[String],
        input: Option<&str>,
        at_most: Duration,
    ) -> Result<String, DutError> {
        let (process, ended) = self.ended(command, input, at_most)?;
        match ended {
            Some(status) if status.success() => Ok(process.printed()),
            _ => {
                let how = ended.map_or_else(|| format!("did not end in {} ms", at_most.as_millis()), ended_with);
                Err(DutError::Command { command: command.join(" "), how, output: process.output() })
            }
        }
    }
}

/// Does something on these cores; what it starts stays there.
fn on_cores<T: Send>(cores: &[usize], work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    if cores.is_empty() {
        return work();
    }
    let pinned = || affinity::pin_thread(0, cores).and_then(|()| work());
    std::thread::scope(|scope| scope.spawn(pinned).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// The words of a command line without spaces inside its words.
pub(super) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// What there is to say of a device whose process has ended.
pub(super) fn died(name: &str, status: ExitStatus, process: &Process) -> DutError {
    DutError::Died { name: name.to_owned(), how: ended_with(status), output: process.output() }
}

/// How a process ended, in words.
fn ended_with(status: ExitStatus) -> String {
    format!("ended with {status}")
}

/// Where a program is, by its name: in PATH, or where administrators' tools are.
fn found(program: &str) -> String {
    let in_path = |path: &str| std::env::split_paths(path).any(|directory| directory.join(program).is_file());
    if program.contains('/') || std::env::var("PATH").is_ok_and(|path| in_path(&path)) {
        return program.to_owned();
    }
    let paths = DIRECTORIES.iter().map(|directory| format!("{directory}/{program}"));
    paths.into_iter().find(|path| Path::new(path).is_file()).unwrap_or_else(|| program.to_owned())
}

fn missing(program: &str) -> DutError {
    let package = PACKAGES.iter().find(|(name, _)| *name == program).map(|(_, package)| *package);
    DutError::Missing { program: program.to_owned(), package }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_installed_is_told_with_its_package() {
        let error = missing("nft").to_string();
        assert!(error.ends_with("install the package nftables"), "{error}");
        let error = Place::default().run(&words("linerate-no-such-tool --version"), None).expect_err("not there");
        assert!(matches!(error, DutError::Missing { package: None, .. }), "{error}");
        assert!(error.to_string().contains("`linerate-no-such-tool`"), "{error}");
    }

    #[test]
    fn a_tool_that_fails_is_told_with_what_it_printed_and_one_that_hangs_is_killed() {
        let script = |text: &str| vec!["sh".to_owned(), "-c".to_owned(), text.to_owned()];
        let error = Place::default().run(&script("echo because >&2; exit 2"), None).expect_err("fails").to_string();
        assert!(error.contains("exit status: 2") && error.ends_with("printed last: because"), "{error}");
        let hangs = script("sleep 600");
        let error = Place::default().run_for(&hangs, None, Duration::from_millis(50)).expect_err("hangs").to_string();
        assert!(error.contains("did not end in 50 ms"), "{error}");
        assert_eq!(Place::default().run(&script("cat"), Some("given")).expect("cat"), "given");
    }

    #[test]
    fn a_program_goes_ahead_where_that_is_allowed_and_tools_do_not() {
        let place = Place::default();
        let own = place.run(&words("nice"), None).expect("coreutils");
        let allowed = std::thread::spawn(|| affinity::set_nice(0, -20).is_ok()).join().expect("no panic");
        let process = place.start_ahead(&words("nice")).expect("it starts");
        process.wait(Duration::from_secs(20));
        let expected = if allowed { "-20" } else { own.trim() };
        assert_eq!(process.printed().trim(), expected);
    }
}
