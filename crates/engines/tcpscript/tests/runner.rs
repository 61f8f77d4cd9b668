//! The runner, on a subject that is a list: what leaves when, and what the program is told. Each way in which a scenario can fail is shown.

use linerate_tcpscript::{Call, EndReason, Endpoints, Event, Script, Subject, run};
use linerate_wire::{Layer, MacAddress, Stack, ethernet, ipv4, tcp};

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// Sends what it was told to, at the times that it was told, once something arrived.
#[derive(Default)]
struct List {
    now_ns: u64,
    frames: Vec<(u64, Vec<u8>)>,
    events: Vec<Event>,
    delivered: Vec<Vec<u8>>,
    leak: bool,
}

impl Subject for List {
    fn time_ns(&self) -> u64 {
        self.now_ns
    }

    fn next_frame(&mut self, until_ns: u64) -> Option<Vec<u8>> {
        let due = !self.delivered.is_empty() && self.frames.first().is_some_and(|(at_ns, _)| *at_ns <= until_ns);
        if !due {
            self.now_ns = self.now_ns.max(until_ns);
            return None;
        }
        let (at_ns, frame) = self.frames.remove(0);
        self.now_ns = self.now_ns.max(at_ns);
        Some(frame)
    }

    fn deliver(&mut self, frames: &[Vec<u8>]) {
        self.delivered.extend_from_slice(frames);
    }

    fn call(&mut self, _: &Endpoints, call: &Call) -> Result<(), String> {
        if *call == Call::Abort { Err("there is no connection".into()) } else { Ok(()) }
    }

    fn event(&mut self, _: &Endpoints) -> Option<Event> {
        if self.events.is_empty() { None } else { Some(self.events.remove(0)) }
    }

    fn value(&mut self, _: &Endpoints, name: &str) -> Result<String, String> {
        match name {
            "cwnd" => Ok("14600".into()),
            "rto" => Ok("200000000".into()),
            "state" => Ok("established".into()),
            _ => Err(format!("no value {name}")),
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        if self.leak { Err("a frame is missing".into()) } else { Ok(()) }
    }
}

/// A segment from the stack's port 80 to the first flow's peer.
fn segment(sequence: u32, acknowledgment: u32, flags: tcp::Flags, options: &[u8], data: usize) -> Vec<u8> {
    let options = linerate_wire::Options::new(linerate_wire::LayerKind::Tcp, options).unwrap();
    let header = tcp::Header {
        src_port: 80,
        dst_port: 40_000,
        sequence,
        acknowledgment,
        flags,
        window: 1000,
        options,
        ..Default::default()
    };
    let stack = Stack::new()
        .with(ethernet::Header { dst: MacAddress([2, 0, 0, 0, 0, 2]), src: MAC, ..Default::default() })
        .with(ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 2].into(), ttl: 64, ..Default::default() })
        .with(Layer::Tcp(header));
    stack.build(54 + options.len() + data).unwrap().bytes
}

fn syn_ack() -> Vec<u8> {
    segment(500, 1_000_001, tcp::Flags::SYN | tcp::Flags::ACK, &[2, 4, 0x05, 0xb4], 0)
}

fn play(text: &str, mut list: List) -> Result<(), String> {
    let script = Script::parse(&format!("scenario a\n{text}")).unwrap();
    run(&script.scenarios[0], &mut list, MAC).map_err(|failure| failure.to_string())
}

#[track_caller]
fn assert_fails(text: &str, list: List, words: &str) {
    let failure = play(text, list).unwrap_err();
    assert!(failure.contains(words), "wanted {words:?} in: {failure}");
}

fn answering() -> List {
    List { frames: vec![(0, syn_ack())], ..List::default() }
}

#[test]
fn a_scenario_that_holds_passes() {
    let list = List {
        frames: vec![(0, syn_ack()), (40_000_000, segment(501, 1_000_011, tcp::Flags::ACK, &[], 0))],
        events: vec![Event::Connected, Event::Received((0..10).map(linerate_tcpscript::stream_byte).collect())],
        ..List::default()
    };
    let text = "listen\n< S 0 win 1000 mss 1460\n> SA 0 ack 1 win 1000 mss 1460 nots\n< A 1:11 ack 1\n+40ms > A 1 ack 11\napp connected\n\
                app got 10\ncheck cwnd=14600 rto<=1s state=established\nquiet 5s\n";
    assert_eq!(play(text, list), Ok(()));
}

