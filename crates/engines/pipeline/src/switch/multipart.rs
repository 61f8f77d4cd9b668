//! Answers to requests for statistics and descriptions (section 7.3.5).

use linerate_openflow::{
    AggregateStats, BandStats, BucketStats, ErrorKind, FlowFilter, FlowStats, GROUP_ALL, GroupDescription,
    GroupFeatures, GroupKind, GroupStats, METER_ALL, MeterConfig, MeterFeatures, MeterStats, MultipartReply,
    MultipartRequest, OfError, PortNumber, PortStats, QueueStats, TABLE_ALL, TABLE_MAX, TableStats,
};

use super::Switch;
use super::flow_mod::passes;
use super::group_mod::{GROUPS_MAX, Group};
use super::meter_mod::{BANDS_MAX, METERS_MAX, Meter};
use super::ports::SwitchPort;
use crate::shared::TABLES;
use crate::tally::Tally;

/// A counter that the switch does not keep.
const UNKNOWN: u64 = u64::MAX;
/// Any queue of a port.
const QUEUE_ALL: u32 = 0xffff_ffff;
/// `OFPGFC_*`: weights, liveness, chaining, checks for loops.
const GROUP_CAPABILITIES: u32 = 0xf;
/// All actions of groups: a bit for each number.
const GROUP_ACTIONS: u32 = 1 | 3 << 11 | 0x1fff << 15;

/// A list of entries that is being made in parts, so that it needs little memory.
#[derive(Debug)]
pub struct FlowDump {
    indices: std::vec::IntoIter<u32>,
    filter: FlowFilter,
}

impl FlowDump {
    /// True if all entries were listed.
    pub fn is_done(&self) -> bool {
        self.indices.as_slice().is_empty()
    }
}

impl Switch {
    /// Answers a request for statistics, or changes the features of tables.
    ///
    /// # Errors
    /// What the specification says of the request.
    pub fn multipart(&mut self, request: MultipartRequest, now_ns: u64) -> Result<MultipartReply, OfError> {
        self.now_ns = self.now_ns.max(now_ns);
        Ok(match request {
            MultipartRequest::Description => MultipartReply::Description(self.options.description.clone()),
            MultipartRequest::Flow(filter) => MultipartReply::Flow(self.flow_stats(filter, now_ns)?),
            MultipartRequest::Aggregate(filter) => MultipartReply::Aggregate(self.aggregate(&filter)?),
            MultipartRequest::Table => MultipartReply::Table(self.table_stats()),
            MultipartRequest::Port(port) => MultipartReply::Port(self.port_stats(port)?),
            MultipartRequest::Queue(port, queue) => MultipartReply::Queue(self.queue_stats(port, queue)?),
            MultipartRequest::Group(group) => MultipartReply::Group(self.group_stats(group)),
            MultipartRequest::GroupDescription => MultipartReply::GroupDescription(self.group_descriptions()),
            MultipartRequest::GroupFeatures => MultipartReply::GroupFeatures(group_features()),
            MultipartRequest::Meter(meter) => MultipartReply::Meter(self.meter_stats(meter)?),
            MultipartRequest::MeterConfig(meter) => MultipartReply::MeterConfig(self.meter_configs(meter)?),
            MultipartRequest::MeterFeatures => MultipartReply::MeterFeatures(meter_features()),
            MultipartRequest::TableFeatures(wanted) => {
                if !wanted.is_empty() {
                    self.set_table_features(wanted)?;
                }
                MultipartReply::TableFeatures(self.table_features())
            }
            MultipartRequest::PortDescription => MultipartReply::PortDescription(self.ports()),
        })
    }

    fn flow_stats(&mut self, filter: FlowFilter, now_ns: u64) -> Result<Vec<FlowStats>, OfError> {
        let mut dump = self.flow_dump(filter)?;
        Ok(self.flow_part(&mut dump, usize::MAX, now_ns))
    }

    /// Begins to list the entries that pass a filter; [`Switch::flow_part`] lists them.
    ///
    /// # Errors
    /// There is no such table.
    pub fn flow_dump(&self, filter: FlowFilter) -> Result<FlowDump, OfError> {
        check_table(filter.table)?;
        Ok(FlowDump { indices: self.filtered(&filter).into_iter(), filter })
    }

