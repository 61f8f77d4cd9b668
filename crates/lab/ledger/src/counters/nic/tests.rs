//! Tables of drivers: no packet twice, none left out.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::*;

fn card(driver: &str, own: &[(&str, u64)], fields: &[(&str, u64)]) -> InterfaceCounters {
    let named = |counters: &[(&str, u64)]| counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    InterfaceCounters { driver_name: driver.into(), driver: named(own), fields: named(fields), ..Default::default() }
}

fn at(card: &InterfaceCounters, stage: Stage) -> Vec<(&'static str, u64)> {
    card.lost_at(stage).into_iter().map(|lost| (lost.counter, lost.packets)).collect()
}

#[test]
fn a_star_is_the_number_of_a_queue() {
    assert!(matches("rx_queue_*_drops", "rx_queue_12_drops") && matches("rx*_drops", "rx0_drops"));
    assert!(matches("rx_queue_drop_cnt[*]", "rx_queue_drop_cnt[3]") && matches("rx_dropped", "rx_dropped"));
    for (pattern, name) in [
        ("rx_queue_*_drops", "rx_queue__drops"),
        ("rx_queue_*_drops", "rx_queue_1_xdp_drops"),
        ("rx*_drops", "rx_queue_0_drops"),
        ("rx_dropped", "rx_dropped.nic"),
        ("rx*_drops", "tx0_drops"),
    ] {
        assert!(!matches(pattern, name), "{pattern} {name}");
    }
}

/// What no table may have: a counter twice, one that contains itself, one that two others contain (its packets would be taken off twice),
/// and one without a row that another contains (its packets would be in no row).
#[test]
fn tables_count_no_packet_twice_and_leave_none_out() {
    let tables = drivers().iter().map(|driver| (driver.name, driver.rows)).chain([("standard", standard())]);
    for (name, rows) in tables {
        let mut counters = BTreeSet::new();
        let mut contained = BTreeSet::new();
        for row in rows {
            assert!(counters.insert(row.counter), "{name}: {} has two rows", row.counter);
            assert!(!row.contains.contains(&row.counter), "{name}: {} contains itself", row.counter);
            // `rx_fifo_errors` of an unknown driver can have missed packets: what is contained twice is taken off twice, never added.
            assert!(name == "standard" || row.contains.iter().all(|inner| contained.insert(*inner)), "{name}: {row:?}");
        }
        assert!(contained.is_subset(&counters), "{name}: a contained counter has no row");
    }
    assert_eq!(drivers().iter().map(|driver| driver.name).collect::<BTreeSet<_>>().len(), drivers().len());
}

/// 20 packets found no descriptor in two queues and 10 no room in the packet buffer. igb has them in six counters.
#[test]
fn a_sum_and_its_parts_are_counted_once() {
    let own = [
        ("rx_queue_0_drops", 15),
        ("rx_queue_1_drops", 5),
        ("rx_missed_errors", 10),
        ("rx_no_buffer_count", 99),
        ("rx_crc_errors", 2),
        ("rx_align_errors", 0),
        ("rx_short_length_errors", 1),
        ("rx_errors", 4),
        ("rx_fifo_errors", 30),
    ];
    let fields = [("rx_fifo_errors", 30), ("rx_missed_errors", 10), ("rx_errors", 4), ("rx_crc_errors", 2)];
    let rows = at(&card("igb", &own, &fields), Stage::Arriving);
    let expected = [
        ("rx_queue_*_drops", 20),
        ("rx_missed_errors", 10),
        ("rx_crc_errors", 2),
        ("rx_short_length_errors", 1),
        ("rx_errors", 1),
    ];
    assert_eq!(rows, expected);
    // Without the driver's own, the kernel's fields alone.
    let rows = at(&card("other", &[], &fields), Stage::Arriving);
    assert_eq!(rows, [("rx_missed_errors", 10), ("rx_fifo_errors", 20), ("rx_crc_errors", 2)]);
}

#[test]
fn a_drivers_own_counter_stands_for_the_kernels_field_of_that_name() {
    // The kernel adds what its stack drops after a packet socket had it.
    let rows = at(&card("ice", &[("rx_dropped", 7), ("rx_dropped.nic", 3)], &[("rx_dropped", 5_007)]), Stage::Arriving);
    assert_eq!(rows, [("rx_dropped", 7), ("rx_dropped.nic", 3)]);
    // ENA has it in the kernel's fields alone; where packets were delayed or dropped is an inference.
    let ena = card("ena", &[("pps_allowance_exceeded", 9)], &[("rx_dropped", 4)]);
    assert_eq!(at(&ena, Stage::Arriving), [("rx_dropped", 4), ("pps_allowance_exceeded", 9)]);
    let unsure: Vec<bool> = ena.lost_at(Stage::Arriving).iter().map(|lost| lost.is_unsure).collect();
    assert_eq!(unsure, [false, true]);
}

