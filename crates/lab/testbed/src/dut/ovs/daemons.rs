//! The two processes of a private Open vSwitch, and how to talk to them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use linerate_process::Process;

use crate::dut::DutError;
use crate::dut::folder::Folder;
use crate::dut::tools::{Place, died};
use crate::switches::until_heard;
use crate::threads::{Priority, raise_priority};

use super::At;

/// Longest wait until a process answers.
const READY_MAX: Duration = Duration::from_secs(20);
const PROBE_GAP: Duration = Duration::from_millis(20);
/// How long a process may take to end by itself.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Memory of DPDK, in MiB: half of it are packets.
const DPDK_MIB: u32 = 1024;
/// Where packages and a build from source have the schema of the database.
const DATA_DIRECTORIES: [&str; 2] = ["/usr/share/openvswitch", "/usr/local/share/openvswitch"];
/// Warnings to the standard error, which is kept; nothing to files or to syslog.
const LOGGING: [&str; 3] = ["-vconsole:warn", "-vfile:off", "-vsyslog:off"];

/// Dropped in this order: the switch, its database, their folder.
pub(super) struct Daemons {
    switch: Process,
    database: Process,
    folder: Folder,
}

impl Daemons {
    /// Starts both with an empty database and waits until they answer.
    pub(super) fn start(at: &At) -> Result<Self, DutError> {
        let folder = Folder::make()?;
        let place = place(at, folder.path());
        let (schema, file) = (schema()?, folder.text("conf.db"));
        place.run(&line(&["ovsdb-tool", "create", &file, &schema]), None)?;
        let (socket, control) = (format!("--remote=punix:{}", folder.text("db.sock")), folder.text("db.ctl"));
        let control = format!("--unixctl={control}");
        let command = [&["ovsdb-server", &file, &socket, &control, "--no-chdir"], LOGGING.as_slice()].concat();
        let database = place.start(&line(&command))?;
        let client = folder.text("db.sock");
        let init = line(&["ovs-vsctl", &format!("--db=unix:{client}"), "--no-wait", "init"]);
        answers(&place, &database, "ovsdb-server", &init)?;
        if let At::Memory { cores, .. } = at {
            let mut set = line(&["ovs-vsctl", &format!("--db=unix:{client}"), "--no-wait", "set", "Open_vSwitch", "."]);
            set.extend(dpdk_settings(cores));
            place.run(&set, None)?;
        }
        let switch = start_switch(at, &place, &folder)?;
        drop(place);
        Ok(Self { switch, database, folder })
    }

    pub(super) fn restart_switch(&mut self, at: &At) -> Result<(), DutError> {
        self.switch.stop(STOP_MAX);
        self.switch = start_switch(at, &place(at, self.folder.path()), &self.folder)?;
        // Answers once the switch has taken over what the database says.
        let show = self.openflow_command(&["dump-flows"], &[]);
        answers(&place(at, self.folder.path()), &self.switch, "ovs-vswitchd", &show)
    }

    /// Whether both are alive.
    pub(super) fn check(&self) -> Result<(), DutError> {
        for (name, process) in [("ovs-vswitchd", &self.switch), ("ovsdb-server", &self.database)] {
            if let Some(status) = process.ended() {
                return Err(died(name, status, process));
            }
        }
        Ok(())
    }

    /// Puts the polling threads ahead of what else runs on their cores, as the tester's threads and Linerate's switches are. They have their
    /// cores for themselves, so nothing of the lab has to wait for them. A wish, as [`raise_priority`] is.
    pub(super) fn put_polling_threads_ahead(&self) {
        let Some(id) = self.switch.id() else { return };
        let threads = std::fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
        for thread in threads.map(|thread| thread.path()) {
            let is_polling = std::fs::read_to_string(thread.join("comm")).is_ok_and(|name| name.starts_with("pmd-"));
            let number = thread.file_name().and_then(|name| name.to_str()?.parse().ok());
            if let Some(number) = number.filter(|_| is_polling) {
                raise_priority(number, Priority::Nice);
            }
        }
    }

    /// Runs `ovs-vsctl`, which waits until the switch has done what it says.
    pub(super) fn configure(&self, at: &At, arguments: &str) -> Result<String, DutError> {
        let mut command = line(&["ovs-vsctl", &format!("--db=unix:{}", self.folder.text("db.sock")), "--timeout=20"]);
        command.extend(arguments.split_whitespace().map(str::to_owned));
        self.run(at, &command)
    }

    /// Runs `ovs-ofctl BEFORE... SOCKET AFTER...`, once more where a switch that lives resets the connection.
    pub(super) fn openflow(&self, at: &At, before: &[&str], after: &[&str]) -> Result<String, DutError> {
        let command = self.openflow_command(before, after);
        let output = |error: &DutError| match error {
            DutError::Command { output, .. } => Some(output.clone()),
            _ => None,
        };
        until_heard(|| self.run(at, &command), output)
    }