    /// The next entries of a list, at most `count`. Entries that have gone since it began are left out.
    pub fn flow_part(&mut self, dump: &mut FlowDump, count: usize, now_ns: u64) -> Vec<FlowStats> {
        self.now_ns = self.now_ns.max(now_ns);
        let (indices, filter) = (&mut dump.indices, &dump.filter);
        let passes = |index: &u32| self.entries.get(*index).is_some_and(|entry| passes(entry, filter));
        indices.take(count).filter(passes).filter_map(|index| self.flow_stats_of(index)).collect()
    }

    pub(super) fn flow_stats_of(&self, index: u32) -> Option<FlowStats> {
        let entry = self.entries.get(index)?;
        let counts = self.counts_of(index, entry);
        Some(FlowStats {
            table: entry.table,
            duration_ns: self.now_ns.saturating_sub(entry.created_ns),
            priority: entry.priority,
            idle_timeout_s: entry.idle_timeout_s,
            hard_timeout_s: entry.hard_timeout_s,
            flags: entry.flags,
            cookie: entry.cookie,
            packets: counts.packets,
            bytes: counts.bytes,
            matching: entry.matching.unpack(),
            instructions: entry.instructions.given.unpack(),
        })
    }

    fn aggregate(&self, filter: &FlowFilter) -> Result<AggregateStats, OfError> {
        check_table(filter.table)?;
        let mut sum = AggregateStats::default();
        for index in self.filtered(filter) {
            let Some(entry) = self.entries.get(index) else { continue };
            let counts = self.counts_of(index, entry);
            sum.packets += counts.packets;
            sum.bytes += counts.bytes;
            sum.flows += 1;
        }
        Ok(sum)
    }

    fn table_stats(&self) -> Vec<TableStats> {
        let of = |table: usize| {
            let active = self.entries.of_table(table as u8).len() as u32;
            let mut stats = TableStats { table: table as u8, active, lookups: 0, matches: 0 };
            for tallies in self.shared.table_tallies.iter() {
                stats.lookups = stats.lookups.wrapping_add(tallies.0[table].lookups.read());
                stats.matches = stats.matches.wrapping_add(tallies.0[table].matches.read());
            }
            stats
        };
        (0..TABLES).map(of).collect()
    }

    fn port_stats(&self, wanted: PortNumber) -> Result<Vec<PortStats>, OfError> {
        if wanted != PortNumber::ANY && !self.ports.contains_key(&wanted.0) {
            return Err(ErrorKind::BadRequestBadPort.into());
        }
        let ports = self.ports.values().filter(|port| wanted == PortNumber::ANY || port.settings.number == wanted);
        Ok(ports.map(|port| self.stats_of_port(port)).collect())
    }

    fn stats_of_port(&self, port: &SwitchPort) -> PortStats {
        let sum = |of: fn(&crate::tally::PortTally) -> &Tally| port.shared.tally.sum(of);
        PortStats {
            port: port.settings.number,
            rx_packets: sum(|tally| &tally.received.packets),
            tx_packets: sum(|tally| &tally.sent.packets),
            rx_bytes: sum(|tally| &tally.received.bytes),
            tx_bytes: sum(|tally| &tally.sent.bytes),
            rx_dropped: sum(|tally| &tally.rx_dropped),
            tx_dropped: sum(|tally| &tally.tx_dropped),
            rx_errors: 0,
            tx_errors: 0,
            rx_frame_errors: UNKNOWN,
            rx_over_errors: UNKNOWN,
            rx_crc_errors: UNKNOWN,
            collisions: UNKNOWN,
            duration_ns: self.now_ns.saturating_sub(port.created_ns),
        }
    }

    fn queue_stats(&self, wanted: PortNumber, queue: u32) -> Result<Vec<QueueStats>, OfError> {
        if wanted != PortNumber::ANY && !self.ports.contains_key(&wanted.0) {
            return Err(ErrorKind::QueueOpFailedBadPort.into());
        }
        let mut stats = Vec::new();
        for port in self.ports.values().filter(|port| wanted == PortNumber::ANY || port.settings.number == wanted) {
            for (settings, tally) in port.settings.queues.iter().zip(&port.shared.queues) {
                if queue == QUEUE_ALL || queue == settings.id {
                    stats.push(QueueStats {
                        port: port.settings.number,
                        queue: settings.id,
                        tx_bytes: tally.sum(|tally| &tally.sent.bytes),
                        tx_packets: tally.sum(|tally| &tally.sent.packets),
                        tx_errors: tally.sum(|tally| &tally.dropped),
                        duration_ns: self.now_ns.saturating_sub(port.created_ns),
                    });
                }
            }
        }
        if stats.is_empty() && queue != QUEUE_ALL {
            return Err(ErrorKind::QueueOpFailedBadQueue.into());
        }
        Ok(stats)
    }

