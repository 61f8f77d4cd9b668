//! From port names to open ports on one pool, with notes for whoever reads stderr.

use linerate_mem::Pool;
use linerate_port::{Device, Direction, OpenOptions, Port, PortSpec};
use linerate_ports::{Opened, PoolPlan, len_max};

use super::cores::list_of;

pub use crate::attach::attached;

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

/// Bursts of a thread, of [`BURST`] packets each, that may wait beside its rings.
const BURSTS: usize = 4;
/// Packets that a thread moves at once, at most.
const BURST: usize = 256;

/// How the queues of each port are divided among threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Threads of each port; 0 and 1 are one thread.
    pub threads: usize,
    /// Queues to open; `None` = one for each thread of senders, all for receivers.
    pub queues: Option<u32>,
}

impl Division {
    /// The division that a user asks for. `cores` is the text of `--cores`, which names a core for each thread of `ports` ports and for `others`
    /// further threads; without a list of cores there is a thread for each queue.
    ///
    /// # Errors
    /// A text that is no list, or cores that cannot be divided among the ports.
    pub fn of(cores: Option<&str>, queues: Option<u32>, ports: usize, others: usize) -> Result<Division, String> {
        let queue_count = queues.unwrap_or(1) as usize;
        let Some(list) = cores.filter(|list| *list != "none") else {
            return Ok(Division { threads: queue_count, queues });
        };
        let (count, ports) = (list_of(list)?.len(), ports.max(1));
        let threads = count.saturating_sub(others) / ports;
        if threads * ports + others < count && threads > 1 {
            return Err(format!(
                "--cores {list}: {count} cores cannot be divided among {ports} ports; each has the same number of threads"
            ));
        }
        if queues.is_some() && threads > queue_count {
            return Err(format!("--cores {list}: {threads} threads for {queue_count} queues; a queue has one thread"));
        }
        Ok(Division { threads: threads.max(1), queues })
    }

    /// These options for a device that goes one way.
    fn options(self, direction: Direction) -> OpenOptions {
        let threads = (self.threads > 1 || self.queues.is_some()).then_some(self.threads.max(1));
        OpenOptions { direction: Some(direction), threads, queues: self.queues, ..OpenOptions::default() }
    }

    /// Frames that threads of `ports` ports hold beside the rings.
    fn frames(self, ports: usize) -> usize {
        if self.threads > 1 { BURSTS * BURST * self.threads * ports } else { 0 }
    }
}

/// A pool for these ports, with frames that hold packets of `longest` bytes (without FCS), and any packet of the receivers, where
/// that is possible. The queues of both are divided among threads.
///
/// # Errors
/// The memory cannot be had, or two of the ports have memory of their own.
pub fn pool(
    senders: (&[PortSpec], Division),
    receivers: (&[PortSpec], Division),
    longest: usize,
) -> Result<Pool, String> {
    let (transmit, receive) = (senders.1.options(Direction::Transmit), receivers.1.options(Direction::Receive));
    let sending = senders.0.iter().map(|spec| (spec, &transmit));
    let ports: Vec<_> = sending.chain(receivers.0.iter().map(|spec| (spec, &receive))).collect();
    let len_max = longest.max(if receivers.0.is_empty() { 1 } else { len_max(receivers.0) });
    let extra = senders.1.frames(senders.0.len()) + receivers.1.frames(receivers.0.len());
    linerate_ports::pool(&PoolPlan { ports: &ports, len_max, extra }).map_err(|error| error.to_string())
}

/// Opens a port for one direction and divides its queues among threads: the ports of each thread. Says on stderr which backend a bare
/// interface got.
///
/// # Errors
/// As the backend; also when it has fewer queues than there are threads, or does not go in the direction. In words.
pub fn open_divided(
    spec: &PortSpec,
    direction: Direction,
    division: Division,
    pool: &Pool,
    quiet: bool,
) -> Result<Vec<Vec<Box<dyn Port>>>, String> {
    let device = open_device_noted(spec, &division.options(direction), pool, quiet)?;
    Ok(linerate_ports::divide(device, division.threads))
}

