//! The bodies of the fuzz targets `openflow_message` and `openflow_session`, on mutations that are the same on every run.

use super::mutate;
#[path = "../../../../fuzz/bodies/openflow_message.rs"]
mod openflow_message;
#[path = "../../../../fuzz/bodies/openflow_session.rs"]
mod openflow_session;

use linerate_openflow::{
    Action, AsyncConfig, ControllerRole, ExperimenterField, ExperimenterPart, FlowCommand, FlowMod, GroupCommand,
    Hello, Instruction, Message, MeterCommand, MultipartReply, MultipartRequest, NO_BUFFER, PacketIn, PacketInReason,
    PacketOut, Part, PortConfig, PortDescription, PortMod, PortNumber, PortState, RoleMessage, SwitchConfig,
    TableFeatures, TableProperties, encode,
};
use linerate_openflow_text::{parse_flow, parse_group, parse_meter};

/// Messages that have every kind of part.
fn samples() -> Vec<Message> {
    let flow = |text| parse_flow(text, FlowCommand::Add).expect("a flow");
    let add = flow(
        "priority=4,tcp,in_port=1,dl_vlan=5,nw_dst=192.0.2.0/24,tp_dst=80,actions=meter:1,push_vlan:0x8100,set_field:4102->vlan_vid,dec_ttl,\
         output:2,write_actions(group:4,output:3),write_metadata:7/0xff,goto_table:9",
    );
    let delete = parse_flow("table=1,icmp6,icmp_type=135,nd_target=2001:db8::1", FlowCommand::Delete).expect("a flow");
    let group = "group_id=3,type=select,bucket=weight:2,output:1,bucket=weight:3,dec_ttl,output:2";
    let group = parse_group(group, GroupCommand::Add).expect("a group");
    let meter = parse_meter("meter=1,kbps,burst,stats,band=type=drop,rate=100,burst_size=5", MeterCommand::Add);
    let properties = TableProperties {
        instructions: [Some(vec![1, 4]), None],
        next_tables: [Some(vec![2, 3]), Some(Vec::new())],
        matches: Some(vec![0x8000_0004]),
        ..TableProperties::default()
    };
    let features = TableFeatures {
        table: 1,
        name: "first".to_string(),
        metadata_match: 1,
        metadata_write: 2,
        config: 0,
        max_entries: 10,
        properties,
    };
    let port = PortDescription {
        number: PortNumber(1),
        hw_addr: [2, 0, 0, 0, 0, 1],
        name: "one".to_string(),
        config: PortConfig(0),
        state: PortState(0),
        current: 0,
        advertised: 0,
        supported: 0,
        peer: 0,
        current_kbps: 1,
        max_kbps: 1,
    };
    let request = |body, more| Message::MultipartRequest(Part { more, body: Ok(body) });
    let wanted = AsyncConfig::default();
    let packet_in = PacketIn {
        buffer_id: NO_BUFFER,
        total_len: 3,
        reason: PacketInReason::Action,
        table: 0,
        cookie: 1,
        matching: add.matching.clone(),
        data: vec![1, 2, 3],
    };
    let packet_out = PacketOut {
        buffer_id: NO_BUFFER,
        in_port: PortNumber::CONTROLLER,
        actions: group.buckets[1].actions.clone(),
        data: vec![1, 2, 3],
    };
    let port_mod =
        PortMod { number: PortNumber(1), hw_addr: [2, 0, 0, 0, 0, 1], config: PortConfig(1), mask: 1, advertise: 0 };
    let master = RoleMessage { role: ControllerRole::Master, generation_id: 5 };
    vec![
        Message::Hello(Hello { versions: Some(1 << 4) }),
        Message::FeaturesRequest,
        Message::SetConfig(SwitchConfig::default()),
        Message::EchoRequest(vec![1, 2, 3, 4]),
        Message::RoleRequest(master),
        Message::SetAsync(wanted),
        Message::GroupMod(group),
        Message::MeterMod(meter.expect("a meter")),
        Message::FlowMod(add),
        Message::FlowMod(delete),
        Message::PacketOut(packet_out),
        Message::PortMod(port_mod),
        request(MultipartRequest::TableFeatures(vec![features.clone()]), true),
        request(MultipartRequest::TableFeatures(vec![features]), false),
        request(MultipartRequest::Queue(PortNumber::ANY, 5), false),
        Message::MultipartReply(Part { more: true, body: Ok(MultipartReply::PortDescription(vec![port])) }),
        Message::PacketIn(packet_in),
        Message::BarrierRequest,
        Message::FlowMod(of_experimenters(flow("priority=1,in_port=1,actions=output:2"))),
    ]
}

/// The entry, with every part that an experimenter may add.
fn of_experimenters(mut add: FlowMod) -> FlowMod {
    let part = Box::new(ExperimenterPart { experimenter: 0x2320, data: [0, 0x2a, 0, 0, 0, 0, 0, 0].into() });
    let field = ExperimenterField { class: 1, number: 0, masked: true, data: [0, 0, 0, 5, 0, 0, 0, 7].into() };
    add.matching.experimenter_fields = vec![(0, field.clone()), (1, field.clone())];
    add.instructions.push(Instruction::WriteActions(vec![
        Action::SetExperimenterField(Box::new(field)),
        Action::Experimenter(part.clone()),
    ]));
    add.instructions.push(Instruction::Experimenter(part));
    add
}

fn bytes(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, 4, message).expect("a short message");
    bytes
}

/// Steps of `openflow_session` by which each of two controllers says all of it, in pieces.
fn conversation(piece: usize) -> Vec<u8> {
    let stream: Vec<u8> = samples().iter().flat_map(bytes).collect();
    let mut steps = Vec::new();
    for part in stream.chunks(piece) {
        for controller in [0, 1] {
            steps.extend([controller, part.len() as u8]);
            steps.extend(part);
        }
        steps.extend([230, 2, 7, 7]);
    }
    steps.extend([180, 1, 80, 195, 3, 0, 0, 0, 250, 0]);
    steps
}

#[test]
fn no_message_breaks_the_codec() {
    let seeds: Vec<Vec<u8>> = samples().iter().map(bytes).collect();
    mutate::check_seeds("openflow_message", &seeds);
    mutate::each(&seeds, 30_000, openflow_message::run);
}

#[test]
fn no_controller_breaks_a_session() {
    let seeds = vec![conversation(200), conversation(31)];
    mutate::check_seeds("openflow_session", &seeds);
    mutate::each(&seeds, 3_000, openflow_session::run);
}

/// Statistics of a queue whose duration has more nanoseconds than a second.
#[test]
fn a_duration_is_the_same_again() {
    let mut bytes = vec![4, 19, 0, 56, 0, 0, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0];
    bytes.resize(56, 0xff);
    openflow_message::run(&bytes);
    assert!(linerate_openflow::decode(&bytes).is_ok());
}
