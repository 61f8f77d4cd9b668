//! The tables of drivers, each written from its source: strings and values of `ethtool -S`, and what it puts into the kernel's fields.
//!
//! Registers of Intel's cards are explained in their datasheets: MPC (missed packets), QPRDC and RQDPC (no descriptor in a queue),
//! RDPC (discarded packets), CRCERRS, RLEC, RUC, ROC (lengths).

use super::standard::{
    BAD, BAD_LENGTH, DAMAGED, FIFO_FULL, MISALIGNED, NO_BUFFER, NOT_SENT, arriving, leaving, received, refused,
};
use super::{Driver, Row};

const NO_DESCRIPTOR: &str = "no free descriptor in a receive queue of the tester's own network card";
const BUFFER_FULL: &str = "packet buffer of the tester's own network card full";
const TOO_SHORT: &str = "arrived shorter than the tester's own network card takes";
const TOO_LONG: &str = "arrived longer than the tester's own network card takes";
const BY_DRIVER: &str = "dropped by the driver";
const BY_XDP: &str = "dropped by the XDP program";
const DISCARDED: &str = "discarded by the tester's own network card on the way to the cable";
const LINK_WAS_DOWN: &str = "not transmitted by the tester's own interface: its link was down";
const OVER_ALLOWANCE_IN: &str = "over the allowance of the tester's own instance (reception)";
const OVER_ALLOWANCE_OUT: &str = "over the allowance of the tester's own instance (transmission)";
const NO_STEERING: &str = "no rule of the tester's own network card takes them";

/// Counts packets that were not lost, too.
const fn unsure(row: Row) -> Row {
    Row { is_unsure: true, ..row }
}

pub(super) const DRIVERS: &[Driver] = &[IXGBE, I40E, ICE, IGB, E1000E, MLX5, VIRTIO_NET, ENA, GVE, VMXNET3];

/// `rx_packets` counts descriptors. Without rows: `rx_no_buffer_count` (82598 only: the packet waits in the FIFO), `alloc_rx_*_failed`
/// (buffers), `tx_busy` (sent later), `rx_csum_offload_errors` (delivered).
const IXGBE: Driver = Driver {
    name: "ixgbe",
    source: "ethernet/intel/ixgbe/ixgbe_ethtool.c, ixgbe_main.c (ixgbe_update_stats)",
    rows: &[
        arriving("rx_missed_errors", BUFFER_FULL),
        arriving("rx_no_dma_resources", NO_DESCRIPTOR),
        arriving("rx_crc_errors", DAMAGED),
        arriving("rx_length_errors", BAD_LENGTH),
        arriving("rx_short_length_errors", TOO_SHORT),
        arriving("rx_long_length_errors", TOO_LONG),
        leaving("tx_errors", NOT_SENT),
    ],
    pause_received: &["rx_flow_control_xon", "rx_flow_control_xoff"],
    pause_sent: &["tx_flow_control_xon", "tx_flow_control_xoff"],
    beside_received: &[],
};

/// `rx_missed_errors` is RDPC of the function (before Linux 6.2 some versions put it into `rx_dropped`), `port.rx_discards` RDPC of the
/// port. `port.rx_crc_errors` repeats `rx_crc_errors`. Without rows: `rx_alloc_fail`, `rx_pg_alloc_fail` (buffers), `tx_busy` (sent
/// later), `port.rx_csum_bad` (delivered), `veb.*` (the card's own switch; its ports count the same packets).
const I40E: Driver = Driver {
    name: "i40e",
    source: "ethernet/intel/i40e/i40e_ethtool.c, i40e_main.c (i40e_update_vsi_stats, i40e_update_pf_stats)",
    rows: &[
        arriving("rx_missed_errors", NO_DESCRIPTOR),
        arriving("rx_dropped", NO_DESCRIPTOR),
        arriving("port.rx_discards", BUFFER_FULL),
        // A frame that is too long and damaged is in both.
        Row { contains: &["port.rx_jabber"], ..arriving("rx_crc_errors", DAMAGED) },
        arriving("port.rx_jabber", DAMAGED),
        arriving("port.rx_fragments", DAMAGED),
        arriving("port.illegal_bytes", BAD),
        arriving("rx_length_errors", BAD_LENGTH),
        arriving("port.rx_undersize", TOO_SHORT),
        arriving("port.rx_oversize", TOO_LONG),
        leaving("port.tx_dropped_link_down", LINK_WAS_DOWN),
        leaving("tx_errors", NOT_SENT),
        leaving("tx_dropped", DISCARDED),
    ],
    pause_received: &["port.link_xon_rx", "port.link_xoff_rx"],
    pause_sent: &["port.link_xon_tx", "port.link_xoff_tx"],
    beside_received: &[],
};

