//! How the interfaces of a capture receive, and on which cores. On a veth:
//!
//! | | AF_PACKET, libpcap | AF_XDP |
//! |---|---|---|
//! | interrupt | no NAPI; receive packet steering (RPS) chooses the core of the soft interrupt | the XDP program brings NAPI, whose soft interrupt stays on the sender's core: RPS comes after XDP |
//! | threaded NAPI | a kernel thread, pinned to the one core, or wherever the scheduler puts it with RPS over all | the same thread; RPS has no effect |
//! | busy polling | as interrupts, and the capture never sleeps (`--poll`) | the same |
//!
//! What has no effect is refused with that reason, and not measured as if it were something else.

use linerate_sys::affinity;

use super::super::DutError;
use super::{Capture, CaptureCores, CaptureTool, Reception};
use crate::placement::{self, Mode, Placement};
use crate::threads::{Priority, raise_priority};
use crate::topology::{Dut, Interface, TopologySpec};

/// A capture's settings on cores that there are.
pub(super) struct Receiving {
    capture: Capture,
    /// For `one`, that one.
    cores: Vec<usize>,
}

impl Receiving {
    /// Refuses what cannot be, or would have no effect.
    pub(super) fn of(capture: Capture, spec: &TopologySpec) -> Result<Self, DutError> {
        if let Some(why) = no_effect(&capture) {
            return Err(DutError::Unsupported(why.into()));
        }
        let own = match spec.placement {
            Placement::Thread { core: Some(core) } => Some(core),
            _ => spec.dut_cores.first().copied(),
        };
        let cores = match (capture.cores, own) {
            (CaptureCores::All, _) => affinity::allowed_cores(),
            (CaptureCores::One, Some(core)) => vec![core],
            (CaptureCores::One, None) => {
                let why = "a capture on one core needs one, and this placement gives the device none";
                return Err(DutError::Unsupported(why.into()));
            }
        };
        Ok(Self { capture, cores })
    }

    /// The cores that the process may use.
    pub(super) fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Has an interface receive as it shall. After the capture has begun: an XDP program brings NAPI of its own.
    pub(super) fn place(&self, dut: &Dut, interface: &Interface) -> Result<Mode, DutError> {
        let (namespace, name) = (&dut.namespace, interface.name);
        let wanted = match (self.capture.receive, self.capture.cores) {
            (Reception::ThreadedNapi, CaptureCores::One) => Placement::Thread { core: self.cores.first().copied() },
            (Reception::ThreadedNapi, CaptureCores::All) => Placement::Thread { core: None },
            (Reception::Interrupt | Reception::BusyPoll, _) => Placement::SenderContext,
        };
        let placed = placement::place(namespace, name, interface.index, wanted);
        let mode = placed.map_err(DutError::system(format!("set how {name} receives")))?;
        match &mode {
            Mode::SenderContext { why: Some(why) } => {
                return Err(DutError::Unsupported(format!("{name} gets no NAPI thread: {why}")));
            }
            Mode::Pinned { threads, .. } | Mode::Floating { threads, .. } => {
                threads.iter().for_each(|id| raise_priority(*id, Priority::Nice))
            }
            Mode::SenderContext { why: None } => {}
        }
        if self.steers() {
            let step = format!("steer what {name} receives (rps_cpus; only root may)");
            placement::steer(namespace, name, &self.cores).map_err(DutError::system(step))?;
        }
        Ok(mode)
    }

    /// Whether the capture looks at its rings all the time.
    pub(super) fn polls(&self) -> bool {
        self.capture.receive == Reception::BusyPoll
    }

    /// Whether receive packet steering chooses the core.
    fn steers(&self) -> bool {
        let all = self.capture.cores == CaptureCores::All;
        self.capture.tool != CaptureTool::Xdp && (all || self.capture.receive != Reception::ThreadedNapi)
    }

    /// All settings in a line: `AF_PACKET, threaded NAPI, one core, ring of 512 KiB`.
    pub(super) fn setting(&self) -> String {
        let Capture { tool, receive, cores, buffer_bytes, file } = self.capture;
        let tool = match tool {
            CaptureTool::Packet => "AF_PACKET",
            CaptureTool::Pcap => "libpcap",
            CaptureTool::Xdp => "AF_XDP",
        };
        let receive = match receive {
            Reception::Interrupt => "interrupts",
            Reception::BusyPoll => "busy polling",
            Reception::ThreadedNapi => "threaded NAPI",
        };
        let cores = match cores {
            CaptureCores::One => "one core",
            CaptureCores::All => "all cores",
        };
        let buffer = match (buffer_bytes >> 20, buffer_bytes >> 10) {
            (mebibytes, _) if mebibytes << 20 == buffer_bytes => format!("{mebibytes} MiB"),
            (_, kibibytes) if kibibytes << 10 == buffer_bytes => format!("{kibibytes} KiB"),
            _ => format!("{buffer_bytes} bytes"),
        };
        let file = if file { ", to files" } else { "" };
        format!("{tool}, {receive}, {cores}, ring of {buffer}{file}")
    }

