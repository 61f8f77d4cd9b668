//! The port that reads: packets of a capture file, with their times.

use std::fs::File;
use std::path::Path;

use linerate_mem::{Batch, Pool, Scattered};
use linerate_pcapng::{CaptureReader, ETHERNET, Head, PACKET_LEN_MAX};
use linerate_port::{Caps, Drops, FarSide, Interest, OpenError, Port, PortError, PortSpec, Readiness, Stats};

use crate::stream::{Next, Stream, not_ethernet};

/// Packets that one call of `receive` passes over, so that a file of packets that are none keeps nobody.
const SKIPPED_MAX: usize = 4096;

/// Shortest packet that is one: addresses and type.
const PACKET_LEN_MIN: usize = 14;

/// How to read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Times that the file is read; `None` = for ever.
    pub passes: Option<u64>,
    /// Packets that the capture cut short get their length back, with zero bytes.
    pub pad: bool,
}

impl Default for ReceiveOptions {
    /// Once, as captured.
    fn default() -> ReceiveOptions {
        ReceiveOptions { passes: Some(1), pad: false }
    }
}

/// A capture file that is received.
pub struct FileReceiver {
    pool: Pool,
    caps: Caps,
    options: ReceiveOptions,
    input: Input,
    /// The packet that was read and has not been handed out.
    current: Option<Head>,
    state: State,
    /// Passes that are over.
    passes: u64,
    /// Packets of this pass that were handed out, to notice a file without any.
    packets_of_pass: u64,
    stats: Stats,
    losses: Losses,
}

enum Input {
    File(CaptureReader<File>),
    Stream(Stream),
}

enum State {
    Reading,
    Ended,
    /// The file cannot be read further. The text is said again at each call.
    Broken(String),
}

/// Packets of the file that were not handed out.
#[derive(Default)]
struct Losses {
    too_short: u64,
    too_long: u64,
    /// By link type; few, as interfaces are few.
    not_ethernet: Vec<(u16, u64)>,
}

enum Placed {
    HandedOut,
    Lost,
    /// No room in the batch or no frame in the pool: later.
    NotNow,
}

impl FileReceiver {
    /// Opens the file of `spec` for reading.
    pub fn open(spec: &PortSpec, pool: &Pool, options: ReceiveOptions) -> Result<FileReceiver, OpenError> {
        let refuse = |cause: String, hint: &str| OpenError::new(spec, cause, hint);
        let not_opened =
            |error: std::io::Error| refuse(error.to_string(), "to write a new file, add ,write to the name");
        let path = Path::new(&spec.target);
        if options.passes != Some(1) && std::fs::metadata(path).is_ok_and(|file| !file.is_file()) {
            return Err(refuse("it is no regular file, so it cannot be read again".into(), "leave out loop"));
        }
        let (input, format) = if Stream::is_one(path) {
            (Input::Stream(Stream::open(path).map_err(not_opened)?), "stream")
        } else {
            let file = File::open(path).map_err(not_opened)?;
            let reader = CaptureReader::new(file).map_err(|error| refuse(error.to_string(), ""))?;
            if let Some(link_type) = reader.link_type()
                && link_type != ETHERNET
            {
                return Err(refuse(not_ethernet(link_type), ""));
            }
            let format = reader.format_name();
            (Input::File(reader), format)
        };
        let caps = Caps {
            name: spec.to_string(),
            backend: "file",
            receives: true,
            frame_len_max: PACKET_LEN_MAX,
            frags_max: PACKET_LEN_MAX.div_ceil(pool.packet_len_max()),
            copies: "each packet is copied from the read buffer into its frame",
            detail: format!("{format} file, read{}", if options.pad { ", padded" } else { "" }),
            far_side: FarSide::File,
            timestamps: true,
            ..Caps::default()
        };
        Ok(FileReceiver {
            pool: pool.clone(),
            caps,
            options,
            input,
            current: None,
            state: State::Reading,
            passes: 0,
            packets_of_pass: 0,
            stats: Stats::default(),
            losses: Losses::default(),
        })
    }

    /// The packet to hand out next.
    #[inline]
    fn current(&mut self) -> Result<Next, PortError> {
        if let Some(head) = self.current {
            return Ok(Next::Packet(head));
        }
        match &self.state {
            State::Reading => {}
            State::Ended => return Ok(Next::End),
            State::Broken(text) => return Err(self.broken(text.clone())),
        }
        loop {
            let next = match &mut self.input {
                Input::File(reader) => {
                    reader.next().map(|head| head.map_or(Next::End, Next::Packet)).map_err(|error| error.to_string())
                }
                Input::Stream(stream) => stream.next(),
            };
            match next {
                Ok(Next::Packet(head)) => {
                    self.current = Some(head);
                    return next.map_err(|text| self.broken(text));
                }
                Ok(Next::NotYet) => return Ok(Next::NotYet),
                Ok(Next::End) if self.goes_round() => {
                    if let Input::File(reader) = &mut self.input
                        && let Err(error) = reader.rewind()
                    {
                        return Err(self.fail(error.to_string()));
                    }
                    self.packets_of_pass = 0;
                }
                Ok(Next::End) => {
                    self.state = State::Ended;
                    return Ok(Next::End);
                }
                Err(text) => return Err(self.fail(text)),
            }
        }
    }