/// `rx_dropped` is RDPC of the function, `rx_dropped.nic` that of the port, which `rx_missed_errors` repeats. `rx_crc_errors.nic` is
/// `rx_crc_errors`. Without rows: as i40e.
const ICE: Driver = Driver {
    name: "ice",
    source: "ethernet/intel/ice/ice_ethtool.c, ice_main.c (ice_update_vsi_stats, ice_update_pf_stats)",
    rows: &[
        arriving("rx_dropped", NO_DESCRIPTOR),
        arriving("rx_dropped.nic", BUFFER_FULL),
        // A frame that is too long and damaged is in both.
        Row { contains: &["rx_jabber.nic"], ..arriving("rx_crc_errors.nic", DAMAGED) },
        arriving("rx_jabber.nic", DAMAGED),
        arriving("rx_fragments.nic", DAMAGED),
        arriving("illegal_bytes.nic", BAD),
        arriving("rx_length_errors.nic", BAD_LENGTH),
        arriving("rx_undersize.nic", TOO_SHORT),
        arriving("rx_oversize.nic", TOO_LONG),
        leaving("tx_dropped_link_down.nic", LINK_WAS_DOWN),
        // `tx_errors.nic` is that of the port, and has those of the function.
        leaving("tx_errors", NOT_SENT),
        Row { contains: &["tx_errors"], ..leaving("tx_errors.nic", NOT_SENT) },
        leaving("tx_dropped", DISCARDED),
    ],
    pause_received: &["link_xon_rx.nic", "link_xoff_rx.nic"],
    pause_sent: &["link_xon_tx.nic", "link_xoff_tx.nic"],
    beside_received: &[],
};

/// `rx_fifo_errors` is the sum of the first two rows, so it has no row; `rx_errors` that of the others. Without rows:
/// `rx_no_buffer_count` (the packet waits in the FIFO), `rx_queue_*_alloc_failed` (buffers), `rx_queue_*_csum_err` (delivered).
const IGB: Driver = Driver {
    name: "igb",
    source: "ethernet/intel/igb/igb_ethtool.c, igb_main.c (igb_update_stats)",
    rows: &[
        arriving("rx_queue_*_drops", NO_DESCRIPTOR),
        arriving("rx_missed_errors", BUFFER_FULL),
        arriving("rx_crc_errors", DAMAGED),
        arriving("rx_align_errors", MISALIGNED),
        arriving("rx_short_length_errors", TOO_SHORT),
        arriving("rx_long_length_errors", TOO_LONG),
        Row {
            contains: &["rx_crc_errors", "rx_align_errors", "rx_short_length_errors", "rx_long_length_errors"],
            ..arriving("rx_errors", BAD)
        },
        leaving("tx_errors", NOT_SENT),
    ],
    pause_received: &["rx_flow_control_xon", "rx_flow_control_xoff"],
    pause_sent: &["tx_flow_control_xon", "tx_flow_control_xoff"],
    beside_received: &[],
};

