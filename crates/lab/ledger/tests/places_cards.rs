//! The tester's own network cards on both sides of a box: counters as their drivers print them, made up.

use super::made_up;

use linerate_ledger::attribution::{PortRows, losses};
use linerate_ledger::counters::{Difference, InterfaceCounters};
use linerate_report::Loss;
use made_up::{named, router};

const SENT: u64 = 1_000_000;

/// A box between two cards: `left` packets left the first one, `arrived` were counted by the other one.
fn cabled(driver: &str, (left, arrived): (u64, u64)) -> Difference {
    let mut difference = router(0);
    (difference.dut, difference.outside) = (None, true);
    let card = |interface: &mut InterfaceCounters, name: &str| {
        (interface.name, interface.driver_name) = (name.into(), driver.into());
    };
    card(&mut difference.generator.interface, "eth0");
    card(&mut difference.receiver.interface, "eth1");
    difference.generator.interface.tx_packets = left;
    difference.receiver.interface.rx_packets = arrived;
    difference
}

/// Counter or inference, place and packets of each row. None of them is without a hint.
fn found(difference: &Difference, received: u64) -> Vec<(String, u64)> {
    let losses = losses(difference, SENT, received, &PortRows::default());
    assert_eq!(losses.unnamed, [], "{difference:#?}");
    assert!(losses.rows.iter().all(|row| row.hint.is_some()), "{:#?}", losses.rows);
    assert_eq!(losses.rows.iter().map(|row| row.packets).sum::<u64>(), SENT - received, "{:#?}", losses.rows);
    let words = |row: &Loss| match (&row.counter, row.is_inferred()) {
        (Some(counter), false) => counter.clone(),
        _ => format!("{}?", row.place),
    };
    losses.rows.iter().map(|row| (words(row), row.packets)).collect()
}

fn rows<const N: usize>(rows: [(&str, u64); N]) -> Vec<(String, u64)> {
    rows.map(|(words, packets)| (words.to_owned(), packets)).to_vec()
}

const BOX: &str = "between eth0 and eth1?";

/// Of 1,000 packets that did not arrive, 600 found no descriptor and 100 no room in the packet buffer; 5 were damaged. The box lost 295.
#[test]
fn what_each_driver_counts_on_reception_is_the_testers_own() {
    type Counters = &'static [(&'static str, u64)];
    type Card = (&'static str, Counters, Counters, [&'static str; 3]);
    let cards: [Card; 6] = [
        (
            "ixgbe",
            &[("rx_missed_errors", 100), ("rx_no_dma_resources", 600), ("rx_crc_errors", 5), ("rx_errors", 5)],
            &[("rx_missed_errors", 100), ("rx_crc_errors", 5), ("rx_errors", 5)],
            ["rx_no_dma_resources", "rx_missed_errors", "rx_crc_errors"],
        ),
        (
            "i40e",
            &[
                ("rx_missed_errors", 600),
                ("rx_dropped", 0),
                ("port.rx_discards", 100),
                ("rx_crc_errors", 5),
                ("port.rx_crc_errors", 5),
                ("rx_errors", 5),
            ],
            &[("rx_missed_errors", 600), ("rx_crc_errors", 5)],
            ["rx_missed_errors", "port.rx_discards", "rx_crc_errors"],
        ),
        (
            "ice",
            &[("rx_dropped", 600), ("rx_dropped.nic", 100), ("rx_crc_errors.nic", 5)],
            &[("rx_dropped", 600), ("rx_missed_errors", 100), ("rx_crc_errors", 5), ("rx_errors", 5)],
            ["rx_dropped", "rx_dropped.nic", "rx_crc_errors.nic"],
        ),
        (
            "igb",
            &[
                ("rx_queue_0_drops", 200),
                ("rx_queue_1_drops", 400),
                ("rx_missed_errors", 100),
                ("rx_crc_errors", 5),
                ("rx_errors", 5),
                ("rx_fifo_errors", 700),
            ],
            &[("rx_fifo_errors", 700), ("rx_missed_errors", 100), ("rx_crc_errors", 5), ("rx_errors", 5)],
            ["rx_queue_*_drops", "rx_missed_errors", "rx_crc_errors"],
        ),
        (
            "mlx5_core",
            &[
                ("rx_out_of_buffer", 600),
                ("rx_discards_phy", 100),
                ("rx_prio0_discards", 100),
                ("rx_prio0_buf_discard", 100),
                ("rx_crc_errors_phy", 5),
            ],
            &[("rx_missed_errors", 600), ("rx_dropped", 100), ("rx_crc_errors", 5), ("rx_errors", 5)],
            ["rx_out_of_buffer", "rx_discards_phy", "rx_crc_errors_phy"],
        ),
        (
            "gve",
            &[
                ("rx_queue_drop_cnt[0]", 300),
                ("rx_queue_drop_cnt[1]", 400),
                ("rx_no_buffers_posted[0]", 250),
                ("rx_no_buffers_posted[1]", 350),
                ("rx_dropped", 5),
                ("rx_dropped_pkt[0]", 5),
                ("rx_desc_err_dropped_pkt", 5),
            ],
            &[],
            ["rx_no_buffers_posted[*]", "rx_queue_drop_cnt[*]", "rx_dropped"],
        ),
    ];
    for (driver, own, fields, [no_descriptor, no_room, damaged]) in cards {
        let mut difference = cabled(driver, (SENT, SENT - 1_000));
        let receiver = &mut difference.receiver.interface;
        let counters = |list: &[(&str, u64)]| list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        (receiver.driver, receiver.fields) = (counters(own), counters(fields));
        let mut found = found(&difference, SENT - 1_000);
        let last = found.pop();
        found.sort();
        let name = |counter: &str| format!("eth1 {counter}");
        let mut expected = vec![(name(no_descriptor), 600), (name(no_room), 100), (name(damaged), 5)];
        expected.sort();
        assert_eq!((found, last), (expected, Some((BOX.to_owned(), 295))), "{driver}");
    }
}