/// A pool for each of these ports, which packets go between in both directions, with `extra` frames for packets that wait in the
/// program.
///
/// # Errors
/// The memory cannot be had.
pub fn pools(specs: &[PortSpec], extra: usize) -> Result<Vec<Pool>, String> {
    let both = OpenOptions::default();
    pools_with(&specs.iter().map(|spec| (spec, &both)).collect::<Vec<_>>(), extra)
}

/// As [`pools`], for ports that are opened with options.
///
/// # Errors
/// The memory cannot be had.
pub fn pools_with(ports: &[(&PortSpec, &OpenOptions)], extra: usize) -> Result<Vec<Pool>, String> {
    linerate_ports::pools(&PoolPlan { ports, len_max: 0, extra }).map_err(|error| error.to_string())
}

/// Opens a port for one direction, or for both where it may turn out to go one way only, and says on stderr which backend a bare
/// interface got.
///
/// # Errors
/// As the backend; also when the port does not go in the one direction. In words.
pub fn open_noted(spec: &PortSpec, direction: Direction, pool: &Pool, quiet: bool) -> Result<Box<dyn Port>, String> {
    let options = OpenOptions { direction: Some(direction), ..OpenOptions::default() };
    open_opened(spec, &options, pool, quiet).map(Opened::into_port)
}

/// As [`open_noted`], for the whole device, with the options of whoever calls.
///
/// # Errors
/// As there.
pub fn open_device_noted(spec: &PortSpec, options: &OpenOptions, pool: &Pool, quiet: bool) -> Result<Device, String> {
    open_opened(spec, options, pool, quiet).map(|opened| opened.device)
}

fn open_opened(spec: &PortSpec, options: &OpenOptions, pool: &Pool, quiet: bool) -> Result<Opened, String> {
    let opened = linerate_ports::open_device(spec, options, pool).map_err(|error| error.to_string())?;
    if let Some(choice) = opened.choice.as_ref().filter(|_| !quiet) {
        super::note(choice);
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_sent_to_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let spec = linerate_ports::file(&path.display().to_string());
        let none = Division::default();
        let pool = pool((std::slice::from_ref(&spec), none), (&[], none), 60).unwrap();
        assert!(open_noted(&spec, Direction::Receive, &pool, true).is_err(), "there is none yet");
        assert!(open_noted(&spec, Direction::Transmit, &pool, true).unwrap().caps().transmits);
        assert!(path.exists());
    }

    #[test]
    fn a_port_that_cannot_is_refused_in_words() {
        let none = Division::default();
        let pool = pool((&["null:".parse().unwrap()], none), (&[], none), 60).unwrap();
        let error = open_noted(&"null:".parse().unwrap(), Direction::Receive, &pool, true).map(|_| ()).unwrap_err();
        assert_eq!(error, "cannot open null:: this kind of port cannot receive");
    }

    #[test]
    fn cores_and_queues_say_how_many_threads_there_are() {
        let of = |cores, queues, ports, others| Division::of(cores, queues, ports, others).map(|one| one.threads);
        assert_eq!(
            (of(None, None, 1, 0), of(None, Some(4), 1, 0), of(Some("none"), Some(4), 2, 1)),
            (Ok(1), Ok(4), Ok(4))
        );
        assert_eq!(
            (of(Some("0,1"), None, 1, 0), of(Some("0,1"), None, 1, 1), of(Some("0-3"), None, 2, 0)),
            (Ok(2), Ok(1), Ok(2))
        );
        // A core too few is refused by whoever chooses the cores.
        assert_eq!((of(Some("0"), None, 2, 0), of(Some("0,1"), Some(4), 1, 0)), (Ok(1), Ok(2)));
        assert!(
            of(Some("0-4"), None, 2, 0).is_err()
                && of(Some("0-3"), Some(2), 1, 0).is_err()
                && of(Some("x"), None, 1, 0).is_err()
        );
    }

    #[test]
    fn queues_are_divided_among_threads() {
        let (spec, division) = ("null:".parse().unwrap(), Division { threads: 2, queues: Some(5) });
        let pool = pool((std::slice::from_ref(&spec), division), (&[], Division::default()), 60).unwrap();
        let threads = open_divided(&spec, Direction::Transmit, division, &pool, true).unwrap();
        assert_eq!(threads.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3]);
        let file = linerate_ports::file("/dev/null");
        assert!(open_divided(&file, Direction::Transmit, division, &pool, true).is_err(), "a file has one queue");
    }
}