/// `rx_packets` and `tx_packets` are the card's own counts of good packets (GPRC, GPTC), which have no missed ones and none that were not
/// sent. `rx_length_errors` is the sum of short and long ones. Without rows: as igb.
const E1000E: Driver = Driver {
    name: "e1000e",
    source: "ethernet/intel/e1000e/ethtool.c, netdev.c (e1000e_get_stats64)",
    rows: &[
        arriving("rx_missed_errors", BUFFER_FULL),
        arriving("rx_crc_errors", DAMAGED),
        arriving("rx_align_errors", MISALIGNED),
        arriving("rx_short_length_errors", TOO_SHORT),
        arriving("rx_long_length_errors", TOO_LONG),
        Row {
            contains: &["rx_crc_errors", "rx_align_errors", "rx_short_length_errors", "rx_long_length_errors"],
            ..arriving("rx_errors", BAD)
        },
        refused("tx_errors", NOT_SENT),
    ],
    pause_received: &["rx_flow_control_xon", "rx_flow_control_xoff"],
    pause_sent: &["tx_flow_control_xon", "tx_flow_control_xoff"],
    beside_received: &[],
};

/// `rx_missed_errors` repeats `rx_out_of_buffer`, `rx_dropped` `rx_discards_phy`, `tx_errors` `tx_discards_phy`. Discards by priority
/// (`rx_prio*_discards`, `rx_prio*_buf_discard`) are in `rx_discards_phy`; `rx*_...` of queues are in the names without a number.
/// `rx_pause_ctrl_phy` has the frames of `rx_global_pause`; `rx_prio*_pause` are priority flow control (IEEE 802.1Qbb), not pause frames.
/// `tx_queue_dropped` is the kernel's `tx_dropped`.
const MLX5: Driver = Driver {
    name: "mlx5_core",
    source: "ethernet/mellanox/mlx5/core/en_stats.c, en_main.c (mlx5e_get_stats)",
    rows: &[
        arriving("rx_out_of_buffer", NO_DESCRIPTOR),
        arriving("rx_discards_phy", BUFFER_FULL),
        arriving("rx_steer_missed_packets", NO_STEERING),
        arriving("rx_crc_errors_phy", DAMAGED),
        arriving("rx_symbol_err_phy", BAD),
        arriving("rx_in_range_len_errors_phy", BAD_LENGTH),
        arriving("rx_out_of_range_len_phy", BAD_LENGTH),
        arriving("rx_undersize_pkts_phy", TOO_SHORT),
        arriving("rx_oversize_pkts_phy", TOO_LONG),
        arriving("rx_oversize_pkts_buffer", TOO_LONG),
        arriving("rx_oversize_pkts_sw_drop", TOO_LONG),
        arriving("rx_wqe_err", BY_DRIVER),
        received("rx_xdp_drop", BY_XDP),
        received("rx_xsk_xdp_drop", BY_XDP),
        leaving("tx_discards_phy", DISCARDED),
        leaving("tx_errors_phy", NOT_SENT),
    ],
    pause_received: &["rx_pause_ctrl_phy"],
    pause_sent: &["tx_pause_ctrl_phy"],
    beside_received: &["rx_xdp_drop", "rx_xdp_redirect", "rx_xdp_tx_xmit", "rx_xsk_xdp_drop", "rx_xsk_xdp_redirect"],
};

/// `rx_packets` has the packets that the driver drops then; `drops` has those of an XDP program. From Linux 6.10 on queues are called
/// `rx0_drops`, and `rx_drops` is their sum. `tx_errors` counts times that a queue stood still, not packets. The device has no drop counter for `ethtool -S`: what the
/// host's side drops on the way is seen there.
const VIRTIO_NET: Driver = Driver {
    name: "virtio_net",
    source: "virtio_net.c (virtnet_receive, virtnet_stats)",
    rows: &[
        received("rx_queue_*_xdp_drops", BY_XDP),
        received("rx*_xdp_drops", BY_XDP),
        Row { contains: &["rx_queue_*_xdp_drops"], ..received("rx_queue_*_drops", BY_DRIVER) },
        Row { contains: &["rx*_xdp_drops"], ..received("rx*_drops", BY_DRIVER) },
        // Some, not all of them, are in the queues' drops.
        Row { contains: &["rx_queue_*_drops", "rx*_drops"], ..received("rx_length_errors", BAD_LENGTH) },
    ],
    pause_received: &[],
    pause_sent: &[],
    beside_received: &[],
};

