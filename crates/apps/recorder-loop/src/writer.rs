//! The thread that writes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_capture::{FillGauge, FillReport, Rotation, WriteBuffer};
use linerate_pcapng::{FileFormat, Statistics, statistics, whole_records};
use linerate_sys::clock;
use linerate_sys::memory::populate;

use crate::file::{Form, Outcome, OutputFile};
use crate::intake::{Empty, Intake, IntakeCounts, Level, Published};
use crate::message::Message;
use crate::settings::{BUFFER_BYTES_MIN, Method, RecorderError, Settings};

/// How often the thread looks whether it is time for a new file while nothing comes.
const TICK: Duration = Duration::from_millis(100);
/// What padding may add to a write.
const PADDING_MAX: u64 = 2 * linerate_capture::ALIGNMENT as u64;

/// What the thread shows to others.
#[derive(Default)]
struct Shared {
    /// Packets in files and packets lost by errors, by intake.
    written: Vec<AtomicU64>,
    lost: Vec<AtomicU64>,
    failed: AtomicBool,
    failure: OnceLock<String>,
}

/// A running writer.
pub struct Recorder {
    thread: Option<JoinHandle<Report>>,
    messages: Option<Sender<Message>>,
    shared: Arc<Shared>,
    published: Vec<Arc<Published>>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Files that were begun.
    pub files: u64,
    /// Files that were removed because there were too many, or too large ones.
    pub removed: u64,
    /// Bytes written, those of removed files among them.
    pub bytes: u64,
    /// Name of the last file.
    pub last_file: String,
    /// True when the last file was written past the page cache.
    pub direct: bool,
    /// Why writing ended early.
    pub failure: Option<String>,
    /// How full the queue was, in buffers.
    pub queue: FillReport,
    /// Time that the thread ran on a core.
    pub cpu_ns: u64,
}

impl Recorder {
    /// Makes the first file and starts the thread. There is one intake for each ring, with buffers of its own.
    ///
    /// # Errors
    /// What keeps the first file from being made, or limits that do not go together.
    pub fn start(settings: Settings, intakes: usize) -> Result<(Recorder, Vec<Intake>), RecorderError> {
        if settings.path == "-" && settings.policy.rotates() {
            return Err(RecorderError::RotatedOutput);
        }
        let buffer_bytes = settings.buffer_bytes.max(BUFFER_BYTES_MIN);
        let intakes = intakes.max(1);
        let buffers = (settings.queue_bytes / buffer_bytes / intakes).max(2);
        let rotation = Rotation::new(settings.policy, &settings.path)?;
        let shared = Arc::new(Shared {
            written: (0..intakes).map(|_| AtomicU64::new(0)).collect(),
            lost: (0..intakes).map(|_| AtomicU64::new(0)).collect(),
            ..Shared::default()
        });
        let (messages, inbox) = mpsc::channel();
        let in_flight = Arc::new(Level::default());
        let (mut sides, mut published, mut returns) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..intakes {
            let empty = Arc::new(Empty::default());
            for _ in 0..buffers {
                let mut buffer = WriteBuffer::new(settings.format, buffer_bytes);
                // A write past the page cache asks for each page, and the disk for each stretch of them. And all of it now: buffers
                // are needed when the disk is slow, which is no time to wait for memory.
                populate(buffer.memory_mut());
                empty.put(buffer);
            }
            let shown = Arc::new(Published::default());
            sides.push(Intake::new(
                number,
                Arc::clone(&empty),
                messages.clone(),
                Arc::clone(&shown),
                Arc::clone(&in_flight),
                settings.settle_ns,
            ));
            published.push(shown);
            returns.push(empty);
        }
        let mut writer = Writer {
            head: settings.head.bytes(settings.format),
            form: Form {
                format: settings.format,
                direct: settings.method == Method::Best,
                zstd_level: settings.zstd_level,
                buffer_bytes,
            },
            sync: settings.sync,
            rotation,
            file: None,
            latest: Vec::new(),
            inbox,
            returns,
            in_flight,
            queue: FillGauge::new((buffers * intakes) as u64),
            shared: Arc::clone(&shared),
            published: published.clone(),
            bytes: 0,
            removed: 0,
            direct: false,
        };
        writer.open_next().map_err(|(path, source)| RecorderError::File { path, source })?;
        let thread = std::thread::Builder::new().name("writer".into()).spawn(move || writer.run());
        let thread = thread.map_err(RecorderError::Thread)?;
        Ok((Recorder { thread: Some(thread), messages: Some(messages), shared, published }, sides))
    }

