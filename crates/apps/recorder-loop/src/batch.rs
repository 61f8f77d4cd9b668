//! Any port, by the batch: received into frames, filtered in this process, copied from the frames to where it is written.

use linerate_filter::{Facts, Program};
use linerate_mem::{Batch, Pool};
use linerate_pcapng::{Direction, PacketHead};
use linerate_port::{FarSide, Interest, Port, Readiness, complete_checksums};
use linerate_ports::capture::RingCounters;
use linerate_sys::clock;

use crate::control::Counts;
use crate::thread::{Sink, Source, WALK_MAX};

/// Slots of a batch, unless a single packet may need more.
const BATCH_SLOTS: usize = 256;
/// At the end of a capture: when nothing came for so long, all that had arrived has been handed over (libpcap's blocks are
/// after 8 ms and a tick of the kernel's timer).
const QUIET_NS: u64 = 60_000_000;
/// At the end of a capture: packets that are still taken from a port that does not say when they arrived.
const REST_MAX: u64 = 65_536;

/// Between two looks whether the writer has caught up.
const HELD_BACK_NS: u64 = 1_000_000;

/// What the timestamps of a port mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// It has none: the time of taking a batch out is all that is known.
    None,
    /// When a packet arrived, by the clock of this program.
    Arrival,
    /// Since 1970: those of a file.
    Recorded,
}

/// A port and its batch.
pub struct Batches {
    port: Box<dyn Port>,
    pool: Pool,
    batch: Batch,
    timestamps: Timestamps,
    filter: Option<Program>,
    snaplen: u32,
    /// A packet of several slots in one piece.
    joined: Vec<u8>,
    end: Option<End>,
    /// The writer is behind, and the packets can wait.
    held_back: bool,
}

/// What is known since the capture was told to end.
struct End {
    /// When, by `clock::now_ns`.
    asked_ns: u64,
    /// When the last packet was seen.
    last_ns: u64,
    /// Packets seen since.
    packets: u64,
    /// A packet was seen that arrived later.
    over: bool,
}

impl Batches {
    /// Takes packets of `port` that pass `filter` (`None` = all), at most `snaplen` bytes of each. `pool` is what the port was
    /// opened on.
    pub fn new(port: Box<dyn Port>, pool: Pool, filter: Option<Program>, snaplen: u32) -> Batches {
        let caps = port.caps();
        let timestamps = match (caps.timestamps, caps.far_side) {
            (false, _) => Timestamps::None,
            (true, FarSide::File) => Timestamps::Recorded,
            (true, _) => Timestamps::Arrival,
        };
        let slots = BATCH_SLOTS.max(caps.frags_max);
        let batch = if caps.timestamps { Batch::with_times(&pool, slots) } else { Batch::new(&pool, slots) };
        Batches { port, pool, batch, timestamps, filter, snaplen, joined: Vec::new(), end: None, held_back: false }
    }

    /// What the port's timestamps mean.
    pub fn timestamps(&self) -> Timestamps {
        self.timestamps
    }

    /// Gives the packets of the batch to the sink; how many.
    fn give(&mut self, sink: &mut Sink) -> usize {
        if self.batch.is_empty() {
            return 0;
        }
        let ahead_ns = clock::realtime_ahead_ns();
        let unix_ns = clock::now_ns().wrapping_add(ahead_ns);
        let (mut packets, mut index) = (0, 0);
        while let Some(span) = self.batch.span(index) {
            let time_ns = self.batch.time_ns(index).filter(|time_ns| *time_ns > 0);
            if let (Timestamps::Arrival, Some(end), Some(time_ns)) = (self.timestamps, &mut self.end, time_ns)
                && time_ns > end.asked_ns
            {
                end.over = true;
                return packets;
            }
            let time_ns = match (self.timestamps, time_ns) {
                (Timestamps::Recorded, Some(time_ns)) => time_ns,
                (Timestamps::Arrival, Some(time_ns)) => time_ns.wrapping_add(ahead_ns),
                _ => unix_ns,
            };
            let packet = match span.slots {
                1 => self.batch.packet(index),
                slots => {
                    self.joined.resize(span.len, 0);
                    self.batch.reader(index, slots).read(&mut self.joined);
                    &self.joined
                }
            };
            let kept = match &self.filter {
                None => self.snaplen,
                Some(filter) => filter.run(packet, &Facts::of_len(span.len as u32)).min(self.snaplen),
            };
            if kept > 0
                && sink.admit(span.len as u64)
                && let Some(intake) = &mut sink.intake
            {
                let (interface, original_len) = (sink.interface, span.len as u32);
                let head = PacketHead { interface, time_ns, original_len, direction: Direction::Unknown };
                let packet = &packet[..packet.len().min(kept as usize)];
                intake.packet(&head, packet.len(), |place| place.copy_from_slice(packet));
            }
            index += span.slots;
            packets += 1;
        }
        packets
    }
}

