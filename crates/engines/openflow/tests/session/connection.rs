//! Hellos, echoes, errors, barriers.

use linerate_openflow::{
    CloseReason, ErrorKind, FlowMod, Hello, Message, OfError, Reply, RequestBody, SwitchFeatures, encode,
};

use super::common::{Pair, SECOND_NS, flow_mod};

#[test]
fn both_say_hello_and_the_switch_answers() {
    let mut pair = Pair::up();
    pair.send(7, &Message::FeaturesRequest);
    let request = pair.session.next_request(&mut pair.controllers).expect("a request");
    assert_eq!((request.xid, &request.body), (7, &RequestBody::Features));
    let features = SwitchFeatures { datapath_id: 1, buffers: 256, tables: 254, auxiliary_id: 9, capabilities: 0x4f };
    pair.session.reply(&request, Reply::Features(features));
    let wanted = SwitchFeatures { auxiliary_id: 0, ..features };
    assert_eq!(pair.received(), [(7, Message::FeaturesReply(wanted))]);
}

#[test]
fn other_versions_are_refused() {
    for (version, bitmap, good) in
        [(1, None, false), (4, None, true), (5, None, true), (6, Some(0b1010000), true), (6, Some(0b1100000), false)]
    {
        let mut pair = Pair::new();
        let mut bytes = Vec::new();
        encode(&mut bytes, 3, &Message::Hello(Hello { versions: bitmap })).expect("short");
        bytes[0] = version;
        pair.send_bytes(&bytes);
        assert_eq!(pair.request(), None);
        assert_eq!(pair.session.is_up(), good, "version {version}, bitmap {bitmap:?}");
        if !good {
            assert_eq!(pair.session.closed(), Some(CloseReason::Version));
            let last = pair.received().pop().expect("an error");
            assert!(
                matches!(last, (3, Message::Error(error)) if error.error() == Some(ErrorKind::HelloFailedIncompatible))
            );
        }
    }
}

#[test]
fn nothing_passes_a_barrier() {
    let mut pair = Pair::up();
    pair.send(1, &Message::FlowMod(flow_mod()));
    pair.send(2, &Message::BarrierRequest);
    pair.send(3, &Message::FlowMod(flow_mod()));
    assert!(matches!(pair.request(), Some((1, RequestBody::FlowMod(_)))));
    let barrier = pair.session.next_request(&mut pair.controllers).expect("the barrier");
    assert_eq!(pair.request(), None);
    assert_eq!(pair.received(), []);
    pair.session.reply(&barrier, Reply::Barrier);
    assert_eq!(pair.received(), [(2, Message::BarrierReply)]);
    assert!(matches!(pair.request(), Some((3, RequestBody::FlowMod(_)))));
}

#[test]
fn refusals_repeat_the_first_bytes() {
    let mut pair = Pair::up();
    pair.send(9, &Message::FlowMod(FlowMod { table: 255, ..flow_mod() }));
    assert_eq!(pair.request(), None);
    let (xid, error, data) = pair.received_error();
    assert_eq!((xid, error, data.len()), (9, ErrorKind::FlowModFailedBadTableId, 56));
    pair.send(10, &Message::FlowMod(flow_mod()));
    let request = pair.session.next_request(&mut pair.controllers).expect("a request");
    pair.session.refuse(&request, OfError(ErrorKind::FlowModFailedTableFull));
    let (xid, error, data) = pair.received_error();
    assert_eq!((xid, error, &data[..2]), (10, ErrorKind::FlowModFailedTableFull, &[4, 14][..]));
}

#[test]
fn a_silent_controller_is_asked_and_given_up() {
    let mut pair = Pair::up();
    assert_eq!(pair.session.next_deadline_ns(), Some(5 * SECOND_NS));
    pair.session.tick(5 * SECOND_NS);
    let [(xid, Message::EchoRequest(_))] = pair.received()[..] else { panic!("no echo request") };
    pair.now_ns = 6 * SECOND_NS;
    pair.send(xid, &Message::EchoReply(Vec::new()));
    assert_eq!((pair.request(), pair.session.next_deadline_ns()), (None, Some(11 * SECOND_NS)));
    pair.session.tick(11 * SECOND_NS);
    pair.session.tick(16 * SECOND_NS);
    assert_eq!(pair.session.closed(), Some(CloseReason::Silent));
}
