//! Controllers of our own at a switch: requests, packets both ways, ports, roles, auxiliary connections, reconnects, fail modes.

use super::common;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};

use common::{
    Controller, LONG, Station, ask, config, marked, packet_out, show, snapshot, start_heard, start_in, stop, wait_until,
};
use linerate_control::Command;
use linerate_ofswitch::Running;
use linerate_ofswitch::request::What;
use linerate_openflow::{
    ControllerRole, ErrorKind, Message, MultipartReply, MultipartRequest, NO_BUFFER, PacketInReason, Part, PortNumber,
    PortStatusReason, RoleMessage,
};

fn role(role: ControllerRole, generation_id: u64) -> Message {
    Message::RoleRequest(RoleMessage { role, generation_id })
}

fn multipart(request: MultipartRequest) -> Message {
    Message::MultipartRequest(Part { more: false, body: Ok(request) })
}

fn error_of(message: &Message) -> Option<ErrorKind> {
    if let Message::Error(error) = message { error.error() } else { None }
}

fn connected(running: &Running) -> usize {
    show(running, What::Controller).as_array().unwrap().iter().filter(|one| one["connected"] == true).count()
}

#[test]
fn entries_of_a_controller_are_in_force_after_the_barrier() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("barrier", 2));
    let (mut a, mut b) = (Station::join(&running, "barrier", 1), Station::join(&running, "barrier", 2));
    let mut controller = Controller::connect(&running);
    let Message::FeaturesReply(features) = controller.ask(&Message::FeaturesRequest) else { panic!("no features") };
    assert_eq!((features.datapath_id, features.tables, features.auxiliary_id), (0xabc, 255, 0));
    for round in 0..50u8 {
        controller.add_flow(&format!("in_port=1,actions={}", if round % 2 == 0 { "output:2" } else { "drop" }));
        a.send_all(round, 3);
        if round % 2 == 0 {
            assert_eq!(b.expect(3), [round; 3]);
        }
        let sent = 3 * (u64::from(round) + 1);
        wait_until("all are counted", || snapshot(&running).totals.received == sent);
    }
    assert_eq!(snapshot(&running).totals.sent, 75);
    let reply = controller.ask(&multipart(MultipartRequest::PortDescription));
    let Message::MultipartReply(Part { body: Ok(MultipartReply::PortDescription(ports)), .. }) = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(ports.iter().map(|port| port.number.0).collect::<Vec<_>>(), [1, 2]);
    let refused = controller.ask(&Message::QueueGetConfigRequest(PortNumber(9)));
    assert_eq!(error_of(&refused), Some(ErrorKind::QueueOpFailedBadPort));
    drop((a, b));
    stop(running);
}

#[test]
fn packets_go_to_the_controller_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("packets", 2));
    let (mut a, mut b) = (Station::join(&running, "packets", 1), Station::join(&running, "packets", 2));
    let mut controller = Controller::connect(&running);
    controller.add_flow("cookie=0x9,priority=0,actions=controller:65535");
    for mark in 1..=20 {
        a.send_all(mark, 1);
        let packet = controller.packet_in();
        assert_eq!((packet.buffer_id, &packet.data[..]), (NO_BUFFER, &marked(mark)[..]));
        assert_eq!((packet.reason, packet.cookie, packet.matching.fields[0].value), (PacketInReason::NoMatch, 9, 1));
        controller.packet_out(mark + 100, "output:2");
        assert_eq!(b.expect(1), [mark + 100]);
    }
    controller.packet_out(1, "group:99");
    let refused = controller.expect(|_, message| matches!(message, Message::Error(_)));
    assert_eq!(error_of(&refused), Some(ErrorKind::BadActionBadOutGroup));
    let totals = snapshot(&running).totals;
    assert_eq!((totals.received, totals.packet_outs, totals.to_controller, totals.sent), (20, 20, 20, 20));
    drop((a, b));
    stop(running);
}

#[test]
fn controllers_hear_of_ports() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("status", 1));
    let mut controller = Controller::connect(&running);
    let mut status = |reason| {
        let message = controller.expect(|_, message| matches!(message, Message::PortStatus(_)));
        let Message::PortStatus(status) = message else { panic!("{message:?}") };
        assert_eq!(status.reason, reason);
        status.port
    };
    let add = Command::AddPort { name: Some("5".into()), spec: "pipe:status-5".into(), settings: Default::default() };
    ask(&running, &add).unwrap();
    assert_eq!(status(PortStatusReason::Add).number, PortNumber(5));
    ask(&running, &Command::RemovePort { port: "5".into() }).unwrap();
    assert_eq!(status(PortStatusReason::Delete).number, PortNumber(5));
    stop(running);
}