    /// Adds the entries of these lines, and returns once all are in force. They go as one bundle, which OpenFlow has from 1.4 on: without it
    /// `ovs-ofctl` waits for an answer to each entry, and a million of round trips take minutes, or hours on a busy machine.
    pub(super) fn add_flows(&self, at: &At, lines: &str, at_most: Duration) -> Result<(), DutError> {
        let command = self.openflow_command(&["-O", "OpenFlow14", "--bundle", "add-flows"], &["-"]);
        let added = place(at, self.folder.path()).run_for(&command, Some(lines), at_most);
        added.map(drop).map_err(|error| self.of_dead(error))
    }

    /// The command that prints what the ports counted.
    pub(super) fn ports_command(&self) -> Vec<String> {
        self.openflow_command(&["--no-names", "dump-ports"], &[])
    }

    /// The folder of the sockets.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn openflow_command(&self, before: &[&str], after: &[&str]) -> Vec<String> {
        let socket = format!("unix:{}", self.folder.text("br0.mgmt"));
        line(&[&["ovs-ofctl"], before, &[socket.as_str()], after].concat())
    }

    /// Runs a command of the switch itself.
    pub(super) fn control(&self, at: &At, command: &str) -> Result<String, DutError> {
        self.run(at, &line(&["ovs-appctl", "-t", &self.folder.text("switch.ctl"), command]))
    }

    fn run(&self, at: &At, command: &[String]) -> Result<String, DutError> {
        place(at, self.folder.path()).run(command, None).map_err(|error| self.of_dead(error))
    }

    /// The death of a process, where that is why a command failed.
    fn of_dead(&self, error: DutError) -> DutError {
        self.check().err().unwrap_or(error)
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.switch.stop(STOP_MAX);
        self.database.stop(STOP_MAX);
    }
}

fn place<'a>(at: &'a At, folder: &Path) -> Place<'a> {
    let folder = folder.to_string_lossy().into_owned();
    let environment = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
    let environment = environment.map(|name| (name.to_owned(), folder.clone())).into();
    match at {
        At::Interfaces(links) => {
            Place { namespace: Some(&links.dut().namespace), environment, cores: &links.spec().dut_cores }
        }
        // Its polling thread has a core of its own; the others would keep that thread waiting there.
        At::Memory { namespace, .. } => Place { namespace: Some(namespace), environment, cores: &[] },
    }
}

/// Settings of DPDK without huge pages, devices of the machine, or files that stay; its polling thread on the first of the cores.
fn dpdk_settings(cores: &[usize]) -> Vec<String> {
    let eal = format!("--no-huge --legacy-mem --no-pci --no-shconf --no-telemetry -m {DPDK_MIB}");
    let mut settings = vec!["other_config:dpdk-init=true".to_owned(), format!("other_config:dpdk-extra=\"{eal}\"")];
    settings.extend(cores.first().map(|core| format!("other_config:pmd-cpu-mask={:x}", 1_u128 << core.min(&127))));
    settings
}

fn start_switch(at: &At, place: &Place<'_>, folder: &Folder) -> Result<Process, DutError> {
    let (database, control) = (format!("unix:{}", folder.text("db.sock")), folder.text("switch.ctl"));
    let unixctl = format!("--unixctl={control}");
    let command = [&[at.program(), &database, &unixctl, "--no-chdir"], LOGGING.as_slice()].concat();
    let switch = match at {
        At::Interfaces(_) => place.start_ahead(&line(&command))?,
        // It polls without end; its polling threads go ahead on their cores once they are there.
        At::Memory { .. } => place.start(&line(&command))?,
    };
    answers(place, &switch, "ovs-vswitchd", &line(&["ovs-appctl", "-t", &control, "version"]))?;
    Ok(switch)
}

/// Waits until `probe` succeeds.
fn answers(place: &Place<'_>, process: &Process, name: &str, probe: &[String]) -> Result<(), DutError> {
    let deadline = Instant::now() + READY_MAX;
    loop {
        let probed = place.run_for(probe, None, READY_MAX);
        if let Some(status) = process.ended() {
            return Err(died(name, status, process));
        }
        match probed {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= deadline || matches!(error, DutError::Missing { .. }) => return Err(error),
            Err(_) => std::thread::sleep(PROBE_GAP),
        }
    }
}

fn schema() -> Result<String, DutError> {
    let named = std::env::var_os("OVS_PKGDATADIR").map(PathBuf::from);
    let directories = named.into_iter().chain(DATA_DIRECTORIES.map(PathBuf::from));
    let found = directories.map(|directory| directory.join("vswitch.ovsschema")).find(|path| path.is_file());
    match found {
        Some(path) => Ok(path.to_string_lossy().into_owned()),
        None => Err(DutError::Missing { program: "vswitch.ovsschema".into(), package: Some("openvswitch-switch") }),
    }
}

fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