    /// Why writing has ended, if it has: the disk is full or broken. Packets that come later are counted as lost.
    pub fn failure(&self) -> Option<&str> {
        self.shared.failure.get().map(String::as_str)
    }

    /// Packets in files, and packets whose buffer could not be written, of one intake. Read these before the intake's own counts
    /// ([`Recorder::intake`]), and those before the ring's: then no packet is counted behind a place that it has not passed.
    pub fn written(&self, intake: usize) -> (u64, u64) {
        let read = |counts: &[AtomicU64]| counts.get(intake).map_or(0, |count| count.load(Ordering::Acquire));
        (read(&self.shared.written), read(&self.shared.lost))
    }

    /// What an intake was given, as of its last publication.
    pub fn intake(&self, intake: usize) -> IntakeCounts {
        self.published.get(intake).map(|shown| shown.read()).unwrap_or_default()
    }

    /// Puts an interface's counts into the file, behind what was handed over so far. The last ones are written at the end of
    /// each file, too. pcap has no place for them.
    pub fn statistics(&self, counts: Statistics) {
        self.send(Message::Statistics(counts));
    }

    /// Waits until all that was handed over so far is written or lost.
    pub fn drain(&self) {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Message::Barrier(answer));
        // An error means that the thread is gone; then nothing is left to wait for.
        let _ = answered.recv();
    }

    /// Waits until everything is written, closes the file and ends the thread. The intakes have to be dropped before: the thread
    /// works as long as there is one.
    pub fn finish(mut self) -> Report {
        self.messages = None;
        let thread = self.thread.take().map(JoinHandle::join);
        match thread {
            Some(Ok(report)) => report,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => unreachable!("the thread is joined once"),
        }
    }

    fn send(&self, message: Message) {
        if let Some(messages) = &self.messages {
            // An error means that the thread is gone; `finish` says why.
            let _ = messages.send(message);
        }
    }
}

struct Writer {
    head: Vec<u8>,
    form: Form,
    sync: bool,
    rotation: Rotation,
    /// `None` after a failure, and between two files: the next one is begun for its first packet.
    file: Option<OutputFile>,
    /// The counts given last, by interface.
    latest: Vec<Statistics>,
    inbox: Receiver<Message>,
    returns: Vec<Arc<Empty>>,
    in_flight: Arc<Level>,
    queue: FillGauge,
    shared: Arc<Shared>,
    published: Vec<Arc<Published>>,
    bytes: u64,
    removed: u64,
    direct: bool,
}

