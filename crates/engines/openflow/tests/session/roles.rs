//! Several controllers: roles, asynchronous messages, auxiliary connections.

use linerate_openflow::{
    AsyncConfig, ControllerRole, Delivery, ErrorKind, FlowRemoved, FlowRemovedReason, Hello, Match, Message,
    MultipartRequest, NO_BUFFER, PacketIn, PacketInReason, Part, Reply, RequestBody, RoleMessage, Session,
    SessionConfig, SwitchConfig, SwitchFeatures, encode,
};

use super::common::{Pair, flow_mod};

fn role(role: ControllerRole, generation_id: u64) -> RoleMessage {
    RoleMessage { role, generation_id }
}

fn packet_in(reason: PacketInReason) -> PacketIn {
    let (matching, data) = (Match::default(), vec![1, 2, 3]);
    PacketIn { buffer_id: NO_BUFFER, total_len: 3, reason, table: 0, cookie: 0, matching, data }
}

fn flow_removed() -> FlowRemoved {
    FlowRemoved {
        cookie: 0,
        priority: 0,
        reason: FlowRemovedReason::Delete,
        table: 0,
        duration_ns: 0,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        packets: 0,
        bytes: 0,
        matching: Match::default(),
    }
}

/// Two controllers of one switch: one session's `Controllers` serves both.
fn two() -> (Pair, Session) {
    let mut pair = Pair::up();
    let id = pair.controllers.join();
    let mut other = Session::new(SessionConfig::default(), id, 0);
    let mut hello = Vec::new();
    encode(&mut hello, 1, &Message::Hello(Hello { versions: None })).expect("short");
    other.receive(&hello, 0);
    assert!(other.next_request(&mut pair.controllers).is_none());
    (pair, other)
}

#[test]
fn a_slave_reads_only() {
    let mut pair = Pair::up();
    pair.send(1, &Message::RoleRequest(role(ControllerRole::Slave, 3)));
    assert_eq!(pair.request(), None);
    assert_eq!(pair.received(), [(1, Message::RoleReply(role(ControllerRole::Slave, 3)))]);
    for change in [Message::FlowMod(flow_mod()), Message::SetConfig(SwitchConfig::default())] {
        pair.send(2, &change);
        assert_eq!(pair.request(), None);
        assert_eq!(pair.received_error().1, ErrorKind::BadRequestIsSlave);
    }
    pair.send(3, &Message::GetConfigRequest);
    assert_eq!(pair.request(), Some((3, RequestBody::GetConfig)));
}

#[test]
fn a_new_master_makes_slaves_of_others() {
    let (mut pair, other) = two();
    pair.send(1, &Message::RoleRequest(role(ControllerRole::Master, 1)));
    assert_eq!(pair.request(), None);
    assert_eq!(pair.controllers.role(other.controller()), ControllerRole::Equal);
    pair.send(2, &Message::RoleRequest(role(ControllerRole::Master, 0)));
    assert_eq!(pair.request(), None);
    let received = pair.received();
    assert!(
        matches!(&received[1], (2, Message::Error(error)) if error.error() == Some(ErrorKind::RoleRequestFailedStale))
    );
    assert_eq!(pair.controllers.role(pair.session.controller()), ControllerRole::Master);
}

#[test]
fn packets_and_events_go_to_those_who_want_them() {
    let (mut pair, mut other) = two();
    pair.send(1, &Message::RoleRequest(role(ControllerRole::Slave, 0)));
    assert_eq!(pair.request(), None);
    let action = packet_in(PacketInReason::Action);
    assert_eq!(pair.session.packet_in(&pair.controllers, &action), Delivery::Filtered);
    assert_eq!(other.packet_in(&pair.controllers, &action), Delivery::Queued);
    assert_eq!(other.packet_in(&pair.controllers, &packet_in(PacketInReason::InvalidTtl)), Delivery::Filtered);
    assert_eq!(other.flow_removed(&pair.controllers, &flow_removed()), Delivery::Queued);
    let wanted = AsyncConfig { packet_in: [0, 0b100], port_status: [0; 2], flow_removed: [0, 1] };
    pair.send(2, &Message::SetAsync(wanted));
    pair.send(3, &Message::GetAsyncRequest);
    assert_eq!(pair.request(), None);
    assert_eq!(pair.received().pop(), Some((3, Message::GetAsyncReply(wanted))));
    let invalid_ttl = packet_in(PacketInReason::InvalidTtl);
    assert_eq!(pair.session.packet_in(&pair.controllers, &invalid_ttl), Delivery::Queued);
    assert_eq!(pair.session.flow_removed(&pair.controllers, &flow_removed()), Delivery::Filtered);
    assert_eq!(pair.received(), [(0, Message::PacketIn(invalid_ttl))]);
}