    fn group_stats(&self, wanted: u32) -> Vec<GroupStats> {
        let groups = self.groups.iter().filter(|(id, _)| wanted == GROUP_ALL || **id == wanted);
        let of_bucket = |bucket: &crate::group_view::BucketView| BucketStats {
            packets: bucket.tally.sum(|pair| &pair.packets),
            bytes: bucket.tally.sum(|pair| &pair.bytes),
        };
        let of_group = |(id, group): (&u32, &Group)| GroupStats {
            group: *id,
            references: group.references,
            packets: group.base.0 + group.view.tally.sum(|pair| &pair.packets),
            bytes: group.base.1 + group.view.tally.sum(|pair| &pair.bytes),
            duration_ns: self.now_ns.saturating_sub(group.created_ns),
            buckets: group.view.buckets.iter().map(of_bucket).collect(),
        };
        groups.map(of_group).collect()
    }

    fn group_descriptions(&self) -> Vec<GroupDescription> {
        let groups = self.groups.iter();
        let describe = |(id, group): (&u32, &Group)| GroupDescription {
            kind: group.kind,
            group: *id,
            buckets: group.buckets.clone(),
        };
        groups.map(describe).collect()
    }

    fn meters_of(&self, wanted: u32) -> Result<Vec<(u32, &Meter)>, OfError> {
        if wanted != METER_ALL && !self.meters.contains_key(&wanted) {
            return Err(ErrorKind::MeterModFailedUnknownMeter.into());
        }
        let meters = self.meters.iter().filter(|(id, _)| wanted == METER_ALL || **id == wanted);
        Ok(meters.map(|(id, meter)| (*id, meter)).collect())
    }

    fn meter_stats(&self, wanted: u32) -> Result<Vec<MeterStats>, OfError> {
        let of_meter = |(id, meter): (u32, &Meter)| MeterStats {
            meter: id,
            flows: meter.flows,
            packets: meter.view.tally.sum(|pair| &pair.packets),
            bytes: meter.view.tally.sum(|pair| &pair.bytes),
            duration_ns: self.now_ns.saturating_sub(meter.created_ns),
            bands: meter
                .view
                .bands
                .iter()
                .map(|band| BandStats {
                    packets: band.tally.sum(|pair| &pair.packets),
                    bytes: band.tally.sum(|pair| &pair.bytes),
                })
                .collect(),
        };
        Ok(self.meters_of(wanted)?.into_iter().map(of_meter).collect())
    }

    fn meter_configs(&self, wanted: u32) -> Result<Vec<MeterConfig>, OfError> {
        let config =
            |(id, meter): (u32, &Meter)| MeterConfig { flags: meter.flags, meter: id, bands: meter.bands.clone() };
        Ok(self.meters_of(wanted)?.into_iter().map(config).collect())
    }
}

fn check_table(table: u8) -> Result<(), OfError> {
    if table > TABLE_MAX && table != TABLE_ALL { Err(ErrorKind::BadRequestBadTableId.into()) } else { Ok(()) }
}

fn group_features() -> GroupFeatures {
    let kinds = [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];
    GroupFeatures {
        kinds: kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u32),
        capabilities: GROUP_CAPABILITIES,
        max_groups: [GROUPS_MAX; 4],
        actions: [GROUP_ACTIONS; 4],
    }
}

fn meter_features() -> MeterFeatures {
    MeterFeatures {
        max_meters: METERS_MAX,
        // OFPMBT_DROP and OFPMBT_DSCP_REMARK.
        band_kinds: 1 << 1 | 1 << 2,
        capabilities: u32::from(linerate_openflow::MeterFlags::ALL),
        max_bands: BANDS_MAX as u8,
        max_colors: 0,
    }
}