impl Writer {
    fn run(mut self) -> Report {
        loop {
            match self.inbox.recv_timeout(TICK) {
                Ok(Message::Buffer { intake, buffer }) => self.take(intake, buffer),
                Ok(Message::Statistics(counts)) => self.statistics(counts),
                Ok(Message::Barrier(answer)) => {
                    // Whoever asked may have gone.
                    let _ = answer.send(());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.end_file_if_due();
        }
        self.end_file();
        self.queue.note_peak(self.in_flight.read().1);
        self.queue.note_overflow(self.published.iter().map(|shown| shown.read().dropped).sum());
        Report {
            files: self.rotation.files(),
            removed: self.removed,
            bytes: self.bytes,
            last_file: self.rotation.current().into(),
            direct: self.direct,
            failure: self.shared.failure.get().cloned(),
            queue: self.queue.report(),
            cpu_ns: clock::thread_cpu_ns(),
        }
    }

    fn take(&mut self, intake: usize, mut buffer: WriteBuffer) {
        self.queue.note(clock::now_ns(), self.in_flight.read().0);
        let packets = buffer.packets();
        let written = self.write(&mut buffer);
        let add = |counts: &[AtomicU64], packets: u64| {
            if let Some(count) = counts.get(intake) {
                count.fetch_add(packets, Ordering::Release);
            }
        };
        add(&self.shared.written, written);
        add(&self.shared.lost, packets - written.min(packets));
        buffer.clear();
        self.in_flight.fall();
        if let Some(empty) = self.returns.get(intake) {
            empty.put(buffer);
        }
    }

    /// Writes a buffer into as many files as its packets need; packets that are in files then.
    fn write(&mut self, buffer: &mut WriteBuffer) -> u64 {
        let (mut start, mut packets) = (0, 0);
        while start < buffer.len() {
            self.end_file_if_due();
            self.open_next_if_needed();
            let (len, count) = self.fitting(&buffer.bytes()[start..], buffer.packets() - packets);
            self.make_room(len as u64 + PADDING_MAX);
            let Some(file) = &mut self.file else { break };
            let outcome = match len == buffer.len() {
                true => file.buffer(buffer),
                false => file.records(&buffer.bytes()[start..start + len], count),
            };
            packets += outcome.packets;
            start += len;
            self.note(outcome);
        }
        packets
    }

    /// How many of these records the file may still take, at least one; if it may take none, a new file is begun.
    fn fitting(&mut self, bytes: &[u8], packets: u64) -> (usize, u64) {
        for _ in 0..2 {
            let (room_bytes, room_packets) = self.rotation.room();
            // The length of compressed records is not known before; such a file ends behind the record that was too much.
            let room_bytes = if self.form.zstd_level.is_some() { u64::MAX } else { room_bytes };
            let room_bytes = if self.direct { room_bytes.saturating_sub(PADDING_MAX) } else { room_bytes };
            if bytes.len() as u64 <= room_bytes && packets <= room_packets {
                return (bytes.len(), packets);
            }
            let limit = usize::try_from(room_bytes).unwrap_or(usize::MAX);
            let fitting = whole_records(self.form.format, bytes, limit, room_packets);
            if fitting.0 > 0 || self.file.is_none() {
                return if fitting.0 > 0 { fitting } else { (bytes.len(), packets) };
            }
            if self.rotation.packets() == 0 {
                break;
            }
            self.end_file();
            self.open_next_if_needed();
        }
        let one = whole_records(self.form.format, bytes, usize::MAX, 1);
        if one.0 > 0 { one } else { (bytes.len(), packets) }
    }

    fn statistics(&mut self, counts: Statistics) {
        if self.form.format == FileFormat::Pcapng
            && let Some(file) = &mut self.file
        {
            let mut block = Vec::new();
            statistics(&mut block, &counts);
            let outcome = file.blocks(&block);
            self.note(outcome);
        }
        match self.latest.iter_mut().find(|latest| latest.interface == counts.interface) {
            Some(latest) => *latest = counts,
            None => self.latest.push(counts),
        }
    }

    fn note(&mut self, outcome: Outcome) {
        self.bytes += outcome.bytes;
        self.rotation.wrote(outcome.bytes, outcome.packets);
        if let Some(error) = outcome.error {
            self.fail(format!("{}: {error}", self.rotation.current()));
        }
    }

    /// Nothing is written any more.
    fn fail(&mut self, text: String) {
        self.file = None;
        // Only the first failure is of interest.
        let _ = self.shared.failure.set(text);
        self.shared.failed.store(true, Ordering::Release);
    }

    fn end_file_if_due(&mut self) {
        if self.file.is_some() && self.rotation.due(clock::realtime_ns()).is_some() {
            self.end_file();
        }
    }

    /// Begins the next file, for packets that are there.
    fn open_next_if_needed(&mut self) {
        if self.file.is_some() || self.shared.failed.load(Ordering::Acquire) {
            return;
        }
        if let Err((path, error)) = self.open_next() {
            self.fail(format!("{path}: {error}"));
        }
    }

    /// The last counts of all interfaces, and the end.
    fn end_file(&mut self) {
        // A single file has had them already.
        if self.rotation_is_on() {
            for counts in std::mem::take(&mut self.latest) {
                self.statistics(counts);
            }
        }
        if let Some(file) = self.file.take()
            && let Err(error) = file.close(self.sync)
        {
            self.fail(format!("{}: {error}", self.rotation.current()));
        }
    }

    fn rotation_is_on(&self) -> bool {
        self.rotation.policy().rotates()
    }

    /// Begins the next file.
    fn open_next(&mut self) -> Result<(), (String, std::io::Error)> {
        let head_len = self.head.len() as u64;
        let path = self.rotation.begin(clock::realtime_ns(), 0).to_string();
        self.make_room(head_len + PADDING_MAX);
        let file = OutputFile::create(&path, self.form, &self.head).map_err(|error| (path, error))?;
        self.rotation.wrote(file.len(), 0);
        self.bytes += file.len();
        self.direct = file.is_direct();
        self.file = Some(file);
        Ok(())
    }

    /// Removes the oldest files until there is room for this many bytes.
    fn make_room(&mut self, bytes: u64) {
        while let Some(oldest) = self.rotation.excess(bytes) {
            // Somebody else may have removed it; then it is gone as well.
            if std::fs::remove_file(&oldest).is_ok() {
                self.removed += 1;
            }
        }
    }
}
