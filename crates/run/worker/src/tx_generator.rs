//! The sending loop for a backend that makes the packets itself, with the same account as [`crate::send`].

use linerate_gen::{Histogram, Schedule, SenderReport};
use linerate_port::{Port, PortError, Stats};
use linerate_sys::clock;

use crate::control::Control;

use crate::send::SendEnd;

/// Most packets of one call, where the rate is not known yet: a fraction of a second at any rate.
const PACKETS_FIRST: u64 = 1 << 16;
/// What one call should take, so that a request to stop is seen.
const CALL_NS: f64 = 50_000_000.0;

/// Lets the port's own program send the stream that was loaded into it, from `start_ns` on, until `schedule` ends, the port
/// breaks, or a stop is asked for. `packet_len` is the length of its packets in bytes, without FCS.
///
/// Times of single packets are the program's matter, so the account has no lateness and no gap errors. Without a rate, sending
/// may go on past the duration by a part of a call.
pub fn send_generated(
    port: &mut dyn Port,
    schedule: &Schedule,
    packet_len: usize,
    start_ns: u64,
    control: &Control,
) -> SendEnd {
    clock::sleep_exactly();
    let before = taken(port);
    clock::sleep_until_ns(start_ns);
    let mut account = Account { packet_len: packet_len as u64, ..Account::default() };
    let error = run(port, schedule, start_ns, control, &mut account).err();
    let now_ns = clock::now_ns().max(start_ns);
    // An error may have come after some packets: the port's totals know them.
    let made = taken(port).zip(before).map_or(account.made, |(after, before)| after - before).max(account.made);
    let intended = schedule.due_within(now_ns - start_ns).unwrap_or(made).max(made);
    let report = SenderReport {
        intended,
        sent: made,
        bytes: made * account.packet_len,
        sent_by_stream: vec![made],
        batches: account.calls,
        first_ns: (made > 0).then_some(start_ns),
        last_ns: (made > 0).then_some(account.last_ns.max(start_ns)),
        lateness: Histogram::default(),
        gap_error: Histogram::default(),
    };
    SendEnd::new(report, port, error)
}

#[derive(Default)]
struct Account {
    packet_len: u64,
    made: u64,
    calls: u64,
    /// When the last call was over.
    last_ns: u64,
}

fn run(
    port: &mut dyn Port,
    schedule: &Schedule,
    start_ns: u64,
    control: &Control,
    account: &mut Account,
) -> Result<(), PortError> {
    let by_time = schedule.duration_ns.and_then(|duration| schedule.due_within(duration));
    let total = by_time.or(schedule.packets).unwrap_or(u64::MAX);
    let end_ns = schedule.duration_ns.map_or(u64::MAX, |duration| start_ns.saturating_add(duration));
    let name = port.caps().name.clone();
    let missing = || PortError::Unsupported { port: name, what: "it does not make packets by itself".into() };
    let backend = port.tx_generator().ok_or_else(missing)?;
    while !control.stopping() && account.made < total {
        let now_ns = clock::now_ns();
        let left = total - account.made;
        let wanted = match schedule.rate_pps {
            Some(_) => backend.packets_per_run(),
            None if now_ns >= end_ns => break,
            None => backend.packets_per_run().min(affordable(account.made, now_ns, start_ns, end_ns)),
        };
        let run = backend.run(wanted.clamp(1, left))?;
        account.made += run.made;
        account.calls += 1;
        account.last_ns = clock::now_ns();
        control.meter.set(account.made, account.made * account.packet_len, account.calls);
    }
    Ok(())
}

/// Packets that the next call can make in its time, judging by the speed so far.
fn affordable(made: u64, now_ns: u64, start_ns: u64, end_ns: u64) -> u64 {
    if made == 0 {
        return PACKETS_FIRST;
    }
    let per_ns = made as f64 / now_ns.saturating_sub(start_ns).max(1) as f64;
    (per_ns * CALL_NS.min((end_ns - now_ns) as f64)) as u64
}

/// Packets that the port has taken so far: sent or lost.
fn taken(port: &mut dyn Port) -> Option<u64> {
    port.stats().ok().map(|stats: Stats| stats.tx_packets + stats.tx_dropped())
}