#[test]
fn one_controller_is_master_and_slaves_only_read() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("roles", 1));
    let (mut first, mut second) = (Controller::connect(&running), Controller::connect(&running));
    first.ask(&role(ControllerRole::Master, 1));
    second.ask(&role(ControllerRole::Master, 2));
    let flow = linerate_openflow_text::parse_flow("actions=drop", linerate_openflow::FlowCommand::Add).unwrap();
    let refused = first.ask(&Message::FlowMod(flow.clone()));
    assert_eq!(error_of(&refused), Some(ErrorKind::BadRequestIsSlave));
    assert_eq!(error_of(&second.ask(&role(ControllerRole::Slave, 1))), Some(ErrorKind::RoleRequestFailedStale));
    second.send(&Message::FlowMod(flow));
    second.barrier();
    let controllers = show(&running, What::Controller);
    let roles: Vec<&str> = controllers.as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["slave", "master"], "{controllers}");
    drop((first, second));
    wait_until("they are gone", || connected(&running) == 0);
    stop(running);
}

#[test]
fn the_switch_connects_again_and_brings_auxiliary_connections() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config("again", 1);
    config.controllers.push(format!("tcp:{},aux=1", listener.local_addr().unwrap()));
    let running = start_in(folder.path(), &config);
    let mut station = Station::join(&running, "again", 1);
    for round in 0..2 {
        let mut main = Controller::accept(&listener);
        let mut auxiliary = Controller::accept(&listener);
        for (controller, id) in [(&mut main, 0), (&mut auxiliary, 1)] {
            let Message::FeaturesReply(features) = controller.ask(&Message::FeaturesRequest) else { panic!() };
            assert_eq!((features.datapath_id, features.auxiliary_id), (0xabc, id), "round {round}");
        }
        main.add_flow("actions=controller:65535");
        wait_until("both are up", || connected(&running) == 2);
        station.send_all(7, 1);
        assert_eq!(auxiliary.packet_in().data, marked(7), "packets go by the auxiliary connection");
        drop(main);
        assert!(auxiliary.next().is_none(), "it ends with the main connection");
    }
    drop(station);
    stop(running);
}

/// The controller's end of a connection by UDP: what is written is a datagram.
struct Datagrams(UdpSocket);

impl Read for Datagrams {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.0.recv(bytes)
    }
}

impl Write for Datagrams {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.send(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn auxiliary_connections_by_udp_carry_packets_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let both = || {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        TcpListener::bind(udp.local_addr().unwrap()).ok().map(|listener| (udp, listener))
    };
    let (udp, listener) = std::iter::repeat_with(both).flatten().next().unwrap();
    let mut config = config("udp", 2);
    config.controllers.push(format!("tcp:{},udp-aux=1", listener.local_addr().unwrap()));
    let running = start_in(folder.path(), &config);
    let (mut station, mut other) = (Station::join(&running, "udp", 1), Station::join(&running, "udp", 2));
    let mut main = Controller::accept(&listener);
    main.add_flow("actions=controller:65535");
    let (_, switch) = udp.peek_from(&mut [0; 16]).unwrap();
    udp.connect(switch).unwrap();
    udp.set_read_timeout(Some(LONG)).unwrap();
    let mut auxiliary = Controller::of(Box::new(Datagrams(udp)));
    let Message::FeaturesReply(features) = auxiliary.ask(&Message::FeaturesRequest) else { panic!() };
    assert_eq!((features.datapath_id, features.auxiliary_id), (0xabc, 1));
    assert_eq!(error_of(&auxiliary.ask(&Message::GetConfigRequest)), Some(ErrorKind::BadRequestBadType));
    wait_until("both are up", || connected(&running) == 2);
    station.send_all(7, 1);
    assert_eq!(auxiliary.packet_in().data, marked(7), "packets go by the auxiliary connection");
    auxiliary.send(&packet_out(8, "output:2"));
    other.expect(1);
    drop(main);
    wait_until("it ends with the main connection", || connected(&running) == 0);
    drop((station, other));
    stop(running);
}

/// Each change once, however often it is tried.
#[test]
fn it_is_said_which_controller_came_and_went() {
    let folder = tempfile::tempdir().unwrap();
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
    let mut config = config("said", 1);
    config.controllers.push(format!("tcp:{address}"));
    let (running, heard) = start_heard(folder.path(), &config);
    let of_controller = || {
        let start = format!("controller tcp:{address}: ");
        let heard = heard.lock().unwrap();
        heard.iter().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect::<Vec<_>>()
    };
    wait_until("it is refused", || of_controller().len() == 1);
    for round in 0..2 {
        // Long enough for one more attempt.
        std::thread::sleep(std::time::Duration::from_millis(300));
        let listener = TcpListener::bind(address).unwrap();
        let mut controller = Controller::accept(&listener);
        controller.barrier();
        wait_until("it is connected", || of_controller().len() == 2 + 3 * round);
        drop((controller, listener));
        wait_until("it is gone, and then refused", || of_controller().len() == 4 + 3 * round);
    }
    stop(running);
    let said = of_controller();
    let kinds: Vec<(bool, bool)> =
        said.iter().map(|line| (line == "connected", line.ends_with("; tried again"))).collect();
    let (up, down) = ((true, false), (false, true));
    assert_eq!(kinds, [down, up, down, down, up, down, down], "{said:?}");
    assert!(said[0].contains("refused") && said[0] == said[3], "{said:?}");
}

/// Without a controller a standalone switch learns; with one, its entries alone count.
#[test]
fn a_standalone_switch_forwards_until_a_controller_comes() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut config = config("alone", 2);
    config.fail_mode = Some("standalone".into());
    config.controllers.push(format!("tcp:{address}"));
    let running = start_in(folder.path(), &config);
    let (mut a, mut b) = (Station::join(&running, "alone", 1), Station::join(&running, "alone", 2));
    a.send_all(1, 5);
    b.expect(5);
    // Who comes to the switch is no controller of the configuration.
    let mut passer_by = Controller::connect(&running);
    passer_by.barrier();
    a.send_all(2, 5);
    b.expect(5);
    let listener = TcpListener::bind(address).unwrap();
    let mut controller = Controller::accept(&listener);
    controller.barrier();
    wait_until("the tables count", || show(&running, What::BridgeDomains)["standalone"] == false);
    passer_by.barrier();
    a.send_all(3, 5);
    wait_until("they are dropped", || snapshot(&running).totals.dropped == 5);
    drop(controller);
    wait_until("it is alone again", || show(&running, What::BridgeDomains)["standalone"] == true);
    passer_by.barrier();
    a.send_all(4, 5);
    assert_eq!(b.expect(5), [4; 5]);
    drop((a, b));
    stop(running);
}