    /// At the end of a pass: whether another one follows. A file of which no packet can be handed out is not read for ever.
    fn goes_round(&mut self) -> bool {
        self.passes += 1;
        self.packets_of_pass > 0 && self.options.passes.is_none_or(|passes| self.passes < passes)
    }

    fn fail(&mut self, text: String) -> PortError {
        self.state = State::Broken(text.clone());
        self.broken(text)
    }

    fn broken(&self, text: String) -> PortError {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, text);
        PortError::Io { port: self.caps.name.clone(), operation: "cannot read on", source }
    }

    /// Bytes of the packet as it is handed out.
    #[inline]
    fn len_of(&self, head: &Head) -> usize {
        if self.options.pad { (head.original_len as usize).clamp(head.len, PACKET_LEN_MAX) } else { head.len }
    }

    #[inline]
    fn place(&mut self, head: Head, batch: &mut Batch) -> Placed {
        let len = self.len_of(&head);
        if head.link_type != ETHERNET || len < PACKET_LEN_MIN {
            self.losses.note(&head, len);
            return Placed::Lost;
        }
        if len > self.pool.packet_len_max() {
            return self.place_long(head, len, batch);
        }
        let index = batch.len();
        if self.pool.alloc(batch, 1, len) == 0 {
            return Placed::NotNow;
        }
        let packet = self.input.packet();
        let (bytes, padding) = batch.packet_mut(index).split_at_mut(packet.len());
        bytes.copy_from_slice(packet);
        padding.fill(0);
        self.note_handed_out(batch, index, &head, len);
        Placed::HandedOut
    }

    /// A packet of several slots.
    #[cold]
    fn place_long(&mut self, head: Head, len: usize, batch: &mut Batch) -> Placed {
        let first = batch.len();
        let mut packet = self.input.packet();
        let scattered = self.pool.scatter(batch, len, 0, |frame| {
            let (now, later) = packet.split_at(packet.len().min(frame.len()));
            let (bytes, padding) = frame.split_at_mut(now.len());
            bytes.copy_from_slice(now);
            padding.fill(0);
            packet = later;
        });
        match scattered {
            Scattered::Done => {
                self.note_handed_out(batch, first, &head, len);
                Placed::HandedOut
            }
            Scattered::NotNow => Placed::NotNow,
            Scattered::TooLong => {
                self.losses.too_long += 1;
                Placed::Lost
            }
        }
    }

    #[inline]
    fn note_handed_out(&mut self, batch: &mut Batch, index: usize, head: &Head, len: usize) {
        batch.set_time_ns(index, head.time_ns);
        self.packets_of_pass += 1;
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += len as u64;
    }
}

impl Input {
    #[inline]
    fn packet(&self) -> &[u8] {
        match self {
            Input::File(reader) => reader.packet(),
            Input::Stream(stream) => stream.packet(),
        }
    }
}

impl Losses {
    #[cold]
    fn note(&mut self, head: &Head, len: usize) {
        if head.link_type == ETHERNET {
            debug_assert!(len < PACKET_LEN_MIN);
            self.too_short += 1;
            return;
        }
        match self.not_ethernet.iter_mut().find(|(link_type, _)| *link_type == head.link_type) {
            Some((_, packets)) => *packets += 1,
            None => self.not_ethernet.push((head.link_type, 1)),
        }
    }

    fn drops(&self, place: &str) -> Vec<Drops> {
        let drop = |cause: String, packets: u64| Drops { place: place.to_string(), cause, packets };
        let mut drops = vec![
            drop("shorter than an Ethernet header".into(), self.too_short),
            drop("longer than a batch".into(), self.too_long),
        ];
        let others = self.not_ethernet.iter();
        drops.extend(others.map(|(link, packets)| drop(format!("link type {link} is not Ethernet"), *packets)));
        drops.retain(|drops| drops.packets > 0);
        drops
    }
}

impl Port for FileReceiver {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        let (mut count, mut skipped) = (0, 0);
        while batch.room() > 0 && skipped < SKIPPED_MAX {
            let head = match self.current() {
                Ok(Next::Packet(head)) => head,
                Ok(Next::NotYet | Next::End) => break,
                // What was read before is handed out first; the error is said again at the next call.
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            };
            match self.place(head, batch) {
                Placed::HandedOut => count += 1,
                Placed::Lost => skipped += 1,
                Placed::NotNow => break,
            }
            self.current = None;
        }
        Ok(count)
    }

    fn transmit(&mut self, _batch: &mut Batch) -> Result<usize, PortError> {
        let what = "the file is open for reading; with ,write behind its name it is written".into();
        Err(PortError::Unsupported { port: self.caps.name.clone(), what })
    }

    fn wait(&mut self, interest: Interest, timeout_ns: u64) -> Result<Readiness, PortError> {
        if interest == Interest::Transmit {
            return Ok(Readiness::Closed);
        }
        if let (None, Input::Stream(stream)) = (&self.current, &mut self.input)
            && !stream.wait(timeout_ns)
        {
            return Ok(Readiness::TimedOut);
        }
        match self.current() {
            Ok(Next::End) => Ok(Readiness::Closed),
            // An error, too, is worth a try: `receive` says it.
            Ok(Next::Packet(_) | Next::NotYet) | Err(_) => Ok(Readiness::Ready),
        }
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats { rx_drops: self.losses.drops(&self.caps.name), ..self.stats.clone() })
    }
}
