//! Parts of experimenters in requests: the codec keeps them, and the session refuses the request with the specification's error, also where it
//! only deletes something.

use linerate_openflow::{
    Action, Band, BandKind, Bucket, ErrorKind, Experimenter, ExperimenterField, ExperimenterPart, Field, FlowCommand,
    FlowFilter, FlowMod, GROUP_ANY, GroupCommand, GroupKind, GroupMod, Instruction, Match, Message, MeterCommand,
    MeterFlags, MeterMod, MultipartRequest, NO_BUFFER, PacketOut, Part, PortNumber, TABLE_ALL, TableFeatures,
    TableProperties,
};

use super::common::{Pair, flow_mod};

fn part() -> Box<ExperimenterPart> {
    Box::new(ExperimenterPart { experimenter: 0x2320, data: [0, 0x2a, 0, 0, 0, 0, 0, 0].into() })
}

/// A register of Open vSwitch.
fn register() -> ExperimenterField {
    ExperimenterField { class: 1, number: 0, masked: false, data: [0, 0, 0, 5].into() }
}

fn matching() -> Match {
    let mut matching = Match::default().with(Field::InPort, 1);
    matching.experimenter_fields.push((1, register()));
    matching
}

/// The error that answers the message, which must come alone.
fn refused(message: &Message) -> ErrorKind {
    let mut pair = Pair::up();
    pair.send(7, message);
    assert_eq!(pair.request(), None, "{message:?}");
    pair.received_error().1
}

#[test]
fn flow_mods_are_refused() {
    let with = |instruction| FlowMod { instructions: vec![instruction], ..flow_mod() };
    let applied = |action| with(Instruction::ApplyActions(vec![Action::PopVlan, action]));
    let set_register = || Action::SetExperimenterField(Box::new(register()));
    let cases = [
        (FlowMod { matching: matching(), ..flow_mod() }, ErrorKind::BadMatchBadField),
        (with(Instruction::Experimenter(part())), ErrorKind::BadInstructionBadExperimenter),
        (applied(Action::Experimenter(part())), ErrorKind::BadActionBadExperimenter),
        (applied(set_register()), ErrorKind::BadActionBadSetType),
        (with(Instruction::WriteActions(vec![set_register()])), ErrorKind::BadActionBadSetType),
        (with(Instruction::WriteActions(vec![Action::Experimenter(part())])), ErrorKind::BadActionBadExperimenter),
    ];
    for (change, wanted) in cases {
        for command in [FlowCommand::Add, FlowCommand::ModifyStrict, FlowCommand::Delete] {
            let change = FlowMod { command, ..change.clone() };
            assert_eq!(refused(&Message::FlowMod(change)), wanted, "{command:?}");
        }
    }
}

#[test]
fn instructions_that_occur_twice_are_refused() {
    let twice = vec![Instruction::GotoTable(1), Instruction::GotoTable(2)];
    let change = FlowMod { instructions: twice, ..flow_mod() };
    assert_eq!(refused(&Message::FlowMod(change)), ErrorKind::BadInstructionDupInst);
}

#[test]
fn a_vlan_without_its_bit_is_refused() {
    let change = FlowMod { matching: Match::default().with(Field::VlanVid, 5), ..flow_mod() };
    assert_eq!(refused(&Message::FlowMod(change)), ErrorKind::BadMatchBadValue);
}

#[test]
fn groups_meters_and_packets_are_refused() {
    let actions = vec![Action::Experimenter(part())];
    for command in [GroupCommand::Add, GroupCommand::Delete] {
        let (watch_port, watch_group) = (PortNumber::ANY, GROUP_ANY);
        let buckets = vec![Bucket { weight: 0, watch_port, watch_group, actions: actions.clone() }];
        let change = GroupMod { command, kind: GroupKind::All, group: 1, buckets };
        assert_eq!(refused(&Message::GroupMod(change)), ErrorKind::BadActionBadExperimenter);
    }
    for command in [MeterCommand::Add, MeterCommand::Delete] {
        let bands = vec![Band { kind: BandKind::Experimenter(part()), rate: 1, burst_size: 0 }];
        let change = MeterMod { command, flags: MeterFlags(MeterFlags::KBPS), meter: 1, bands };
        assert_eq!(refused(&Message::MeterMod(change)), ErrorKind::MeterModFailedBadBand);
    }
    let packet = PacketOut { buffer_id: NO_BUFFER, in_port: PortNumber::CONTROLLER, actions, data: vec![0; 60] };
    assert_eq!(refused(&Message::PacketOut(packet)), ErrorKind::BadActionBadExperimenter);
}

#[test]
fn multipart_requests_are_refused() {
    let (out_port, out_group) = (PortNumber::ANY, GROUP_ANY);
    let filter = FlowFilter { table: TABLE_ALL, out_port, out_group, cookie: 0, cookie_mask: 0, matching: matching() };
    let experimenter = Experimenter { experimenter: 1, kind: 2, data: vec![3] };
    let features = |experimenters| TableFeatures {
        table: 0,
        name: "table0".to_string(),
        metadata_match: 0,
        metadata_write: 0,
        config: 0,
        max_entries: 1,
        properties: TableProperties { experimenters, ..TableProperties::default() },
    };
    let cases = [
        (MultipartRequest::Flow(filter.clone()), ErrorKind::BadMatchBadField),
        (MultipartRequest::Aggregate(filter), ErrorKind::BadMatchBadField),
        (
            MultipartRequest::TableFeatures(vec![features([vec![experimenter.clone()], Vec::new()])]),
            ErrorKind::TableFeaturesFailedBadType,
        ),
        (
            MultipartRequest::TableFeatures(vec![features([Vec::new(), vec![experimenter]])]),
            ErrorKind::TableFeaturesFailedBadType,
        ),
    ];
    for (request, wanted) in cases {
        assert_eq!(refused(&Message::MultipartRequest(Part { more: false, body: Ok(request) })), wanted);
    }
}