    /// What the settings come to on a veth.
    pub(super) fn words(&self) -> String {
        let list = self.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let cores = if self.cores.len() == 1 { format!("core {list}") } else { format!("cores {list}") };
        let steered = format!("receive packet steering to {cores}");
        let is_xdp = self.capture.tool == CaptureTool::Xdp;
        let how = match (self.capture.receive, self.steers()) {
            (Reception::Interrupt | Reception::BusyPoll, true) => format!("in soft interrupts, {steered}"),
            (Reception::Interrupt | Reception::BusyPoll, false) => {
                "in soft interrupts on the sender's core: XDP comes before receive packet steering".to_owned()
            }
            (Reception::ThreadedNapi, true) => format!("in a NAPI thread, {steered}"),
            (Reception::ThreadedNapi, false) if is_xdp && self.capture.cores == CaptureCores::All => {
                "in a NAPI thread; receive packet steering has no effect on AF_XDP".to_owned()
            }
            (Reception::ThreadedNapi, false) => "in a NAPI thread".to_owned(),
        };
        let capture = if self.polls() { "the capture, which never sleeps," } else { "the capture" };
        format!("{how}; {capture} on {cores}")
    }
}

/// Why a combination would not be what it says.
fn no_effect(capture: &Capture) -> Option<&'static str> {
    match (capture.tool, capture.receive, capture.cores) {
        (CaptureTool::Xdp, Reception::Interrupt | Reception::BusyPoll, CaptureCores::One) => Some(
            "one core has no effect here: on a veth an XDP program runs in the soft interrupt of the sender's core, and \
             receive packet steering, which could move it, comes after XDP",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(tool: CaptureTool, receive: Reception, cores: CaptureCores) -> Capture {
        Capture { tool, receive, cores, buffer_bytes: 512 << 10, file: false }
    }

    #[test]
    fn what_has_no_effect_is_refused_with_the_reason() {
        let spec = TopologySpec { placement: Placement::Thread { core: Some(0) }, ..TopologySpec::default() };
        let of = |tool, receive, cores| Receiving::of(capture(tool, receive, cores), &spec);
        let why = |found: Result<Receiving, DutError>| found.err().map(|error| error.to_string()).unwrap_or_default();
        for cores in [CaptureCores::One, CaptureCores::All] {
            assert!(of(CaptureTool::Packet, Reception::BusyPoll, cores).is_ok_and(|receiving| receiving.polls()));
            assert!(of(CaptureTool::Pcap, Reception::Interrupt, cores).is_ok());
            assert!(of(CaptureTool::Xdp, Reception::ThreadedNapi, cores).is_ok());
        }
        for receive in [Reception::Interrupt, Reception::BusyPoll] {
            assert!(why(of(CaptureTool::Xdp, receive, CaptureCores::One)).starts_with("one core has no effect"));
        }
        let nowhere = TopologySpec::default();
        let one = Receiving::of(capture(CaptureTool::Packet, Reception::Interrupt, CaptureCores::One), &nowhere);
        assert!(why(one).contains("gives the device none"));
    }

    #[test]
    fn the_words_say_what_was_set() {
        let spec = TopologySpec { placement: Placement::Thread { core: Some(3) }, ..TopologySpec::default() };
        let of = |tool, receive, cores| Receiving::of(capture(tool, receive, cores), &spec).expect("fits");
        let one = of(CaptureTool::Packet, Reception::Interrupt, CaptureCores::One);
        assert_eq!(one.setting(), "AF_PACKET, interrupts, one core, ring of 512 KiB");
        assert_eq!(one.words(), "in soft interrupts, receive packet steering to core 3; the capture on core 3");
        let polls = of(CaptureTool::Pcap, Reception::BusyPoll, CaptureCores::One);
        assert_eq!(
            polls.words(),
            "in soft interrupts, receive packet steering to core 3; the capture, which never sleeps, on core 3"
        );
        let xdp = of(CaptureTool::Xdp, Reception::ThreadedNapi, CaptureCores::All);
        assert!(!xdp.steers() && xdp.words().contains("no effect on AF_XDP"), "{}", xdp.words());
    }
}