/// `rx_dropped` and `tx_dropped` are the device's own, which it tells once a second; the kernel's fields alone have them. `*_exceeded`
/// counts packets that were delayed or dropped. Without rows: `queue_*_rx_page_alloc_fail`, `empty_rx_ring` (buffers), `bad_csum`
/// (delivered), `queue_*_tx_missed_tx` (completed late).
const ENA: Driver = Driver {
    name: "ena",
    source: "ethernet/amazon/ena/ena_ethtool.c, ena_netdev.c (ena_get_stats64)",
    rows: &[
        arriving("rx_dropped", NO_DESCRIPTOR),
        unsure(arriving("bw_in_allowance_exceeded", OVER_ALLOWANCE_IN)),
        unsure(arriving("pps_allowance_exceeded", OVER_ALLOWANCE_IN)),
        unsure(arriving("conntrack_allowance_exceeded", OVER_ALLOWANCE_IN)),
        received("queue_*_rx_xdp_drop", BY_XDP),
        received("queue_*_rx_xdp_aborted", BY_XDP),
        received("queue_*_rx_xdp_invalid", BY_XDP),
        leaving("tx_dropped", DISCARDED),
        leaving("queue_*_tx_dma_mapping_err", NOT_SENT),
        unsure(leaving("bw_out_allowance_exceeded", OVER_ALLOWANCE_OUT)),
    ],
    pause_received: &[],
    pause_sent: &[],
    beside_received: &[],
};

/// `rx_dropped` of the driver is the sum of its queues' `rx_dropped_pkt[*]`, of failed allocations and of bad descriptors. The card's own
/// counters are told every 20 s, where the private flag `report-stats` is on; whether `rx_queue_drop_cnt` has the others is not said, so it
/// is taken to have them.
const GVE: Driver = Driver {
    name: "gve",
    source: "ethernet/google/gve/gve_ethtool.c, gve_rx.c",
    rows: &[
        arriving("rx_dropped", BY_DRIVER),
        arriving("rx_no_buffers_posted[*]", NO_DESCRIPTOR),
        arriving("rx_drops_packet_over_mru[*]", TOO_LONG),
        arriving("rx_drops_invalid_checksum[*]", BAD),
        Row {
            contains: &["rx_no_buffers_posted[*]", "rx_drops_packet_over_mru[*]", "rx_drops_invalid_checksum[*]"],
            ..arriving("rx_queue_drop_cnt[*]", FIFO_FULL)
        },
    ],
    pause_received: &[],
    pause_sent: &[],
    beside_received: &[],
};

/// Totals are the device's counts of good packets. Names have blanks before them, and repeat for each queue. `drv dropped rx total` has its
/// causes `err` and `fcs`, so these have no rows; `drv dropped tx total` is the kernel's `tx_dropped`. XDP programs (from Linux 6.6 on) get
/// packets that the device has counted.
const VMXNET3: Driver = Driver {
    name: "vmxnet3",
    source: "vmxnet3/vmxnet3_ethtool.c (vmxnet3_get_stats64), vmxnet3_xdp.c",
    rows: &[
        arriving("pkts rx OOB", NO_BUFFER),
        arriving("pkts rx err", BAD),
        received("drv dropped rx total", BY_DRIVER),
        received("xdp drops", BY_XDP),
        received("xdp aborted", BY_XDP),
        refused("pkts tx err", NOT_SENT),
        refused("pkts tx discard", NOT_SENT),
    ],
    pause_received: &[],
    pause_sent: &[],
    beside_received: &[],
};