#[test]
fn names_with_blanks_before_them_are_found() {
    assert_eq!(at(&card("vmxnet3", &[("  pkts rx OOB", 6)], &[]), Stage::Arriving), [("pkts rx OOB", 6)]);
}

#[test]
fn drops_of_a_virtio_queue_have_those_of_its_xdp_program() {
    for names in [["rx_queue_0_drops", "rx_queue_0_xdp_drops"], ["rx0_drops", "rx0_xdp_drops"]] {
        let rows = at(&card("virtio_net", &[(names[0], 12), (names[1], 8)], &[("tx_errors", 3)]), Stage::Received);
        assert_eq!(rows.iter().map(|(_, packets)| *packets).collect::<Vec<_>>(), [8, 4], "{rows:?}");
        let virtio = card("virtio_net", &[(names[0], 12)], &[("tx_errors", 3), ("rx_dropped", 12)]);
        assert!([Stage::Arriving, Stage::Refused, Stage::Leaving].map(|stage| at(&virtio, stage)).concat().is_empty());
    }
}

#[test]
fn what_xdp_took_before_the_total_was_taken_in() {
    let mut mlx5 = card("mlx5_core", &[("rx_xdp_drop", 90), ("rx0_xdp_drop", 90), ("rx_xdp_redirect", 5)], &[]);
    mlx5.rx_packets = 5;
    assert_eq!(mlx5.taken_in(), 100);
    let mut veth = card("veth", &[("rx_queue_0_xdp_drops", 90)], &[]);
    veth.rx_packets = 100;
    assert_eq!(veth.taken_in(), 100);
}

#[test]
fn pause_frames_are_counted_once() {
    let own = [
        ("rx_pause_ctrl_phy", 7),
        ("rx_global_pause", 7),
        ("rx_global_pause_duration", 900),
        ("rx_prio0_pause", 3),
        ("tx_pause_ctrl_phy", 2),
        ("tx_pause_storm_warning_events", 50),
    ];
    assert_eq!(card("mlx5_core", &own, &[]).pause_frames(), [7, 2]);
    let own = [("rx_flow_control_xon", 1), ("rx_flow_control_xoff", 4), ("tx_flow_control_xoff", 6)];
    assert_eq!(card("ixgbe", &own, &[]).pause_frames(), [5, 6]);
    let own = [("rx_pause_frames", 3), ("mac_rx_pause", 3), ("tx_pause_duration", 9)];
    assert_eq!(card("other", &own, &[]).pause_frames(), [3, 0]);
}

/// docs/nic-counters.md has the tables as they are.
#[test]
fn the_document_has_every_row() {
    let mut text = String::new();
    for driver in drivers() {
        let _ = write!(text, "\n## {}\n\nFrom `drivers/net/` {}.\n\n", driver.name, driver.source);
        write_rows(&mut text, driver.rows);
        for (what, counters) in [
            ("Pause frames received", driver.pause_received),
            ("Pause frames sent", driver.pause_sent),
            ("Packets that XDP took before `rx_packets`", driver.beside_received),
        ] {
            let names: Vec<String> = counters.iter().map(|name| format!("`{name}`")).collect();
            if !names.is_empty() {
                let _ = writeln!(text, "\n{what}: {}.", names.join(" + "));
            }
        }
    }
    text += "\n## Other drivers\n\nFrom `include/uapi/linux/if_link.h`.\n\n";
    write_rows(&mut text, standard());
    let document = include_str!("../../../../../../docs/nic-counters.md");
    let tables = document.split_once("<!-- tables -->\n").map(|(_, tables)| tables);
    assert!(tables == Some(text.as_str()), "docs/nic-counters.md has to end in:\n<!-- tables -->\n{text}");
}

fn write_rows(text: &mut String, rows: &[Row]) {
    *text += "| counter | less | lost | cause |\n|---|---|---|---|\n";
    for row in rows {
        let less: Vec<String> = row.contains.iter().map(|name| format!("`{name}`")).collect();
        let at = match row.at {
            Stage::Arriving => "before `rx_packets`",
            Stage::Received => "after `rx_packets`",
            Stage::Refused => "before `tx_packets`",
            Stage::Leaving => "after `tx_packets`",
        };
        let inferred = if row.is_unsure { " (inferred)" } else { "" };
        let _ = writeln!(text, "| `{}` | {} | {at} | {}{inferred} |", row.counter, less.join(", "), row.cause);
    }
}
