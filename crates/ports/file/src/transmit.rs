//! The port that writes: what is transmitted becomes a capture file.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;

use linerate_mem::{Batch, Pool, Span};
use linerate_pcapng::{FileFormat, PACKET_LEN_MAX, PacketHead, file_start, record, record_len};
use linerate_port::{
    Caps, Drops, FarSide, Interest, OpenError, Port, PortError, PortSpec, Readiness, Stats, complete_checksums,
};
use linerate_sys::clock;

/// Bytes that are gathered before they are written.
const BUFFER: usize = 256 << 10;

/// A capture file that is written.
pub struct FileSender {
    pool: Pool,
    caps: Caps,
    file: File,
    format: FileFormat,
    snaplen: usize,
    buffer: Vec<u8>,
    /// The packets in the buffer.
    pending: VecDeque<Pending>,
    stats: Stats,
    lost: u64,
    /// Why writing failed, said again at each call.
    failure: Option<(ErrorKind, String)>,
}

struct Pending {
    /// End of its record in the buffer.
    end: usize,
    /// Its bytes as transmitted.
    len: u64,
}

impl FileSender {
    /// Creates the file of `spec`, or empties it, and writes its header. Of each packet `snaplen` bytes are kept.
    pub fn create(spec: &PortSpec, pool: &Pool, snaplen: usize) -> Result<FileSender, OpenError> {
        let refuse =
            |error: io::Error| OpenError::new(spec, error.to_string(), "is the directory there, and writable?");
        let format = FileFormat::of(&spec.target);
        // What others sent is for the eyes of this user.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&spec.target).map_err(refuse)?;
        let mut buffer = Vec::with_capacity(BUFFER + 2 * PACKET_LEN_MAX);
        file_start(&mut buffer, format, snaplen);
        file.write_all(&buffer).map_err(refuse)?;
        buffer.clear();
        let caps = Caps {
            name: spec.to_string(),
            backend: "file",
            transmits: true,
            frame_len_max: PACKET_LEN_MAX,
            frags_max: PACKET_LEN_MAX,
            copies: "each packet is copied into the write buffer",
            detail: format!("{format:?} file, written, {snaplen} bytes of each packet").to_lowercase(),
            far_side: FarSide::File,
            async_tx: true,
            ..Caps::default()
        };
        Ok(FileSender {
            pool: pool.clone(),
            caps,
            file,
            format,
            snaplen,
            buffer,
            pending: VecDeque::new(),
            stats: Stats::default(),
            lost: 0,
            failure: None,
        })
    }

    fn check_failure(&self) -> Result<(), PortError> {
        match &self.failure {
            None => Ok(()),
            Some((kind, text)) => {
                let (port, source) = (self.caps.name.clone(), io::Error::new(*kind, text.clone()));
                Err(PortError::Io { port, operation: "cannot write on", source })
            }
        }
    }

    /// Puts the packet of the batch that begins in slot `at`, and that `span` describes, into the buffer.
    fn gather(&mut self, batch: &Batch, at: usize, span: Span, now_ns: &mut Option<u64>) -> Result<(), PortError> {
        let time_ns = match batch.time_ns(at) {
            Some(time_ns) if time_ns > 0 => time_ns,
            // One look at the clock serves the whole batch.
            _ => *now_ns.get_or_insert_with(clock::realtime_ns),
        };
        let kept = span.len.min(self.snaplen);
        self.encode(batch, at, span, time_ns, kept);
        self.pending.push_back(Pending { end: self.buffer.len(), len: span.len as u64 });
        if self.buffer.len() >= BUFFER { self.write_out() } else { Ok(()) }
    }

    /// Appends the record of the packet that begins in slot `at`.
    fn encode(&mut self, batch: &Batch, at: usize, span: Span, time_ns: u64, kept: usize) {
        let head = PacketHead { time_ns, original_len: span.len as u32, ..PacketHead::default() };
        let start = self.buffer.len();
        self.buffer.resize(start + record_len(self.format, kept, head.direction), 0);
        if let Some(place) = record(self.format, &mut self.buffer[start..], &head, kept) {
            batch.reader(at, span.slots).read(place);
        }
    }

    /// Writes the buffer. What a failure keeps from the file is counted as lost, and a half-written record is cut off.
    fn write_out(&mut self) -> Result<(), PortError> {
        self.check_failure()?;
        let mut written = 0;
        while written < self.buffer.len() && self.failure.is_none() {
            match self.file.write(&self.buffer[written..]) {
                Ok(0) => self.failure = Some((ErrorKind::WriteZero, "nothing more can be written".into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.failure = Some((error.kind(), error.to_string())),
            }
        }
        let mut whole = 0;
        while let Some(record) = self.pending.pop_front_if(|record| record.end <= written) {
            whole = record.end;
            self.stats.tx_packets += 1;
            self.stats.tx_bytes += record.len;
        }
        self.lost += self.pending.len() as u64;
        self.pending.clear();
        self.buffer.clear();
        if written > whole {
            self.cut_off(written - whole);
        }
        self.check_failure()
    }

    /// Takes the last `bytes` off the file, where that is possible (not on a pipe), so that it ends in a whole record.
    fn cut_off(&mut self, bytes: usize) {
        if let Ok(metadata) = self.file.metadata()
            && metadata.is_file()
        {
            // If it fails the file has a torn last record, which readers report.
            let _ = self.file.set_len(metadata.len().saturating_sub(bytes as u64));
        }
    }
}

impl Port for FileSender {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn receive(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        Ok(0)
    }

    fn transmit(&mut self, batch: &mut Batch) -> Result<usize, PortError> {
        self.caps.check_pool(batch, &self.pool)?;
        complete_checksums(batch);
        self.check_failure()?;
        let mut now_ns = None;
        let mut count = 0;
        while let Some(span) = batch.span(0) {
            if span.len > PACKET_LEN_MAX {
                let (port, max) = (self.caps.name.clone(), PACKET_LEN_MAX);
                return Err(PortError::FrameTooLong { port, len: span.len, max });
            }
            let encoded = self.gather(batch, 0, span, &mut now_ns);
            self.pool.free_front(batch, span.slots);
            count += 1;
            encoded?;
        }
        Ok(count)
    }

    fn transmit_ref(&mut self, batch: &Batch, from: usize) -> Result<usize, PortError> {
        self.check_failure()?;
        let (mut at, mut count, mut now_ns) = (from, 0, None);
        while let Some(span) = batch.span(at).filter(|span| span.len <= PACKET_LEN_MAX) {
            count += 1;
            if self.gather(batch, at, span, &mut now_ns).is_err() {
                // It is counted as lost; the error comes again.
                break;
            }
            at += span.slots;
        }
        Ok(count)
    }

    fn flush(&mut self) -> Result<usize, PortError> {
        self.write_out().map(|()| 0)
    }

    fn wait(&mut self, interest: Interest, _timeout_ns: u64) -> Result<Readiness, PortError> {
        Ok(match interest {
            Interest::Transmit => Readiness::Ready,
            Interest::Receive => Readiness::Closed,
        })
    }

    fn stats(&mut self) -> Result<Stats, PortError> {
        let mut stats = self.stats.clone();
        if self.lost > 0 {
            let cause = self.failure.as_ref().map_or("not written", |(_, text)| text.as_str()).to_string();
            stats.tx_drops.push(Drops { place: self.caps.name.clone(), cause, packets: self.lost });
        }
        Ok(stats)
    }
}

impl Drop for FileSender {
    fn drop(&mut self) {
        // Who wants to know calls `flush`.
        let _ = self.write_out();
    }
}
