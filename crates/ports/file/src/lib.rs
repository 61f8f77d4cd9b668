//! `file:PATH` receives the packets of a capture file; `file:PATH,write` writes what is transmitted into one.
//!
//! ```text
//! file:in.pcapng                 pcapng, or pcap with µs or ns in either byte order; found out by looking
//! file:in.pcap,loop=10           ten times over; loop alone = for ever
//! file:in.pcap,pad               packets that the capture cut short get their length back, with zero bytes
//! file:out.pcapng,write          pcapng, nanoseconds; an existing file is replaced
//! file:out.pcap,write            pcap with nanoseconds when the name ends in .pcap
//! file:out.pcapng,write,snaplen=96    keeps the first 96 bytes of each packet, and notes its true length
//! ```
//! The file is streamed through one buffer of half a megabyte, whatever its size and whatever it claims about the sizes in
//! it. (A named pipe can be read, too: a thread waits for its writer, and the port has nothing meanwhile.) Packets longer than a frame become packets of
//! several slots. A packet is written with the time that its batch gives (nanoseconds since 1970), else with the time of the
//! call.
//!
//! ```text
//! receive.rs   the port that reads        transmit.rs  the port that writes        stream.rs  named pipes
//! ```
//! The formats themselves are in `linerate_pcapng`.
#![forbid(unsafe_code)]

mod receive;
mod stream;
mod transmit;

use linerate_mem::Pool;
use linerate_port::{Device, Direction, OpenError, PortSpec};

use linerate_pcapng::PACKET_LEN_MAX;
pub use receive::{FileReceiver, ReceiveOptions};
pub use transmit::FileSender;

const READ_OPTIONS: &[&str] = &["loop", "pad", "write"];
const WRITE_OPTIONS: &[&str] = &["snaplen", "write"];

/// Opens capture file `spec.target`; see the head of this crate for the options. A file that is opened for transmitting alone is
/// written.
///
/// # Errors
/// The file cannot be opened or is no capture; an option is unknown.
pub fn open(mut spec: PortSpec, pool: &Pool) -> Result<Device, OpenError> {
    let named = spec.clone();
    let refuse = |problem: String| OpenError::new(&named, problem, "");
    if spec.target.is_empty() {
        return Err(OpenError::new(&spec, "a file port needs a path", "try file:in.pcap, or file:out.pcapng,write"));
    }
    let written = spec.take_flag("write").map_err(|error| refuse(error.problem))?;
    if written || spec.options.direction == Some(Direction::Transmit) {
        let snaplen = spec.take_number("snaplen", 1, PACKET_LEN_MAX as u64).map_err(|error| refuse(error.problem))?;
        spec.finish(WRITE_OPTIONS).map_err(|error| refuse(error.problem))?;
        let snaplen = snaplen.map_or(PACKET_LEN_MAX, |len| len as usize);
        return Ok(Device::of(FileSender::create(&spec, pool, snaplen)?).boxed());
    }
    let passes = match spec.take("loop").as_deref() {
        None | Some("no") => Some(1),
        Some("yes") => None,
        Some(number) => match number.parse::<u64>() {
            Ok(count) if count > 0 => Some(count),
            _ => return Err(refuse(format!("loop={number}: loop takes a number of times from 1, or nothing"))),
        },
    };
    let pad = spec.take_flag("pad").map_err(|error| refuse(error.problem))?;
    spec.finish(READ_OPTIONS).map_err(|error| refuse(error.problem))?;
    Ok(Device::of(FileReceiver::open(&spec, pool, ReceiveOptions { passes, pad })?).boxed())
}