/// Section 6.3.7: only messages that stand for themselves, and a hello that was lost is not waited for.
#[test]
fn unreliable_connections_take_packets_and_no_changes() {
    let mut pair = Pair::up();
    let config = SessionConfig { auxiliary_id: 1, is_unreliable: true, ..SessionConfig::default() };
    let controllers = std::mem::take(&mut pair.controllers);
    let mut udp = Pair { session: Session::new(config, pair.session.controller(), 0), controllers, now_ns: 0 };
    udp.send(1, &Message::FeaturesRequest);
    assert!(matches!(udp.take().body, RequestBody::Features));
    assert!(udp.session.is_up());
    let first = udp.received().remove(0);
    assert!(matches!(first, (_, Message::Hello(_))), "{first:?}");
    udp.send(2, &Message::Hello(Hello { versions: Some(1 << 4) }));
    udp.send(3, &Message::EchoRequest(vec![1]));
    let mut refused = vec![Message::BarrierRequest, Message::RoleRequest(role(ControllerRole::Master, 1))];
    refused.push(Message::MultipartRequest(Part { more: false, body: Ok(MultipartRequest::PortDescription) }));
    for (xid, message) in (4..).zip(&refused) {
        udp.send(xid, message);
    }
    assert_eq!(udp.request(), None);
    let mut received = udp.received().into_iter();
    assert_eq!(received.next(), Some((3, Message::EchoReply(vec![1]))));
    let errors: Vec<_> = received
        .map(|(xid, message)| match message {
            Message::Error(error) => (xid, error.error()),
            other => panic!("{other:?}"),
        })
        .collect();
    let bad_type = Some(ErrorKind::BadRequestBadType);
    assert_eq!(errors, [(4, bad_type), (5, bad_type), (6, bad_type)]);
    assert_eq!(udp.session.packet_in(&udp.controllers, &packet_in(PacketInReason::Action)), Delivery::Queued);
}

#[test]
fn auxiliary_connections_share_the_role_and_get_packets_only() {
    let mut pair = Pair::up();
    let config = SessionConfig { auxiliary_id: 2, ..SessionConfig::default() };
    let controllers = std::mem::take(&mut pair.controllers);
    let mut auxiliary = Pair { session: Session::new(config, pair.session.controller(), 0), controllers, now_ns: 0 };
    auxiliary.send(1, &Message::Hello(Hello { versions: Some(1 << 4) }));
    auxiliary.send(2, &Message::FeaturesRequest);
    let request = auxiliary.take();
    let features = SwitchFeatures { datapath_id: 7, buffers: 0, tables: 1, auxiliary_id: 0, capabilities: 0 };
    auxiliary.session.reply(&request, Reply::Features(features));
    let last = auxiliary.received().pop();
    assert_eq!(last, Some((2, Message::FeaturesReply(SwitchFeatures { auxiliary_id: 2, ..features }))));
    assert_eq!(auxiliary.session.flow_removed(&auxiliary.controllers, &flow_removed()), Delivery::Filtered);
    let packet = packet_in(PacketInReason::Action);
    assert_eq!(auxiliary.session.packet_in(&auxiliary.controllers, &packet), Delivery::Queued);
    auxiliary.send(3, &Message::RoleRequest(role(ControllerRole::Slave, 0)));
    assert_eq!(auxiliary.request(), None);
    assert_eq!(auxiliary.controllers.role(pair.session.controller()), ControllerRole::Slave);
}
