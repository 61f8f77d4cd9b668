//! Arbitrary messages.

use linerate_openflow::{
    AggregateStats, AsyncConfig, BandStats, BucketStats, ControllerRole, ErrorMessage, FlowCommand, FlowMod,
    FlowRemoved, FlowRemovedReason, FlowStats, Fragments, GroupCommand, GroupDescription, GroupFeatures, GroupMod,
    GroupStats, Hello, Message, MeterCommand, MeterConfig, MeterFeatures, MeterFlags, MeterMod, MeterStats,
    MultipartReply, MultipartRequest, PacketIn, PacketInReason, PacketOut, Part, PortConfig, PortMod, PortNumber,
    PortStats, PortStatus, PortStatusReason, QueueConfig, QueueConfigReply, QueueStats, RoleMessage, SwitchConfig,
    SwitchDescription, SwitchFeatures, TableMod, TableStats,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::values::{
    actions, bands, buckets, duration_ns, experimenter, experimenter_property, filter, flags, group_kind, instructions,
    matching_with_experimenters, port, port_number, table_features, text,
};

pub fn message() -> impl Strategy<Value = Message> {
    prop_oneof![connection(), changes(), events(), request(), reply()]
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..100)
}

fn connection() -> impl Strategy<Value = Message> {
    let error = (any::<u16>(), any::<u16>(), bytes()).prop_map(|(kind, code, data)| ErrorMessage { kind, code, data });
    let features =
        any::<(u64, u32, u8, u8, u32)>().prop_map(|(datapath_id, buffers, tables, auxiliary_id, capabilities)| {
            SwitchFeatures { datapath_id, buffers, tables, auxiliary_id, capabilities }
        });
    let config = || {
        (select(vec![Fragments::Normal, Fragments::Drop, Fragments::Reassemble]), any::<u16>())
            .prop_map(|(fragments, miss_send_len)| SwitchConfig { fragments, miss_send_len })
    };
    let roles = vec![ControllerRole::NoChange, ControllerRole::Equal, ControllerRole::Master, ControllerRole::Slave];
    let role = move || {
        (select(roles.clone()), any::<u64>()).prop_map(|(role, generation_id)| RoleMessage { role, generation_id })
    };
    let wanted = || {
        any::<[[u32; 2]; 3]>().prop_map(|[packet_in, port_status, flow_removed]| AsyncConfig {
            packet_in,
            port_status,
            flow_removed,
        })
    };
    prop_oneof![
        option::of(any::<u32>()).prop_map(|versions| Message::Hello(Hello { versions })),
        error.prop_map(Message::Error),
        bytes().prop_map(Message::EchoRequest),
        bytes().prop_map(Message::EchoReply),
        experimenter().prop_map(Message::Experimenter),
        features.prop_map(Message::FeaturesReply),
        config().prop_map(Message::GetConfigReply),
        config().prop_map(Message::SetConfig),
        role().prop_map(Message::RoleRequest),
        role().prop_map(Message::RoleReply),
        wanted().prop_map(Message::GetAsyncReply),
        wanted().prop_map(Message::SetAsync),
        port_number().prop_map(Message::QueueGetConfigRequest),
        queues().prop_map(Message::QueueGetConfigReply),
        select(vec![
            Message::FeaturesRequest,
            Message::GetConfigRequest,
            Message::BarrierRequest,
            Message::BarrierReply,
            Message::GetAsyncRequest,
        ]),
    ]
}

fn queues() -> impl Strategy<Value = QueueConfigReply> {
    let rates = (option::of(any::<u16>()), option::of(any::<u16>()));
    let queue = (port_number(), any::<u32>(), rates, vec(experimenter_property(), 0..3)).prop_map(
        |(port, queue, (min_rate, max_rate), experimenters)| QueueConfig {
            port,
            queue,
            min_rate,
            max_rate,
            experimenters,
        },
    );
    (port_number(), vec(queue, 0..5)).prop_map(|(port, queues)| QueueConfigReply { port, queues })
}

fn changes() -> impl Strategy<Value = Message> {
    let packet_out = (any::<u32>(), port_number(), actions(), bytes())
        .prop_map(|(buffer_id, in_port, actions, data)| PacketOut { buffer_id, in_port, actions, data });
    let group_command = select(vec![GroupCommand::Add, GroupCommand::Modify, GroupCommand::Delete]);
    let group = (group_command, group_kind(), any::<u32>(), buckets())
        .prop_map(|(command, kind, group, buckets)| GroupMod { command, kind, group, buckets });
    let meter_command = select(vec![MeterCommand::Add, MeterCommand::Modify, MeterCommand::Delete]);
    let meter = (meter_command, any::<u16>(), any::<u32>(), bands())
        .prop_map(|(command, flags, meter, bands)| MeterMod { command, flags: MeterFlags(flags), meter, bands });
    let port = (port_number(), any::<[u8; 6]>(), any::<(u32, u32, u32)>()).prop_map(
        |(number, hw_addr, (config, mask, advertise))| PortMod {
            number,
            hw_addr,
            config: PortConfig(config),
            mask,
            advertise,
        },
    );
    prop_oneof![
        flow_mod().prop_map(Message::FlowMod),
        packet_out.prop_map(Message::PacketOut),
        group.prop_map(Message::GroupMod),
        meter.prop_map(Message::MeterMod),
        port.prop_map(Message::PortMod),
        any::<(u8, u32)>().prop_map(|(table, config)| Message::TableMod(TableMod { table, config })),
    ]
}

