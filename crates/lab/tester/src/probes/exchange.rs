//! Probes on their way: one at a time, from a card that timestamps what it sends to one that timestamps what it receives.

use std::io;

use linerate_report::Probes;
use linerate_sys::clock;
use linerate_sys::poll::PollSet;
use linerate_sys::ptp::{self, PtpClock, Reading};
use linerate_sys::timestamping::{Sent, TimestampingSocket};

use super::message::Message;

/// From one probe to the next, on average. Cards keep one timestamp at a time.
const INTERVAL_NS: u64 = 5_000_000;
/// How long a probe and its timestamps are waited for.
pub(super) const TIMEOUT_NS: u64 = 100_000_000;
/// From one reading of the clocks to the next, while probes go.
const READ_EVERY_NS: u64 = 100_000_000;
/// The same before and after them.
const READ_APART_NS: u64 = 20_000_000;
/// Bounds the memory of a long trial: then readings are further apart.
const READINGS_MAX: u64 = 10_000;
const PROBES_MAX: usize = 1_000_000;
/// Frames that are taken out in one go.
const FRAMES_MAX: usize = 64;
const FRAME_LEN_MAX: usize = 2048;

/// What tells the time of a socket's timestamps.
#[derive(Debug)]
pub(super) enum Clock {
    /// A card's.
    Card(PtpClock),
    /// CLOCK_REALTIME.
    System,
}

impl Clock {
    fn read(&self) -> io::Result<Reading> {
        match self {
            Clock::Card(clock) => clock.read(),
            Clock::System => Ok(ptp::realtime()),
        }
    }

    pub(super) fn is_same(&self, other: &Clock) -> bool {
        match (self, other) {
            (Clock::Card(one), Clock::Card(other)) => one.number() == other.number(),
            (Clock::System, Clock::System) => true,
            _ => false,
        }
    }
}

/// What probes go between, in one direction.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) message: Message,
    pub(super) sender: TimestampingSocket,
    pub(super) receiver: TimestampingSocket,
    /// Of the sender, of the receiver.
    pub(super) clocks: [Clock; 2],
}

/// What the probes of one direction showed, on the clocks of the cards.
#[derive(Debug, Default)]
pub(super) struct Exchanged {
    /// When each probe was sent and received, in nanoseconds.
    pub(super) times: Vec<(i64, i64)>,
    /// Of the two clocks.
    pub(super) readings: [Vec<Reading>; 2],
    pub(super) probes: Probes,
    /// What broke a socket or a clock.
    pub(super) error: Option<io::Error>,
}

impl Exchange {
    /// Sends probes from `start_ns` to `end_ns`, both of [`clock::now_ns`]; reads the clocks some time before `start_ns`, in between, and
    /// after the end.
    pub(super) fn run(&mut self, start_ns: u64, end_ns: u64) -> Exchanged {
        let mut done = Exchanged::default();
        if let Err(error) = self.try_run(start_ns, end_ns, &mut done) {
            done.error = Some(error);
        }
        done
    }

    fn try_run(&mut self, start_ns: u64, end_ns: u64, done: &mut Exchanged) -> io::Result<()> {
        let every_ns = READ_EVERY_NS.max(end_ns.saturating_sub(start_ns) / READINGS_MAX);
        for number in (1..=3).rev() {
            clock::sleep_until_ns(start_ns.saturating_sub(number * READ_APART_NS));
            self.read_clocks(done)?;
        }
        let mut read_ns = start_ns + every_ns;
        let mut poll = PollSet::default();
        let mut due_ns = start_ns;
        for number in 0..PROBES_MAX as u64 {
            clock::sleep_until_ns(due_ns);
            let now_ns = clock::now_ns();
            if now_ns >= end_ns {
                break;
            }
            // Those that were due while one was waited for, or this thread had no core, are left out.
            due_ns = now_ns + gap_ns(number);
            if now_ns >= read_ns {
                self.read_clocks(done)?;
                read_ns = now_ns + every_ns;
            }
            self.probe(number as u16, &mut poll, done)?;
        }
        for _ in 0..3 {
            clock::sleep_until_ns(clock::now_ns() + READ_APART_NS);
            self.read_clocks(done)?;
        }
        Ok(())
    }

    fn read_clocks(&self, done: &mut Exchanged) -> io::Result<()> {
        for (clock, readings) in self.clocks.iter().zip(&mut done.readings) {
            readings.push(clock.read()?);
        }
        Ok(())
    }