#[test]
fn each_wrong_field_is_named_with_the_line() {
    let syn = "< S 0\n";
    for (expected, words) in [
        ("> SA 0 ack 2", "ack 1, wanted 2"),
        ("> SA 1 ack 1", "sequence number 0, wanted 1"),
        ("> A 0 ack 1", "flags SA, wanted A"),
        ("> SA 0:5 ack 1", "bytes of data 0, wanted 5"),
        ("> SA 0 ack 1 win 2000", "win 1000, wanted 2000"),
        ("> SA 0 ack 1 win >=1001", "wanted >=1001"),
        ("> SA 0 ack 1 mss 536", "mss 1460, wanted 536"),
        ("> SA 0 ack 1 nomss", "wanted none"),
        ("> SA 0 ack 1 ws 7", "no ws"),
        ("> SA 0 ack 1 sackok", "no sackok"),
        ("> SA 0 ack 1 ts", "no timestamp"),
        ("> SA 0 ack 1 ect0", "congestion bits"),
        ("> SA 0 ack 1 ttl 63", "ttl 64, wanted 63"),
        ("> SA 0 ack 1 push", "push"),
        ("+5ms > SA 0 ack 1", "too early"),
        ("> icmp 3/3", "wanted icmp 3/3"),
    ] {
        assert_fails(&format!("{syn}{expected}\n"), answering(), words);
        assert_fails(&format!("{syn}{expected}\n"), answering(), "line 3");
    }
}

#[test]
fn what_leaves_too_much_or_not_at_all_is_a_failure() {
    assert_fails("< S 0\n> SA 0 ack 1\n> A 1 ack 1\n", answering(), "nothing left");
    assert_fails("< S 0\nquiet 1s\n", answering(), "left, although nothing was to leave: SA 0");
    assert_fails("< S 0\n", answering(), "left, although nothing was to leave");
    let late = List { frames: vec![(10_000_000, syn_ack())], ..List::default() };
    assert_fails("< S 0\n> SA 0 ack 1\n", late, "nothing left");
    assert_fails("quiet 1s\n", List { leak: true, ..List::default() }, "a frame is missing");
}

#[test]
fn data_and_options_are_always_checked() {
    let with = |frame: Vec<u8>| List { frames: vec![(0, syn_ack()), (1_000_000, frame)], ..List::default() };
    let open = "< S 0 mss 1460\n> SA 0 ack 1\n";
    let ack = tcp::Flags::ACK;
    let text = format!("{open}send 3\n+1ms > A 1:4 ack 1\n");
    assert_fails(&text, with(segment(501, 1_000_001, ack, &[], 3)), "the data is not what the program sent");
    assert_fails(
        &format!("{open}+1ms > A 1:4 ack 1\n"),
        with(segment(501, 1_000_001, ack, &[], 3)),
        "beyond the 0 bytes",
    );
    let text = format!("{open}+1ms > A 1 ack 1\n");
    assert_fails(&text, with(segment(501, 1_000_001, ack, &[2, 4, 5, 0xb4], 0)), "without SYN");
    assert_fails(&text, with(segment(501, 1_000_001, ack, &[5, 1, 0, 0], 0)), "wrong length");
    assert_fails(&text, with(segment(501, 1_000_001, ack, &[0, 1, 0, 0], 0)), "padding");
    assert_fails(&text, with(segment(501, 1_000_001, ack, &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1], 0)), "not agreed on");
    let mut damaged = segment(501, 1_000_001, ack, &[], 0);
    damaged[50] ^= 1;
    assert_fails(&text, with(damaged), "the checksum is wrong");
}

#[test]
fn the_program_is_watched() {
    let told = |events: &[Event]| List { events: events.to_vec(), ..List::default() };
    assert_fails("listen\napp connected\n", told(&[Event::PeerClosed]), "was not told Connected");
    assert_fails("listen\napp nothing\n", told(&[Event::Connected]), "was told");
    assert_fails("listen\napp got 5\n", told(&[Event::Received(vec![0])]), "got 1 bytes, wanted 5");
    assert_fails("listen\n", told(&[Event::Received(vec![9])]), "wrong bytes");
    assert_fails("listen\napp closed reset\n", told(&[Event::Closed(EndReason::Normal)]), "was not told");
    assert_fails("abort\n", List::default(), "there is no connection");
    assert_eq!(play("fail abort \"no connection\"\n", List::default()), Ok(()));
    assert_fails("fail abort busy\n", List::default(), "wanted: busy");
    assert_fails("fail close busy\n", List::default(), "must fail");
    assert_fails("check cwnd>=14601\n", List::default(), "cwnd is 14600");
    assert_fails("check state=closed\n", List::default(), "state is established");
    assert_fails("check nothing=1\n", List::default(), "no value");
}

#[test]
fn addresses_are_resolved_beside_the_scenario() {
    use linerate_wire::arp;
    let mut request = vec![0; 60];
    ethernet::Header { dst: MacAddress::BROADCAST, src: MAC, ethertype: linerate_wire::EtherType::ARP }
        .emit(&mut request);
    let question = arp::Header {
        operation: arp::REQUEST,
        sender_mac: MAC,
        sender_ip: [192, 0, 2, 1].into(),
        target_mac: MacAddress::ZERO,
        target_ip: [192, 0, 2, 2].into(),
    };
    question.emit(&mut request[14..]);
    let mut list = List { frames: vec![(0, request), (0, syn_ack())], ..List::default() };
    let script = Script::parse("scenario a\n< S 0\n> SA 0 ack 1\n").unwrap();
    run(&script.scenarios[0], &mut list, MAC).unwrap();
    let reply = arp::Packet::new_checked(&list.delivered[1][14..]).unwrap().header();
    assert_eq!((reply.operation, reply.sender_ip), (arp::REPLY, [192, 0, 2, 2].into()));
}