fn flow_mod() -> impl Strategy<Value = FlowMod> {
    let command = select(vec![
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ]);
    let numbers = any::<(u64, u64, u8, u16, u16, u16, u32, u32)>();
    (numbers, command, port_number(), flags(), matching_with_experimenters(), instructions()).prop_map(
        |(numbers, command, out_port, flags, matching, instructions)| {
            let (cookie, cookie_mask, table, idle_timeout_s, hard_timeout_s, priority, buffer_id, out_group) = numbers;
            FlowMod {
                cookie,
                cookie_mask,
                table,
                command,
                idle_timeout_s,
                hard_timeout_s,
                priority,
                buffer_id,
                out_port,
                out_group,
                flags,
                matching,
                instructions,
            }
        },
    )
}

fn events() -> impl Strategy<Value = Message> {
    let reason = select(vec![PacketInReason::NoMatch, PacketInReason::Action, PacketInReason::InvalidTtl]);
    let packet_in = (any::<(u32, u16, u8, u64)>(), reason, matching_with_experimenters(), bytes()).prop_map(
        |((buffer_id, total_len, table, cookie), reason, matching, data)| PacketIn {
            buffer_id,
            total_len,
            reason,
            table,
            cookie,
            matching,
            data,
        },
    );
    let reason = select(vec![PortStatusReason::Add, PortStatusReason::Delete, PortStatusReason::Modify]);
    let port_status = (reason, port()).prop_map(|(reason, port)| PortStatus { reason, port });
    prop_oneof![
        packet_in.prop_map(Message::PacketIn),
        flow_removed().prop_map(Message::FlowRemoved),
        port_status.prop_map(Message::PortStatus),
    ]
}

fn flow_removed() -> impl Strategy<Value = FlowRemoved> {
    let reason = select(vec![
        FlowRemovedReason::IdleTimeout,
        FlowRemovedReason::HardTimeout,
        FlowRemovedReason::Delete,
        FlowRemovedReason::GroupDelete,
    ]);
    (any::<(u64, u16, u8, u16, u16, u64, u64)>(), reason, duration_ns(), matching_with_experimenters()).prop_map(
        |((cookie, priority, table, idle_timeout_s, hard_timeout_s, packets, bytes), reason, duration_ns, matching)| {
            FlowRemoved {
                cookie,
                priority,
                reason,
                table,
                duration_ns,
                idle_timeout_s,
                hard_timeout_s,
                packets,
                bytes,
                matching,
            }
        },
    )
}

fn request() -> impl Strategy<Value = Message> {
    let body = prop_oneof![
        filter().prop_map(MultipartRequest::Flow),
        filter().prop_map(MultipartRequest::Aggregate),
        port_number().prop_map(MultipartRequest::Port),
        (port_number(), any::<u32>()).prop_map(|(port, queue)| MultipartRequest::Queue(port, queue)),
        any::<u32>().prop_map(MultipartRequest::Group),
        any::<u32>().prop_map(MultipartRequest::Meter),
        any::<u32>().prop_map(MultipartRequest::MeterConfig),
        vec(table_features(), 0..4).prop_map(MultipartRequest::TableFeatures),
        select(vec![
            MultipartRequest::Description,
            MultipartRequest::Table,
            MultipartRequest::GroupDescription,
            MultipartRequest::GroupFeatures,
            MultipartRequest::MeterFeatures,
            MultipartRequest::PortDescription,
        ]),
    ];
    let body = prop_oneof![9 => body.prop_map(Ok), 1 => experimenter().prop_map(Err)];
    (any::<bool>(), body).prop_map(|(more, body)| Message::MultipartRequest(Part { more, body }))
}