    /// One probe, until it is complete or late.
    fn probe(&mut self, sequence: u16, poll: &mut PollSet, done: &mut Exchanged) -> io::Result<()> {
        let frame = self.message.frame(sequence).map_err(io::Error::other)?;
        let number = match self.sender.send(&frame) {
            Ok(number) => number,
            // The load has filled the card's queue.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                done.probes.sent += 1;
                done.probes.lost += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut pending = Pending::new(number, sequence);
        let deadline_ns = clock::now_ns() + TIMEOUT_NS;
        loop {
            self.take(&mut pending)?;
            let left_ns = deadline_ns.saturating_sub(clock::now_ns());
            if pending.is_complete() || left_ns == 0 {
                break;
            }
            poll.clear();
            // Transmit timestamps show as errors, which need not be asked for.
            poll.add(self.sender.fd(), false, false);
            poll.add(self.receiver.fd(), true, false);
            poll.wait(left_ns)?;
        }
        done.times.extend(pending.close(&mut done.probes));
        Ok(())
    }

    fn take(&mut self, pending: &mut Pending) -> io::Result<()> {
        while let Some(sent) = self.sender.take_sent()? {
            pending.sent(sent);
        }
        let mut frame = [0; FRAME_LEN_MAX];
        for _ in 0..FRAMES_MAX {
            let Some((len, time_ns)) = self.receiver.receive(&mut frame)? else { break };
            if let Some(sequence) = self.message.sequence_of(&frame[..len]) {
                pending.received(sequence, time_ns);
            }
        }
        Ok(())
    }
}

/// From a probe to the next one: not always the same, so that probes do not fall in with something that happens each millisecond.
fn gap_ns(number: u64) -> u64 {
    // The golden ratio as a share of 2^32: multiples of it are spread evenly.
    let share = number.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
    INTERVAL_NS / 2 + ((share * INTERVAL_NS) >> 32)
}

/// The probe that is on its way.
#[derive(Debug)]
struct Pending {
    number: u32,
    sequence: u16,
    sent_ns: Option<i64>,
    /// It arrived, and when.
    received: Option<Option<i64>>,
    strays: u64,
}

impl Pending {
    fn new(number: u32, sequence: u16) -> Pending {
        Pending { number, sequence, sent_ns: None, received: None, strays: 0 }
    }

    fn sent(&mut self, sent: Sent) {
        if sent.number == self.number && self.sent_ns.is_none() {
            self.sent_ns = Some(sent.time_ns);
        } else {
            self.strays += 1;
        }
    }

    fn received(&mut self, sequence: u16, time_ns: Option<i64>) {
        if sequence == self.sequence && self.received.is_none() {
            self.received = Some(time_ns);
        } else {
            self.strays += 1;
        }
    }

    fn is_complete(&self) -> bool {
        self.sent_ns.is_some() && self.received.is_some()
    }

    /// Both times, if it has both; counted.
    fn close(self, probes: &mut Probes) -> Option<(i64, i64)> {
        probes.sent += 1;
        probes.strays += self.strays;
        let Some(received_ns) = self.received else {
            probes.lost += 1;
            return None;
        };
        let times = self.sent_ns.zip(received_ns);
        probes.without_timestamp += u64::from(times.is_none());
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_timestamps_belong_to_a_probe() {
        let sent = |number, time_ns| Sent { number, time_ns };
        let mut probes = Probes::default();
        let mut whole = Pending::new(7, 3);
        // A late one of the probe before, twice the same, a copy.
        for (number, time_ns) in [(6, 1), (7, 2), (7, 3)] {
            whole.sent(sent(number, time_ns));
        }
        for (sequence, time_ns) in [(2, Some(4)), (3, Some(5)), (3, Some(6))] {
            whole.received(sequence, time_ns);
        }
        assert!(whole.is_complete());
        assert_eq!(whole.close(&mut probes), Some((2, 5)));
        assert_eq!(probes, Probes { sent: 1, strays: 4, ..Probes::default() });
        // Neither arrived nor timestamped; arrived without a timestamp of the receiver; of the sender.
        assert_eq!(Pending::new(8, 4).close(&mut probes), None);
        let mut without_timestamp = Pending::new(9, 5);
        without_timestamp.sent(sent(9, 7));
        without_timestamp.received(5, None);
        assert!(without_timestamp.is_complete() && without_timestamp.close(&mut probes).is_none());
        let mut without_timestamp = Pending::new(10, 6);
        without_timestamp.received(6, Some(8));
        assert!(!without_timestamp.is_complete() && without_timestamp.close(&mut probes).is_none());
        assert_eq!(probes, Probes { sent: 4, lost: 1, without_timestamp: 2, strays: 4, rejected: 0 });
    }

    #[test]
    fn gaps_between_probes_differ_and_are_an_interval_on_average() {
        let gaps: Vec<u64> = (0..1000).map(gap_ns).collect();
        assert!(gaps.iter().all(|gap| (INTERVAL_NS / 2..=INTERVAL_NS * 3 / 2).contains(gap)), "{gaps:?}");
        let mean_ns = gaps.iter().sum::<u64>() / 1000;
        assert!(mean_ns.abs_diff(INTERVAL_NS) < INTERVAL_NS / 100 && gaps[0] != gaps[1], "{mean_ns}");
    }
}
