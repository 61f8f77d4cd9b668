//! Answers to requests for statistics and descriptions (section 7.3.5).

use linerate_openflow::{
    ErrorKind, FlowFilter, FlowStats, GROUP_ALL, GroupDescription, GroupFeatures, GroupKind, GroupStats, METER_ALL,
    MeterConfig, MeterFeatures, MeterStats, MultipartReply, MultipartRequest, OfError, PortNumber, PortStats,
    QueueStats,
};

use super::Switch;
use super::group_mod::{GROUPS_MAX, Group};
use super::meter_mod::{BANDS_MAX, METERS_MAX, Meter};
use super::ports::SwitchPort;

/// Any queue of a port.
const QUEUE_ALL: u32 = 0xffff_ffff;
/// `OFPGFC_*`: weights, liveness, chaining, checks for loops.
const GROUP_CAPABILITIES: u32 = 0xf;
/// All actions of groups: a bit for each number.
const GROUP_ACTIONS: u32 = 1 | 3 << 11 | 0x1fff << 15;

impl Switch {
    /// Answers a request for statistics, or changes the features of tables.
    ///
    /// # Errors
    /// What the specification says of the request.
    pub fn multipart(&mut self, request: MultipartRequest, now_ns: u64) -> Result<MultipartReply, OfError> {
        self.tables.note_time(now_ns);
        Ok(match request {
            MultipartRequest::Description => MultipartReply::Description(self.options.description.clone()),
            MultipartRequest::Flow(filter) => MultipartReply::Flow(self.flow_stats(filter)?),
            MultipartRequest::Aggregate(filter) => MultipartReply::Aggregate(self.tables.aggregate(&filter)?),
            MultipartRequest::Table => MultipartReply::Table(self.tables.table_stats()),
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

    fn flow_stats(&self, filter: FlowFilter) -> Result<Vec<FlowStats>, OfError> {
        let mut dump = self.tables.flow_dump(filter)?;
        Ok(self.tables.flow_part(&mut dump, usize::MAX))
    }

    fn port_stats(&self, wanted: PortNumber) -> Result<Vec<PortStats>, OfError> {
        if wanted != PortNumber::ANY && !self.ports.contains_key(&wanted.0) {
            return Err(ErrorKind::BadRequestBadPort.into());
        }
        let ports = self.ports.values().filter(|port| wanted == PortNumber::ANY || port.settings.number == wanted);
        Ok(ports.map(|port| self.stats_of_port(port)).collect())
    }

    fn stats_of_port(&self, port: &SwitchPort) -> PortStats {
        port.shared.stats(port.settings.number, self.tables.time_ns().saturating_sub(port.created_ns))
    }

    fn queue_stats(&self, wanted: PortNumber, queue: u32) -> Result<Vec<QueueStats>, OfError> {
        if wanted != PortNumber::ANY && !self.ports.contains_key(&wanted.0) {
            return Err(ErrorKind::QueueOpFailedBadPort.into());
        }
        let mut stats = Vec::new();
        for port in self.ports.values().filter(|port| wanted == PortNumber::ANY || port.settings.number == wanted) {
            let duration_ns = self.tables.time_ns().saturating_sub(port.created_ns);
            for (place, settings) in port.settings.queues.iter().enumerate() {
                if queue == QUEUE_ALL || queue == settings.id {
                    stats.push(port.shared.queue_stats(place, port.settings.number, settings.id, duration_ns));
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
        let of_group = |(id, group): (&u32, &Group)| {
            let (packets, bytes) = group.view.counts();
            GroupStats {
                group: *id,
                references: group.view.references(),
                packets: group.base.0 + packets,
                bytes: group.base.1 + bytes,
                duration_ns: self.tables.time_ns().saturating_sub(group.created_ns),
                buckets: group.view.bucket_stats(),
            }
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
        let of_meter = |(id, meter): (u32, &Meter)| {
            let (packets, bytes) = meter.view.counts();
            MeterStats {
                meter: id,
                flows: meter.view.flows(),
                packets,
                bytes,
                duration_ns: self.tables.time_ns().saturating_sub(meter.created_ns),
                bands: meter.view.band_stats(),
            }
        };
        Ok(self.meters_of(wanted)?.into_iter().map(of_meter).collect())
    }

    fn meter_configs(&self, wanted: u32) -> Result<Vec<MeterConfig>, OfError> {
        let config =
            |(id, meter): (u32, &Meter)| MeterConfig { flags: meter.flags, meter: id, bands: meter.bands.clone() };
        Ok(self.meters_of(wanted)?.into_iter().map(config).collect())
    }
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
