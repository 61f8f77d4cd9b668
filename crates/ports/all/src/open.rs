//! From a spec to an open device.

use linerate_impair::Impairments;
use linerate_mem::Pool;
use linerate_port::{Device, Direction, OpenError, OpenOptions, Port, PortSpec, SpecError};

use crate::backend::{find, lines};
use crate::entry::{Entry, Unusable};
use crate::{choose, merged};

/// An open device.
pub struct Opened {
    /// The device.
    pub device: Device,
    /// One line for the user: for a bare interface name which backend was chosen, and why; else what the backend has to say.
    pub choice: Option<String>,
}

impl Opened {
    /// One port for all queue pairs of the device: it receives from each in turn, and sends on the first.
    pub fn into_port(self) -> Box<dyn Port> {
        merged::merge(self.device)
    }
}

/// Opens the port that `spec_text` names, for both directions, with the frames of `pool`, in the calling thread's network
/// namespace.
///
/// # Errors
/// The name means nothing, or what it means cannot be had here: with what is missing and what to do.
pub fn open(spec_text: &str, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
    open_device(&parse(spec_text)?, &OpenOptions::default(), pool).map(Opened::into_port)
}

/// Opens the device that a spec names, with the frames of `pool`, in the calling thread's network namespace. `options` completes
/// what the spec says.
///
/// # Errors
/// As [`open`]; the device does not go in the direction that was asked for, or has fewer queue pairs than threads.
pub fn open_device(spec: &PortSpec, options: &OpenOptions, pool: &Pool) -> Result<Opened, OpenError> {
    let (behind, impairments) = impaired(spec)?;
    let opened = match behind.backend.as_deref() {
        None => choose::open_bare(&behind, options, pool)?,
        Some(name) => {
            let entry = find(name).ok_or_else(|| {
                let hint = format!("a port is one of{}\n  {:20} the fastest of these that works on IF", lines(), "IF");
                OpenError::new(spec, format!("there is no backend {name}"), hint)
            })?;
            let device = open_with(entry, &behind, options, pool)?;
            let choice = device.note().map(str::to_owned);
            Opened { device, choice }
        }
    };
    let (caps, queues) = (opened.device.caps(), opened.device.queues());
    let refuse = |cause: String, hint| Err(OpenError::new(spec, cause, hint));
    match options.direction {
        Some(Direction::Transmit) if !caps.transmits => refuse("this kind of port cannot send".into(), ""),
        Some(Direction::Receive) if !caps.receives => refuse("this kind of port cannot receive".into(), ""),
        _ if options.threads.is_some_and(|threads| threads > queues) => {
            let threads = options.threads.unwrap_or_default();
            let queues = if queues == 1 { "one queue".into() } else { format!("{queues} queues") };
            refuse(format!("it has {queues}, fewer than the {threads} threads"), "take fewer threads")
        }
        _ => {
            let device = opened.device.try_map(|port| impairments.wrap(port, pool))?;
            Ok(Opened { device, ..opened })
        }
    }
}

/// The spec of the port behind the impairments that a spec has, and those.
pub(crate) fn impaired(spec: &PortSpec) -> Result<(PortSpec, Impairments), OpenError> {
    let mut behind = spec.clone();
    let impairments = Impairments::take(&mut behind);
    let impairments = impairments.map_err(|error| OpenError::new(error.text, error.problem, ""))?;
    Ok((behind, impairments))
}

/// Both ends of a link between two threads of this process, which nobody else can open by its name.
pub fn pipe(name: &str, pool: &Pool) -> [Box<dyn Port>; 2] {
    let (one, other) = linerate_port_pipe::pair(name, pool, linerate_port_pipe::RING_DEFAULT);
    [Box::new(one), Box::new(other)]
}

/// Opens a spec of a known backend.
pub(crate) fn open_with(
    entry: &Entry,
    spec: &PortSpec,
    options: &OpenOptions,
    pool: &Pool,
) -> Result<Device, OpenError> {
    let Some(open) = entry.open else {
        let Unusable { cause, hint } = (entry.probe)().err().unwrap_or_default();
        let hint = if hint.is_empty() { format!("there are{}", lines()) } else { hint };
        return Err(OpenError::new(spec, cause, hint));
    };
    open(spec.completed(options), pool)
}

/// Takes a port's name apart.
///
/// # Errors
/// What is wrong with it.
pub fn parse(spec_text: &str) -> Result<PortSpec, OpenError> {
    spec_text.parse().map_err(|error: SpecError| OpenError::new(&error.text, error.problem, ""))
}