fn reply() -> impl Strategy<Value = Message> {
    let description = (text(256), text(256), text(256), text(32), text(256)).prop_map(
        |(manufacturer, hardware, software, serial, datapath)| SwitchDescription {
            manufacturer,
            hardware,
            software,
            serial,
            datapath,
        },
    );
    let aggregate =
        any::<(u64, u64, u32)>().prop_map(|(packets, bytes, flows)| AggregateStats { packets, bytes, flows });
    let table = any::<(u8, u32, u64, u64)>().prop_map(|(table, active, lookups, matches)| TableStats {
        table,
        active,
        lookups,
        matches,
    });
    let group_features =
        any::<(u32, u32, [u32; 4], [u32; 4])>().prop_map(|(kinds, capabilities, max_groups, actions)| GroupFeatures {
            kinds,
            capabilities,
            max_groups,
            actions,
        });
    let meter_features =
        any::<(u32, u32, u32, u8, u8)>().prop_map(|(max_meters, band_kinds, capabilities, max_bands, max_colors)| {
            MeterFeatures { max_meters, band_kinds, capabilities, max_bands, max_colors }
        });
    let body = prop_oneof![
        description.prop_map(MultipartReply::Description),
        vec(flow_stats(), 0..4).prop_map(MultipartReply::Flow),
        aggregate.prop_map(MultipartReply::Aggregate),
        vec(table, 0..4).prop_map(MultipartReply::Table),
        vec(port_stats(), 0..4).prop_map(MultipartReply::Port),
        vec(queue_stats(), 0..4).prop_map(MultipartReply::Queue),
        group_features.prop_map(MultipartReply::GroupFeatures),
        meter_features.prop_map(MultipartReply::MeterFeatures),
        vec(table_features(), 0..3).prop_map(MultipartReply::TableFeatures),
        vec(port(), 0..4).prop_map(MultipartReply::PortDescription),
        groups_and_meters(),
    ];
    let body = prop_oneof![9 => body.prop_map(Ok), 1 => experimenter().prop_map(Err)];
    (any::<bool>(), body).prop_map(|(more, body)| Message::MultipartReply(Part { more, body }))
}

fn groups_and_meters() -> impl Strategy<Value = MultipartReply> {
    let counts = || vec(any::<(u64, u64)>(), 0..5);
    let group = (any::<(u32, u32, u64, u64)>(), duration_ns(), counts()).prop_map(
        |((group, references, packets, bytes), duration_ns, buckets)| {
            let buckets = buckets.into_iter().map(|(packets, bytes)| BucketStats { packets, bytes }).collect();
            GroupStats { group, references, packets, bytes, duration_ns, buckets }
        },
    );
    let description = (group_kind(), any::<u32>(), buckets()).prop_map(|(kind, group, buckets)| GroupDescription {
        kind,
        group,
        buckets,
    });
    let meter = (any::<(u32, u32, u64, u64)>(), duration_ns(), counts()).prop_map(
        |((meter, flows, packets, bytes), duration_ns, bands)| {
            let bands = bands.into_iter().map(|(packets, bytes)| BandStats { packets, bytes }).collect();
            MeterStats { meter, flows, packets, bytes, duration_ns, bands }
        },
    );
    let config = (any::<u16>(), any::<u32>(), bands()).prop_map(|(flags, meter, bands)| MeterConfig {
        flags: MeterFlags(flags),
        meter,
        bands,
    });
    prop_oneof![
        vec(group, 0..4).prop_map(MultipartReply::Group),
        vec(description, 0..4).prop_map(MultipartReply::GroupDescription),
        vec(meter, 0..4).prop_map(MultipartReply::Meter),
        vec(config, 0..4).prop_map(MultipartReply::MeterConfig),
    ]
}

fn flow_stats() -> impl Strategy<Value = FlowStats> {
    (any::<(u8, u16, u16, u16, u64, u64, u64)>(), duration_ns(), flags(), matching_with_experimenters(), instructions())
        .prop_map(|(numbers, duration_ns, flags, matching, instructions)| {
            let (table, priority, idle_timeout_s, hard_timeout_s, cookie, packets, bytes) = numbers;
            FlowStats {
                table,
                duration_ns,
                priority,
                idle_timeout_s,
                hard_timeout_s,
                flags,
                cookie,
                packets,
                bytes,
                matching,
                instructions,
            }
        })
}

fn port_stats() -> impl Strategy<Value = PortStats> {
    (any::<u32>(), any::<[u64; 12]>(), duration_ns()).prop_map(|(port, counters, duration_ns)| {
        let [rx_packets, tx_packets, rx_bytes, tx_bytes, rx_dropped, tx_dropped, rx_errors, tx_errors, ..] = counters;
        let [.., rx_frame_errors, rx_over_errors, rx_crc_errors, collisions] = counters;
        PortStats {
            port: PortNumber(port),
            rx_packets,
            tx_packets,
            rx_bytes,
            tx_bytes,
            rx_dropped,
            tx_dropped,
            rx_errors,
            tx_errors,
            rx_frame_errors,
            rx_over_errors,
            rx_crc_errors,
            collisions,
            duration_ns,
        }
    })
}

fn queue_stats() -> impl Strategy<Value = QueueStats> {
    (any::<(u32, u32, u64, u64, u64)>(), duration_ns()).prop_map(
        |((port, queue, tx_bytes, tx_packets, tx_errors), duration_ns)| QueueStats {
            port: PortNumber(port),
            queue,
            tx_bytes,
            tx_packets,
            tx_errors,
            duration_ns,
        },
    )
}
