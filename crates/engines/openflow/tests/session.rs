//! Sessions under virtual time: a switch's side against bytes of a controller.

use linerate_openflow::{
    CloseReason, Controllers, ErrorKind, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Header, Hello, Match, Message,
    NO_BUFFER, OfError, PortNumber, Reply, RequestBody, Session, SessionConfig, SwitchFeatures, decode, encode,
};

const SECOND_NS: u64 = 1_000_000_000;

/// A switch's session and the controller that talks to it.
struct Pair {
    controllers: Controllers,
    session: Session,
    now_ns: u64,
}

impl Pair {
    fn new() -> Pair {
        let mut controllers = Controllers::new();
        let id = controllers.join();
        Pair { session: Session::new(SessionConfig::default(), id, 0), controllers, now_ns: 0 }
    }

    /// A pair that has exchanged hellos.
    fn up() -> Pair {
        let mut pair = Pair::new();
        pair.send(1, &Message::Hello(Hello { versions: Some(1 << 4) }));
        assert_eq!(pair.request(), None);
        assert!(pair.session.is_up());
        assert!(matches!(pair.received()[..], [(_, Message::Hello(_))]));
        pair
    }

    fn send(&mut self, xid: u32, message: &Message) {
        let mut bytes = Vec::new();
        encode(&mut bytes, xid, message).expect("a message of less than 64 KiB");
        self.send_bytes(&bytes);
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        assert_eq!(self.session.receive(bytes, self.now_ns), bytes.len(), "the session has no room");
    }

    fn request(&mut self) -> Option<(u32, RequestBody)> {
        self.session.next_request(&mut self.controllers).map(|request| (request.xid, request.body))
    }

    /// Everything that the session has to say.
    fn received(&mut self) -> Vec<(u32, Message)> {
        let mut messages = Vec::new();
        loop {
            let output = self.session.output().to_vec();
            let Some(header) = Header::read(&output) else { return messages };
            let length = usize::from(header.length);
            messages.push(decode(&output[..length]).expect("a good message"));
            self.session.consume(length);
        }
    }

    fn received_error(&mut self) -> (u32, ErrorKind, Vec<u8>) {
        match &self.received()[..] {
            [(xid, Message::Error(error))] => (*xid, error.error().expect("a known error"), error.data.clone()),
            other => panic!("not one error: {other:?}"),
        }
    }
}

fn flow_mod() -> FlowMod {
    FlowMod {
        cookie: 1,
        cookie_mask: 0,
        table: 0,
        command: FlowCommand::Add,
        idle_timeout_s: 0,
        hard_timeout_s: 0,
        priority: 5,
        buffer_id: NO_BUFFER,
        out_port: PortNumber::ANY,
        out_group: GROUP_ANY,
        flags: FlowFlags::default(),
        matching: Match::default(),
        instructions: Vec::new(),
    }
}

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