impl Source for Batches {
    fn walk(&mut self, sink: &mut Sink) -> Result<usize, String> {
        let mut walked = 0;
        while walked < WALK_MAX
            && !sink.is_full()
            && self.end.as_ref().is_none_or(|end| !end.over && end.packets < REST_MAX)
        {
            // A file can wait for the writer. (A batch of frames is less than a buffer.)
            self.held_back = self.timestamps == Timestamps::Recorded
                && sink.intake.as_ref().is_some_and(|intake| !intake.has_room());
            if self.held_back {
                break;
            }
            let received = self.port.receive(&mut self.batch);
            // Whoever reads the file has no mark of partial checksums.
            complete_checksums(&mut self.batch);
            let given = self.give(sink);
            self.pool.free(&mut self.batch);
            walked += given;
            if let Some(end) = &mut self.end
                && given > 0
            {
                end.packets += given as u64;
                end.last_ns = clock::now_ns();
            }
            match received {
                Ok(0) => break,
                Ok(_) => {}
                // An error comes again: first what came before it.
                Err(_) if walked > 0 => break,
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(walked)
    }

    fn wait(&mut self, timeout_ns: u64) -> Result<bool, String> {
        if self.held_back {
            clock::sleep_until_ns(clock::now_ns() + timeout_ns.min(HELD_BACK_NS));
            return Ok(true);
        }
        let ready = self.port.wait(Interest::Receive, timeout_ns).map_err(|error| error.to_string())?;
        Ok(ready != Readiness::Closed)
    }

    /// A port goes on receiving; what arrives from now on is not looked at.
    fn stop(&mut self) -> Result<(), String> {
        let asked_ns = clock::now_ns();
        self.end = Some(End { asked_ns, last_ns: asked_ns, packets: 0, over: false });
        Ok(())
    }

    fn is_walked(&mut self, walked: usize, _: &Counts) -> bool {
        let Some(end) = &self.end else { return false };
        let quiet = walked == 0 && clock::now_ns() > end.last_ns + QUIET_NS;
        // What is not read of a file is still there.
        self.timestamps == Timestamps::Recorded || quiet || end.over || end.packets >= REST_MAX
    }

    /// What is not taken and not lost was not offered: it is still the port's.
    fn counters(&mut self, sink: &Sink) -> Result<RingCounters, String> {
        let dropped = self.port.stats().map_err(|error| error.to_string())?.rx_dropped();
        // How often the ring was full nobody tells; at least once, if packets were dropped.
        Ok(RingCounters { offered: sink.taken + dropped, dropped, freezes: u64::from(dropped > 0) })
    }

    fn level_bytes(&self) -> Option<(u64, u64)> {
        self.port.rx_occupancy()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use linerate_mem::PoolConfig;

    use super::*;
    use crate::control::Control;
    use crate::thread::RingRun;

    /// Packets that another thread sends into a pipe, some of them of several slots.
    #[test]
    fn a_pipe_is_captured_until_its_other_end_goes() {
        const COUNT: u64 = 20_000;
        let pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
        let open = || linerate_ports::open("pipe:captured", &pool).unwrap();
        let (mut near, far) = (open(), open());
        let filter = linerate_ports::compile_filter("less 100", linerate_ports::FilterPlace::WholePackets, 262_144);
        let source = Batches::new(far, pool.clone(), Some(filter.unwrap().0), 262_144);
        assert_eq!(source.timestamps(), Timestamps::None);
        let control = Control::default();
        let sink = Sink::new(None, 0, None);
        let run = RingRun { source: Box::new(source), sink, control: &control, polls: false };
        let sent = AtomicBool::new(false);
        let end = std::thread::scope(|scope| {
            let mut pool = pool.clone();
            let sent = &sent;
            scope.spawn(move || {
                let mut batch = Batch::new(&pool, 8);
                for number in 0..COUNT {
                    let len = if number % 2 == 0 { 60 } else { 3000 };
                    while !pool.append(&mut batch, &vec![7; len], 0) {
                        near.transmit(&mut batch).unwrap();
                    }
                }
                while !batch.is_empty() {
                    near.transmit(&mut batch).unwrap();
                }
                sent.store(true, std::sync::atomic::Ordering::Release);
            });
            run.run()
        });
        assert!(sent.into_inner());
        assert_eq!(end.error, None);
        let counts = control.last();
        assert_eq!((counts.taken, counts.bytes, counts.ring.dropped), (COUNT / 2, COUNT / 2 * 60, 0));
        assert_eq!(counts.ring.offered, COUNT / 2);
    }

    /// Nobody reads what is written until the queue is full: a file's packets wait, and none is dropped.
    #[test]
    fn a_file_waits_for_the_writer() {
        const COUNT: u64 = 4000;
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        let made = std::process::Command::new("mkfifo").arg(path("out.pcap")).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no mkfifo");
            return;
        }
        let mut pool = Pool::new(PoolConfig { frames: 4096, frame_size: 2048 }).unwrap();
        let mut file = linerate_ports::open(&format!("file:{},write", path("in.pcap")), &pool).unwrap();
        let mut batch = Batch::new(&pool, 8);
        for _ in 0..COUNT {
            assert!(pool.append(&mut batch, &[7; 1500], 0));
            file.transmit(&mut batch).unwrap();
        }
        drop(file);
        let port = linerate_ports::open(&format!("file:{}", path("in.pcap")), &pool).unwrap();
        let source = Batches::new(port, pool.clone(), None, 262_144);
        let control = Control::default();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let reader_path = path("out.pcap");
        let (end, read) = std::thread::scope(|scope| {
            let reader = scope.spawn(move || {
                let mut file = std::fs::File::open(reader_path).unwrap();
                gone.recv().unwrap();
                std::io::copy(&mut file, &mut std::io::sink()).unwrap()
            });
            // Two buffers, of half a megabyte each, for six megabytes.
            let settings = crate::Settings {
                buffer_bytes: 1,
                queue_bytes: 1,
                ..crate::Settings::new(path("out.pcap"), linerate_capture::FileHead::default())
            };
            let (recorder, mut intakes) = crate::Recorder::start(settings, 1).unwrap();
            let sink = Sink::new(intakes.pop(), 0, None);
            let control = &control;
            let run = RingRun { source: Box::new(source), sink, control, polls: false };
            let ring = scope.spawn(move || run.run());
            // Until nothing moves any more, or all has been taken.
            let mut taken = u64::MAX;
            while taken != control.answer(control.ask()).taken && taken != COUNT {
                taken = control.last().taken;
                clock::sleep_until_ns(clock::now_ns() + 100_000_000);
            }
            go.send(()).unwrap();
            let end = ring.join().unwrap();
            recorder.finish();
            (end, reader.join().unwrap())
        });
        assert_eq!(end.error, None);
        let counts = control.last();
        assert_eq!((counts.taken, counts.dropped_for_buffers), (COUNT, 0));
        assert_eq!(read, 24 + COUNT * (16 + 1500));
    }
}