#[test]
fn packet_ins_are_limited_for_each_controller() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config("limit", 1);
    config.packet_in_rate = Some(1);
    let running = start_in(folder.path(), &config);
    let mut station = Station::join(&running, "limit", 1);
    let mut controllers = [Controller::connect(&running), Controller::connect(&running)];
    controllers[0].add_flow("actions=controller");
    station.send_all(1, 200);
    wait_until("all are counted", || snapshot(&running).totals.to_controller == 200);
    for controller in &mut controllers {
        controller.packet_in();
    }
    let mut counts = (0, 0);
    wait_until("each packet was sent or dropped", || {
        let documents = snapshot(&running).controllers;
        counts.0 = documents.iter().map(|one| one.packet_ins).sum::<u64>();
        counts.1 = documents.iter().map(|one| one.packet_ins_dropped).sum::<u64>();
        counts.0 + counts.1 == 2 * snapshot(&running).totals.to_controller - unsent(&running)
    });
    assert!(counts.0 >= 2 && counts.1 > 100, "{counts:?}");
    drop(station);
    stop(running);
}

/// Packets for controllers that the control thread could not take in time.
fn unsent(running: &Running) -> u64 {
    2 * snapshot(running).totals.drops.get("controller-full").copied().unwrap_or(0)
}

#[test]
fn what_ended_is_told_before_the_barrier() {
    let folder = tempfile::tempdir().unwrap();
    let running = start_in(folder.path(), &config("removed", 2));
    let (mut a, mut b) = (Station::join(&running, "removed", 1), Station::join(&running, "removed", 2));
    let mut controller = Controller::connect(&running);
    for round in 0..20 {
        controller.add_flow("cookie=0x1,send_flow_rem,in_port=1,actions=output:2");
        a.send_all(round, 10);
        b.expect(10);
        let delete = linerate_openflow_text::parse_flow("", linerate_openflow::FlowCommand::Delete).unwrap();
        controller.send(&Message::FlowMod(delete));
        let barrier = controller.send(&Message::BarrierRequest);
        let first = controller.expect(|xid, message| xid == barrier || matches!(message, Message::FlowRemoved(_)));
        let Message::FlowRemoved(removed) = first else { panic!("the barrier came first") };
        assert_eq!((removed.cookie, removed.packets), (1, 10), "round {round}");
        controller.expect(|xid, _| xid == barrier);
    }
    drop((a, b));
    stop(running);
}
