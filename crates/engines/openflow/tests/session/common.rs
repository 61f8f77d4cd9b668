//! A switch's session and a controller, without a connection between them.

use linerate_openflow::{
    Controllers, ErrorKind, FlowCommand, FlowFlags, FlowMod, GROUP_ANY, Header, Hello, Match, Message, NO_BUFFER,
    PortNumber, Request, RequestBody, Session, SessionConfig, decode, encode,
};

pub const SECOND_NS: u64 = 1_000_000_000;

/// A switch's session and the controller that talks to it.
pub struct Pair {
    pub controllers: Controllers,
    pub session: Session,
    pub now_ns: u64,
}

impl Pair {
    pub fn new() -> Pair {
        let mut controllers = Controllers::new();
        let id = controllers.join();
        Pair { session: Session::new(SessionConfig::default(), id, 0), controllers, now_ns: 0 }
    }

    /// A pair that has exchanged hellos.
    pub fn up() -> Pair {
        let mut pair = Pair::new();
        pair.send(1, &Message::Hello(Hello { versions: Some(1 << 4) }));
        assert_eq!(pair.request(), None);
        assert!(pair.session.is_up());
        assert!(matches!(pair.received()[..], [(_, Message::Hello(_))]));
        pair
    }

    pub fn send(&mut self, xid: u32, message: &Message) {
        let mut bytes = Vec::new();
        encode(&mut bytes, xid, message).expect("a message of less than 64 KiB");
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        assert_eq!(self.session.receive(bytes, self.now_ns), bytes.len(), "the session has no room");
    }

    /// The next request for the switch, which must be there.
    pub fn take(&mut self) -> Request {
        self.session.next_request(&mut self.controllers).expect("a request")
    }

    pub fn request(&mut self) -> Option<(u32, RequestBody)> {
        self.session.next_request(&mut self.controllers).map(|request| (request.xid, request.body))
    }

    /// Everything that the session has to say.
    pub fn received(&mut self) -> Vec<(u32, Message)> {
        let mut messages = Vec::new();
        loop {
            let output = self.session.output().to_vec();
            let Some(header) = Header::read(&output) else { return messages };
            let length = usize::from(header.length);
            messages.push(decode(&output[..length]).expect("a good message"));
            self.session.consume(length);
        }
    }

    pub fn received_error(&mut self) -> (u32, ErrorKind, Vec<u8>) {
        match &self.received()[..] {
            [(xid, Message::Error(error))] => (*xid, error.error().expect("a known error"), error.data.clone()),
            other => panic!("not one error: {other:?}"),
        }
    }
}

/// An entry for all packets.
pub fn flow_mod() -> FlowMod {
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