/// e1000e has the card's own totals: `tx_packets` has no packet that was not sent.
#[test]
fn what_a_card_did_not_send_is_the_testers_own() {
    let mut difference = cabled("e1000e", (SENT - 30, SENT - 40));
    difference.generator.interface.fields = named([("tx_errors", 30)]);
    difference.receiver.interface.fields = named([("rx_missed_errors", 6)]);
    let expected = rows([("eth0 tx_errors", 30), ("eth1 rx_missed_errors", 6), (BOX, 4)]);
    assert_eq!(found(&difference, SENT - 40), expected);
    // i40e drops after it has told that it sent; what the kernel dropped before is in the same field and has its row already.
    let mut difference = cabled("i40e", (SENT - 20, SENT - 50));
    let sender = &mut difference.generator.interface;
    sender.tx_dropped = 32;
    sender.fields = named([("tx_dropped", 32), ("tx_errors", 3)]);
    sender.driver = named([("port.tx_dropped_link_down", 10), ("port.tx_errors", 3)]);
    let expected = rows([
        ("eth0 tx_dropped", 20),
        ("eth0 port.tx_dropped_link_down", 10),
        ("eth0 tx_errors", 3),
        ("eth0 tx_dropped", 12),
        (BOX, 5),
    ]);
    assert_eq!(found(&difference, SENT - 50), expected);
}

/// virtio_net counts as received what it drops then; a queue that stood still is no lost packet.
#[test]
fn what_a_driver_drops_after_reception_is_not_lost_in_the_box() {
    let mut difference = cabled("virtio_net", (SENT, SENT - 10));
    difference.generator.interface.fields = named([("tx_errors", 4)]);
    let receiver = &mut difference.receiver.interface;
    receiver.driver =
        named([("rx_drops", 12), ("rx_xdp_drops", 5), ("rx0_drops", 7), ("rx1_drops", 5), ("rx1_xdp_drops", 5)]);
    receiver.fields = named([("rx_dropped", 12)]);
    let expected = rows([(BOX, 10), ("eth1 rx*_xdp_drops", 5), ("eth1 rx*_drops", 7)]);
    assert_eq!(found(&difference, SENT - 22), expected);
    // mlx5 does not count as received what a program or a socket of XDP took.
    let mut difference = cabled("mlx5_core", (SENT, 0));
    difference.receiver.interface.driver = named([("rx_xdp_redirect", SENT - 8), ("rx_out_of_buffer", 8)]);
    assert_eq!(found(&difference, SENT - 8), rows([("eth1 rx_out_of_buffer", 8)]));
}

/// ENA counts packets that were delayed or dropped: they are inferred, and no more than what is missing.
#[test]
fn an_allowance_that_was_exceeded_is_an_inference() {
    let mut difference = cabled("ena", (SENT, SENT - 500));
    let receiver = &mut difference.receiver.interface;
    receiver.driver = named([("pps_allowance_exceeded", 9_000), ("queue_0_rx_page_alloc_fail", 50)]);
    receiver.fields = named([("rx_dropped", 100)]);
    assert_eq!(found(&difference, SENT - 500), rows([("eth1 rx_dropped", 100), ("eth1?", 400)]));
}

/// No driver's counter, however large, makes more of a loss than what is missing.
#[test]
fn counters_only_name_what_the_totals_miss() {
    for driver in linerate_ledger::counters::nic::drivers() {
        let mut difference = cabled(driver.name, (SENT, SENT - 3));
        for row in driver.rows {
            let counter = row.counter.replace('*', "0");
            difference.receiver.interface.driver.insert(counter.clone(), SENT);
            difference.generator.interface.driver.insert(counter, SENT);
        }
        let taken_in = difference.receiver.interface.taken_in();
        let missing = SENT.saturating_sub(taken_in);
        let losses = losses(&difference, SENT, taken_in, &PortRows::default());
        assert_eq!(losses.rows.iter().map(|row| row.packets).sum::<u64>(), missing, "{}: {losses:#?}", driver.name);
    }
}
