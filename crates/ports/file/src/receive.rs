//! The port that reads: packets of a capture file, with their times.

use std::fs::File;

use linerate_mem::{Batch, Pool, Scattered};
use linerate_pcapng::{CaptureError, CaptureReader, ETHERNET, Head, PACKET_LEN_MAX};
use linerate_port::{Caps, Drops, FarSide, Interest, OpenError, Port, PortError, PortSpec, Readiness, Stats};

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
    reader: CaptureReader<File>,
    /// The packet that was read and has not been handed out.
    current: Option<Head>,
    state: State,
    /// Passes that are over.
    passes: u64,
    /// Packets of this pass, to notice a file without any.
    packets_of_pass: u64,
    stats: Stats,
    losses: Losses,
    cut_short: u64,
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
        let file = File::open(&spec.target)
            .map_err(|error| refuse(error.to_string(), "to write a new file, add ,write to the name"))?;
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        if options.passes != Some(1) && !is_file {
            return Err(refuse("it is no regular file, so it cannot be read again".into(), "leave out loop"));
        }
        let reader = CaptureReader::new(file).map_err(|error| refuse(error.to_string(), ""))?;
        if let Some(link_type) = reader.link_type()
            && link_type != ETHERNET
        {
            return Err(refuse(format!("its packets have link type {link_type}, not Ethernet (1)"), ""));
        }
        let caps = Caps {
            name: spec.to_string(),
            backend: "file",
            receives: true,
            frame_len_max: PACKET_LEN_MAX,
            frags_max: PACKET_LEN_MAX.div_ceil(pool.packet_len_max()),
            copies: "each packet is copied from the read buffer into its frame",
            detail: format!("{} file, read{}", reader.format_name(), if options.pad { ", padded" } else { "" }),
            far_side: FarSide::File,
            timestamps: true,
            ..Caps::default()
        };
        Ok(FileReceiver {
            pool: pool.clone(),
            caps,
            options,
            reader,
            current: None,
            state: State::Reading,
            passes: 0,
            packets_of_pass: 0,
            stats: Stats::default(),
            losses: Losses::default(),
            cut_short: 0,
        })
    }

    /// Packets handed out so far of which the capture had kept only a part.
    pub fn cut_short(&self) -> u64 {
        self.cut_short
    }

    /// The packet to hand out next; `None` at the end.
    #[inline]
    fn current(&mut self) -> Result<Option<Head>, PortError> {
        if self.current.is_some() {
            return Ok(self.current);
        }
        match &self.state {
            State::Reading => {}
            State::Ended => return Ok(None),
            State::Broken(text) => return Err(self.broken(text.clone())),
        }
        loop {
            match self.reader.next() {
                Ok(Some(head)) => {
                    self.packets_of_pass += 1;
                    self.current = Some(head);
                    return Ok(self.current);
                }
                Ok(None) if self.goes_round() => match self.reader.rewind() {
                    Ok(()) => self.packets_of_pass = 0,
                    Err(error) => return Err(self.fail(error)),
                },
                Ok(None) => {
                    self.state = State::Ended;
                    return Ok(None);
                }
                Err(error) => return Err(self.fail(error)),
            }
        }
    }

    /// At the end of a pass: whether another one follows. A file without packets is not read for ever.
    fn goes_round(&mut self) -> bool {
        self.passes += 1;
        self.packets_of_pass > 0 && self.options.passes.is_none_or(|passes| self.passes < passes)
    }

    fn fail(&mut self, error: CaptureError) -> PortError {
        let text = error.to_string();
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
        let packet = self.reader.packet();
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
        let mut packet = self.reader.packet();
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
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += len as u64;
        self.cut_short += u64::from(head.original_len as usize > head.len);
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
        let mut count = 0;
        while batch.room() > 0 {
            let head = match self.current() {
                Ok(Some(head)) => head,
                Ok(None) => break,
                // What was read before is handed out first; the error is said again at the next call.
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            };
            match self.place(head, batch) {
                Placed::HandedOut => count += 1,
                Placed::Lost => {}
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

    fn wait(&mut self, interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        if interest == Interest::Transmit {
            return Ok(Readiness::Closed);
        }
        match self.current() {
            Ok(None) => Ok(Readiness::Closed),
            // An error, too, is worth a try: `receive` says it.
            Ok(Some(_)) | Err(_) => Ok(Readiness::Ready),
        }
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        Ok(Stats { rx_drops: self.losses.drops(&self.caps.name), ..self.stats.clone() })
    }
}
