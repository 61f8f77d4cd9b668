//! From port names to open ports on one pool, with notes for whoever reads stderr.

use linerate_mem::Pool;
use linerate_port::{Direction, OpenError, OpenOptions, Port, PortSpec};
use linerate_ports::{PoolPlan, len_max};
use linerate_switch::vale;

/// Takes port names apart. Names of the form `valeS:P` are attached to their switch, so each is to be opened once.
///
/// # Errors
/// The first name that is none, or whose switch cannot be had.
pub fn specs(names: &[String]) -> Result<Vec<PortSpec>, String> {
    let spec = |name: &String| {
        let name = attached(name).map_err(|error| error.to_string())?;
        name.parse::<PortSpec>().map_err(|error| error.to_string())
    };
    names.iter().map(spec).collect()
}

/// The port that a name stands for: `valeS:P` becomes a memif port of the switch valeS, which is started if need be.
///
/// # Errors
/// The switch cannot be had, or the port is in use.
pub fn attached(name: &str) -> Result<String, OpenError> {
    let program = std::env::current_exe().unwrap_or_else(|_| "linerate".into());
    vale::resolve(name, &program)
}

/// A pool for these ports, with frames that hold packets of `longest` bytes (without FCS), and any packet of the receivers, where
/// that is possible.
///
/// # Errors
/// The memory cannot be had, or two of the ports have memory of their own.
pub fn pool(senders: &[PortSpec], receivers: &[PortSpec], longest: usize) -> Result<Pool, String> {
    let (transmit, receive) = (OpenOptions::transmit(), OpenOptions::receive());
    let sending = senders.iter().map(|spec| (spec, &transmit));
    let ports: Vec<_> = sending.chain(receivers.iter().map(|spec| (spec, &receive))).collect();
    let longest = longest.max(if receivers.is_empty() { 1 } else { len_max(receivers) });
    linerate_ports::pool(&PoolPlan { ports: &ports, len_max: longest, extra: 0 }).map_err(|error| error.to_string())
}

/// A pool for each of these ports, which packets go between in both directions, with `extra` frames for packets that wait in the
/// program.
///
/// # Errors
/// The memory cannot be had.
pub fn pools(specs: &[PortSpec], extra: usize) -> Result<Vec<Pool>, String> {
    let both = OpenOptions::default();
    let ports: Vec<_> = specs.iter().map(|spec| (spec, &both)).collect();
    linerate_ports::pools(&PoolPlan { ports: &ports, len_max: 0, extra }).map_err(|error| error.to_string())
}

/// Opens a port for one direction, or for both where it may turn out to go one way only, and says on stderr which backend a bare
/// interface got.
///
/// # Errors
/// As the backend; also when the port does not go in the one direction. In words.
pub fn open_noted(spec: &PortSpec, direction: Direction, pool: &Pool, quiet: bool) -> Result<Box<dyn Port>, String> {
    let options = OpenOptions { direction: Some(direction), ..OpenOptions::default() };
    let opened = linerate_ports::open_device(spec, &options, pool).map_err(|error| error.to_string())?;
    if let Some(choice) = opened.choice.as_ref().filter(|_| !quiet) {
        super::note(choice);
    }
    Ok(opened.into_port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_sent_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let spec = linerate_ports::file(&path.display().to_string());
        let pool = pool(std::slice::from_ref(&spec), &[], 60).unwrap();
        assert!(open_noted(&spec, Direction::Receive, &pool, true).is_err(), "there is none yet");
        assert!(open_noted(&spec, Direction::Transmit, &pool, true).unwrap().caps().transmits);
        assert!(path.exists());
    }

    #[test]
    fn a_port_that_cannot_is_refused_in_words() {
        let pool = pool(&["null:".parse().unwrap()], &[], 60).unwrap();
        let error = open_noted(&"null:".parse().unwrap(), Direction::Receive, &pool, true).map(|_| ()).unwrap_err();
        assert_eq!(error, "cannot open null:: this kind of port cannot receive");
    }
}
