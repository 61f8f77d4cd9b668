//! Body of the fuzz target `openflow_session`: two controllers and an auxiliary connection say anything, read slowly or not at all, while time passes and
//! the switch has news. Also run by the tests of `linerate-openflow`.

use linerate_openflow::{
    Controllers, ErrorKind, FlowRemoved, FlowRemovedReason, FlowStats, Header, Match, MultipartReply, NO_BUFFER,
    OfError, PacketIn, PacketInReason, PortNumber, QueueConfigReply, Reply, Request, RequestBody, Session,
    SessionConfig, SwitchConfig, SwitchFeatures, decode,
};

/// Most bytes that may wait in a session: news up to their limits, and answers to one message behind them.
const OUTPUT_MAX: usize = 512 * 1024;

/// The sessions of a switch, and what each controller has not read to the end.
struct Switch {
    controllers: Controllers,
    sessions: Vec<(Session, Vec<u8>)>,
    now_ns: u64,
}

/// Does what the bytes say. Everything that a session says is a good message, and little waits in it.
pub fn run(data: &[u8]) {
    let mut controllers = Controllers::new();
    let config = SessionConfig { packet_in_limit_bytes: 65_536, event_limit_bytes: 131_072, ..Default::default() };
    let ids = [controllers.join(), controllers.join()];
    let auxiliary = SessionConfig { auxiliary_id: 1, ..config };
    let sessions = [(config, ids[0]), (config, ids[1]), (auxiliary, ids[0])];
    let sessions = sessions.map(|(config, id)| (Session::new(config, id, 0), Vec::new())).into_iter().collect();
    let mut switch = Switch { controllers, sessions, now_ns: 0 };
    let mut rest = data;
    while let [what, count, after @ ..] = rest {
        let (bytes, after) = after.split_at(usize::from(*count).min(after.len()));
        rest = after;
        switch.step(*what, bytes);
    }
    for number in 0..3 {
        switch.read(number, usize::MAX);
    }
}

impl Switch {
    fn step(&mut self, what: u8, bytes: &[u8]) {
        let number = usize::from(what) % 3;
        match what / 3 {
            0..60 => self.receive(number, bytes),
            60..65 => self.tick(bytes.first().map_or(1, |first| u64::from(*first) << 26)),
            65..75 => self.read(number, bytes.len() * 64),
            75..80 => self.packet_in(number, bytes),
            _ => self.flow_removed(number),
        }
        let (session, _) = &mut self.sessions[number];
        assert!(session.output().len() <= OUTPUT_MAX, "{} bytes wait", session.output().len());
    }

    fn receive(&mut self, number: usize, bytes: &[u8]) {
        let (session, _) = &mut self.sessions[number];
        let room = session.room();
        assert_eq!(session.receive(bytes, self.now_ns), bytes.len().min(room));
        while let Some(request) = session.next_request(&mut self.controllers) {
            answer(session, &request);
        }
    }

    fn tick(&mut self, passed_ns: u64) {
        self.now_ns += passed_ns;
        for (session, _) in &mut self.sessions {
            // An echo request, the end, nothing more.
            let due = |session: &Session| session.next_deadline_ns().is_some_and(|at_ns| at_ns <= self.now_ns);
            let ticks = (0..3).take_while(|_| due(session).then(|| session.tick(self.now_ns)).is_some()).count();
            assert!(ticks < 3, "a deadline never passes");
        }
    }

    /// The controller reads so many bytes, and checks the messages in them.
    fn read(&mut self, number: usize, count: usize) {
        let (session, unread) = &mut self.sessions[number];
        let mut left = count;
        loop {
            let output = session.output();
            let taken = output.len().min(left);
            if taken == 0 {
                break;
            }
            unread.extend_from_slice(&output[..taken]);
            session.consume(taken);
            left -= taken;
        }
        while let Some(header) = Header::read(unread) {
            let length = usize::from(header.length);
            assert!(header.version == 4 && length >= 8);
            if unread.len() < length {
                break;
            }
            assert!(decode(&unread[..length]).is_ok());
            unread.drain(..length);
        }
        while let Some(request) = session.next_request(&mut self.controllers) {
            answer(session, &request);
        }
    }

    fn packet_in(&mut self, number: usize, bytes: &[u8]) {
        let packet = PacketIn {
            buffer_id: NO_BUFFER,
            total_len: 1000,
            reason: PacketInReason::Action,
            table: 0,
            cookie: 0,
            matching: Match::default(),
            data: bytes.repeat(20),
        };
        let _ = self.sessions[number].0.packet_in(&self.controllers, &packet);
    }

    fn flow_removed(&mut self, number: usize) {
        let removed = FlowRemoved {
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
        };
        let _ = self.sessions[number].0.flow_removed(&self.controllers, &removed);
    }
}

/// A switch that has what was asked for, or refuses it.
fn answer(session: &mut Session, request: &Request) {
    match &request.body {
        RequestBody::Features => {
            let features = SwitchFeatures { datapath_id: 1, buffers: 0, tables: 255, auxiliary_id: 0, capabilities: 0 };
            session.reply(request, Reply::Features(features));
        }
        RequestBody::GetConfig => session.reply(request, Reply::Config(SwitchConfig::default())),
        RequestBody::Barrier => session.reply(request, Reply::Barrier),
        RequestBody::QueueGetConfig(port) => {
            session.reply(request, Reply::QueueConfig(QueueConfigReply { port: *port, queues: Vec::new() }));
        }
        RequestBody::FlowMod(change) if change.priority & 1 == 0 => {
            // The entry is in the next dump, whatever it holds.
            let flow = FlowStats {
                table: change.table,
                duration_ns: 0,
                priority: change.priority,
                idle_timeout_s: 0,
                hard_timeout_s: 0,
                flags: change.flags,
                cookie: change.cookie,
                packets: 0,
                bytes: 0,
                matching: change.matching.clone(),
                instructions: change.instructions.clone(),
            };
            session.reply(request, Reply::Multipart(MultipartReply::Flow(vec![flow; 3])));
        }
        RequestBody::Multipart(_) if request.xid & 1 == 0 => {
            session.reply_part(request, MultipartReply::PortDescription(Vec::new()));
            session.reply(request, Reply::Multipart(MultipartReply::PortDescription(Vec::new())));
        }
        RequestBody::PacketOut(packet) if packet.in_port == PortNumber::CONTROLLER => {}
        _ => session.refuse(request, OfError(ErrorKind::BadRequestEperm)),
    }
}
