//! What the switch says to a request.

use linerate_openflow::{MultipartRequest, OfError, QueueConfigReply, Reply, RequestBody};
use linerate_pipeline::{FlowDump, Switch};

/// What follows from a request.
pub(crate) enum Outcome {
    /// It was carried out, and has no answer.
    Done,
    /// An answer.
    Reply(Reply),
    /// A list of flows, made as the controller reads it.
    Dump(FlowDump),
    /// A refusal.
    Refuse(OfError),
    /// An answer follows when all workers see the changes so far.
    Barrier,
}

/// Carries a request out.
pub(crate) fn answer(switch: &mut Switch, request: RequestBody, now_ns: u64) -> Outcome {
    let done = |result: Result<(), OfError>| result.map_or_else(Outcome::Refuse, |()| Outcome::Done);
    let said = |result: Result<Reply, OfError>| result.map_or_else(Outcome::Refuse, Outcome::Reply);
    match request {
        RequestBody::Features => Outcome::Reply(Reply::Features(switch.features())),
        RequestBody::GetConfig => Outcome::Reply(Reply::Config(switch.config())),
        RequestBody::SetConfig(config) => done(switch.set_config(config)),
        RequestBody::PacketOut(packet) => done(switch.packet_out(packet, now_ns)),
        RequestBody::FlowMod(change) => done(switch.flow_mod(change, now_ns)),
        RequestBody::GroupMod(change) => done(switch.group_mod(change, now_ns)),
        RequestBody::PortMod(change) => done(switch.port_mod(change, now_ns)),
        RequestBody::TableMod(change) => done(switch.table_mod(change.table, change.config)),
        RequestBody::MeterMod(change) => done(switch.meter_mod(change, now_ns)),
        RequestBody::Multipart(MultipartRequest::Flow(filter)) => {
            switch.flow_dump(filter).map_or_else(Outcome::Refuse, Outcome::Dump)
        }
        RequestBody::Multipart(request) => said(switch.multipart(request, now_ns).map(Reply::Multipart)),
        RequestBody::Barrier => Outcome::Barrier,
        RequestBody::QueueGetConfig(port) => {
            said(switch.queue_config(port).map(|queues| Reply::QueueConfig(QueueConfigReply { port, queues })))
        }
    }
}
