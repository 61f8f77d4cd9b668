//! Many entries come and go while packets pass: those of entries that stay lose nothing.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::common;

use common::{Controller, Station, config, show, snapshot, start_in, stop, wait_until};
use linerate_ofswitch::request::What;
use linerate_openflow::{FlowCommand, Message, encode};
use linerate_openflow_text::parse_flow;

/// Entries that are loaded, with eight masks.
const ENTRIES: u32 = 5_000;
/// More packets than these pass meanwhile.
const PACKETS_MIN: usize = 1_000;

#[test]
fn packets_of_entries_that_stay_lose_nothing_while_others_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("loading", 3));
    let [mut a, mut b] = [1, 2].map(|number| Station::join(&running, "loading", number));
    let mut controller = Controller::connect(&running);
    controller.add_flow("priority=5,in_port=1,dl_type=0x88b5,actions=output:2");
    let entry = |number: u32, command| {
        let [_, _, high, low] = number.to_be_bytes();
        let actions = if command == FlowCommand::Add { ",actions=output:3" } else { "" };
        let words = format!("priority=7,in_port=1,tcp,nw_dst=10.{high}.{low}.0/{}{actions}", 24 + number % 8);
        Message::FlowMod(parse_flow(&words, command).unwrap())
    };
    let sent_meanwhile = AtomicUsize::new(0);
    let sent = std::thread::scope(|scope| {
        let loader = scope.spawn(|| {
            // On a busy machine the thread that sends may not get a core before all is loaded and gone.
            while sent_meanwhile.load(Relaxed) <= PACKETS_MIN {
                for command in [FlowCommand::Add, FlowCommand::DeleteStrict] {
                    let mut bytes = Vec::new();
                    (0..ENTRIES).for_each(|number| encode(&mut bytes, number, &entry(number, command)).unwrap());
                    controller.wire.write_all(&bytes).unwrap();
                    controller.barrier();
                    let entries = show(&running, What::Table)[0]["entries"].as_u64();
                    assert_eq!(entries, Some(if command == FlowCommand::Add { u64::from(ENTRIES) + 1 } else { 1 }));
                }
            }
            assert!(controller.waiting.is_empty(), "{:?}", controller.waiting);
        });
        let (mut sent, mut received) = (0, 0);
        while !loader.is_finished() {
            // What the pipe takes, the switch has received.
            sent += a.send(1, 32);
            sent_meanwhile.store(sent, Relaxed);
            received += b.receive().len();
            std::thread::yield_now();
        }
        loader.join().unwrap();
        wait_until("all packets arrive", || {
            received += b.receive().len();
            received == sent
        });
        sent as u64
    });
    let totals = snapshot(&running).totals;
    assert_eq!((totals.received, totals.sent, totals.dropped), (sent, sent, 0), "{totals:?}");
    let entries = show(&running, What::Flow);
    assert_eq!(entries["items"][0]["packets"].as_u64(), Some(sent), "{entries}");
    drop((a, b));
    stop(running);
}
