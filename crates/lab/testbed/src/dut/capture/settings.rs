//! What a capture can be told: the keys of its table, of which most can be lists.

use linerate_experiment::DutSettings;
use linerate_experiment::section::{self, Section, Value, one_or_more, one_or_more_words};

use super::super::kind::Settings;
use super::super::{Built, DutError};
use crate::topology::TopologySpec;

const TOOLS: [(&str, CaptureTool); 6] = [
    ("packet", CaptureTool::Packet),
    ("pcap", CaptureTool::Pcap),
    ("xdp", CaptureTool::Xdp),
    ("af-packet", CaptureTool::Packet),
    ("libpcap", CaptureTool::Pcap),
    ("af-xdp", CaptureTool::Xdp),
];
const RECEPTIONS: [(&str, Reception); 3] = [
    ("interrupt", Reception::Interrupt),
    ("busy-poll", Reception::BusyPoll),
    ("threaded-napi", Reception::ThreadedNapi),
];
const CORES: [(&str, CaptureCores); 2] = [("one", CaptureCores::One), ("all", CaptureCores::All)];
const BUFFER_BYTES: u64 = 64 << 20;
/// As `linerate capture --ring` takes them.
const BUFFER_BYTES_MIN: u64 = 64 << 10;

/// `linerate capture` as a device: it takes what it is sent, counts it, and sends nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capture {
    /// By which of the kernel's ways it gets packets.
    pub tool: CaptureTool,
    /// How its interfaces receive.
    pub receive: Reception,
    /// Where that is done, and where it runs itself.
    pub cores: CaptureCores,
    /// Bytes of the ring of each interface.
    pub buffer_bytes: u64,
    /// Whether it writes a file; else it counts.
    pub file: bool,
}

/// By which of the kernel's ways a capture gets packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureTool {
    /// A ring of an AF_PACKET socket, walked by Linerate itself.
    Packet,
    /// The same socket by way of libpcap.
    Pcap,
    /// AF_XDP.
    Xdp,
}

impl CaptureTool {
    /// In files and names: `packet`, `pcap`, `xdp`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Pcap => "pcap",
            Self::Xdp => "xdp",
        }
    }
}

/// How an interface receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// In a soft interrupt on the core that the packet is steered to.
    Interrupt,
    /// By the reading thread itself, which polls the interface's queue (SO_BUSY_POLL of socket(7)).
    BusyPoll,
    /// By a kernel thread for each queue (`threaded`, Documentation/networking/napi.rst).
    ThreadedNapi,
}

/// Where packets are received and captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureCores {
    /// Reception and capture on one core, the device's.
    One,
    /// Both on all cores, flows spread by receive packet steering where that has an effect.
    All,
}

impl Default for Capture {
    fn default() -> Self {
        let (tool, receive, cores) = (CaptureTool::Packet, Reception::Interrupt, CaptureCores::One);
        Self { tool, receive, cores, buffer_bytes: BUFFER_BYTES, file: false }
    }
}

impl DutSettings for Capture {
    fn captures(&self) -> bool {
        true
    }
}

impl Settings for Capture {
    const WORD: &str = "capture";
    const ABOUT: &str =
        "Linerate's own capture, as a program, on the first interface, and with load both ways on the second as well";

    /// In the order tool, cores, reception, buffer. The settings that are lists are parts of the names: `NAME-packet-one-interrupt-512KiB`.
    fn read(table: &Section<'_>) -> Vec<(String, Self)> {
        let default = Self::default();
        let tools = one_or_more_words(table, ("tool", "tool"), &TOOLS, default.tool);
        let cores = one_or_more_words(table, ("cores", "cores of a capture"), &CORES, default.cores);
        let receptions = one_or_more_words(table, ("receive", "way of receiving"), &RECEPTIONS, default.receive);
        let read = |value: &Value<'_>| section::bytes(value, "buffer", BUFFER_BYTES_MIN, table.log);
        let buffers = one_or_more(table, "buffer", default.buffer_bytes, section::shown_bytes, read);
        let file = table.boolean("file").unwrap_or(default.file);
        let mut captures = Vec::new();
        for (tool, tool_word) in &tools {
            for (cores, cores_word) in &cores {
                for (receive, receive_word) in &receptions {
                    for (buffer_bytes, buffer_word) in &buffers {
                        let words = [tool_word.as_str(), cores_word, receive_word, buffer_word].concat();
                        let (tool, receive, cores, buffer_bytes) = (*tool, *receive, *cores, *buffer_bytes);
                        captures.push((words, Self { tool, receive, cores, buffer_bytes, file }));
                    }
                }
            }
        }
        captures
    }

    fn build(&self, path: &TopologySpec) -> Result<Built, DutError> {
        super::build(*self, path)
    }
}
