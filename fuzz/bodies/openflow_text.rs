//! Body of the fuzz target `openflow_text`: any text as a flow, a group, a meter, a packet. Also run by the tests of `linerate-openflow-text`.

use linerate_openflow::{FlowCommand, GroupCommand, MeterCommand};
use linerate_openflow_text::{flow_text, group_text, meter_text, parse_flow, parse_group, parse_meter, parse_packet};

/// Reads the bytes in every way. What could be read is printed, and reads the same; what could not says why.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for command in [FlowCommand::Add, FlowCommand::Modify, FlowCommand::Delete] {
        match parse_flow(text, command) {
            Ok(flow) => assert_eq!(parse_flow(&flow_text(&flow), command), Ok(flow)),
            Err(error) => assert!(!error.problem.is_empty()),
        }
    }
    if let Ok(group) = parse_group(text, GroupCommand::Add) {
        let printed = group_text(group.kind, group.group, &group.buckets);
        assert_eq!(parse_group(&printed, GroupCommand::Add), Ok(group));
    }
    if let Ok(meter) = parse_meter(text, MeterCommand::Add) {
        let printed = meter_text(meter.meter, meter.flags, &meter.bands);
        assert_eq!(parse_meter(&printed, MeterCommand::Add), Ok(meter));
    }
    if let Ok(packet) = parse_packet(text) {
        assert!(packet.bytes.len() >= 60);
    }
}
