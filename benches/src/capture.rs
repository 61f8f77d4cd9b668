//! What a capture does with each packet that it takes out of a ring, and what a filter costs where no kernel runs it.

use std::hint::black_box;

use linerate_capture::FileHead;
use linerate_filter::{Facts, Tags, compile};
use linerate_pcapng::{Direction, PacketHead};
use linerate_recorder_loop::{Method, Recorder, Settings};
use linerate_sys::affinity;

use crate::measure::{Run, Stopwatch};
use crate::traffic::PACKET_LEN;

/// Packets between two looks at whether all is written: fewer than the buffers hold, so that none is dropped.
const DRAIN: u64 = 100_000;

/// Packets into the buffers of a recorder, whose thread throws them away.
pub fn record(core: usize, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let settings = Settings { method: Method::Buffered, ..Settings::new("/dev/null", FileHead::default()) };
    let (recorder, mut intakes) = Recorder::start(settings, 1).expect("/dev/null can be written");
    let intake = &mut intakes[0];
    let bytes = [7u8; PACKET_LEN];
    let mut head = PacketHead {
        interface: 0,
        time_ns: 1_700_000_000_000_000_000,
        original_len: PACKET_LEN as u32,
        direction: Direction::Unknown,
    };
    let watch = Stopwatch::start();
    for number in 0..packets {
        head.time_ns += 1000;
        intake.packet(&head, PACKET_LEN, |place| place.copy_from_slice(&bytes));
        if number % DRAIN == 0 {
            recorder.drain();
        }
    }
    let run = watch.stop(packets);
    assert_eq!(intake.counts().dropped, 0);
    drop(intakes);
    assert_eq!(recorder.finish().failure, None);
    run
}

/// The interpreter, with a filter of two conditions that the packet passes.
pub fn filter(core: usize, packets: u64) -> Run {
    let _ = affinity::pin_to_core(core);
    let program = compile("udp dst port 2000 and dst net 198.18.0.0/15", Tags::InPacket, 65_535).expect("a filter");
    let mut packet = [0u8; PACKET_LEN];
    packet[12..14].copy_from_slice(&[0x08, 0x00]);
    packet[14] = 0x45;
    packet[23] = 17;
    packet[30..34].copy_from_slice(&[198, 19, 0, 1]);
    packet[36..38].copy_from_slice(&2000u16.to_be_bytes());
    let facts = Facts::of_len(PACKET_LEN as u32);
    let watch = Stopwatch::start();
    let passed = (0..packets).filter(|_| program.run(black_box(&packet), &facts) > 0).count() as u64;
    let run = watch.stop(packets);
    assert_eq!(passed, packets);
    run
}
