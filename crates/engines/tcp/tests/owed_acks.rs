//! Acknowledgments that are owed while bulk data leave, often in the same batch: each leaves once, with data where there are some, and neither data
//! nor acknowledgments are lost or sent twice.

use std::cell::RefCell;
use std::rc::Rc;

use linerate_tcp::{CloseReason, Conn, Counters, ListenOptions, StackConfig};
use linerate_wire::{Sum, tcp};

use super::common::{B, Pair, address, config};

/// Where the TCP header begins in a frame over IPv4.
const TCP: usize = 34;

/// What a segment over IPv4 says.
#[derive(Clone, Copy, Debug)]
struct Segment {
    src_port: u16,
    dst_port: u16,
    seq: u32,
    ack: u32,
    len: u32,
    is_syn: bool,
    has_sacks: bool,
}

impl Segment {
    fn of(frame: &[u8]) -> Option<Segment> {
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            return None;
        }
        let end = 14 + usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let packet = tcp::Packet::new_checked(&frame[TCP..end]).unwrap();
        let (header, header_len) = (packet.header(), packet.header_len());
        let mut has_sacks = false;
        each_option(&frame[TCP..TCP + header_len], |kind, _| has_sacks |= kind == 5);
        Some(Segment {
            src_port: header.src_port,
            dst_port: header.dst_port,
            seq: header.sequence,
            ack: header.acknowledgment,
            len: (end - TCP - header_len) as u32,
            is_syn: header.flags.0 & tcp::Flags::SYN.0 != 0,
            has_sacks,
        })
    }
}

/// Calls `work` with kind and place of each option of a TCP header.
fn each_option(header: &[u8], mut work: impl FnMut(u8, std::ops::Range<usize>)) {
    let mut at = tcp::HEADER_LEN;
    while at < header.len() && header[at] != 0 {
        let len = if header[at] == 1 { 1 } else { usize::from(header[at + 1]) };
        work(header[at], at..at + len);
        at += len;
    }
}

/// Which options the connections of a test have.
#[derive(Clone, Copy, Debug)]
struct Options {
    timestamps: bool,
    sacks: bool,
}

const EACH: [Options; 4] = [
    Options { timestamps: true, sacks: true },
    Options { timestamps: true, sacks: false },
    Options { timestamps: false, sacks: true },
    Options { timestamps: false, sacks: false },
];

/// A connection of two stacks with these options: others are taken out of the SYN on its way.
fn connected(options: Options) -> (Pair, Conn, Conn) {
    let mut pair = Pair::new();
    let remote = address(B, 80);
    pair.b.with(pair.now_ns, |_, io| io.listen(remote, ListenOptions::default())).unwrap();
    let syns = Rc::new(RefCell::new(Vec::new()));
    let held = Rc::clone(&syns);
    pair.filter = Some(Box::new(move |_, frame| {
        let is_syn = Segment::of(frame).is_some_and(|segment| segment.is_syn);
        if is_syn {
            held.borrow_mut().push(frame.to_vec());
        }
        !is_syn
    }));
    let a = pair.connect(remote);
    pair.settle();
    pair.filter = None;
    let mut syn = syns.borrow_mut().remove(0);
    let mut unwanted = Vec::new();
    each_option(&syn[TCP..], |kind, place| {
        if kind == 8 && !options.timestamps || kind == 4 && !options.sacks {
            unwanted.push(place);
        }
    });
    let header = &mut syn[TCP..];
    unwanted.into_iter().for_each(|place| header[place].fill(1));
    header[16..18].fill(0);
    let len = header.len() as u16;
    let sum = Sum::new().add_slice(&syn[26..34]).add_u16(6).add_u16(len).add_slice(&syn[TCP..]).finish();
    syn[TCP + 16..TCP + 18].copy_from_slice(&sum.to_be_bytes());
    pair.inject(true, &syn);
    pair.settle();
    let b = pair.b.app().connections()[0];
    let info = pair.b.with(pair.now_ns, |_, io| io.info(b)).unwrap();
    assert_eq!((info.timestamps, info.sack), (options.timestamps, options.sacks));
    (pair, a, b)
}

/// Bytes of a full segment.
fn mss(options: Options) -> usize {
    if options.timestamps { 1448 } else { 1460 }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|place| (place ^ place >> 8) as u8).collect()
}

fn send(pair: &mut Pair, is_a: bool, conn: Conn, bytes: &[u8]) {
    let sent = if is_a { pair.send_a(conn, bytes) } else { pair.send_b(conn, bytes) };
    assert_eq!(sent, bytes.len());
}

fn counters(pair: &mut Pair, is_a: bool) -> Counters {
    if is_a { pair.counters_a() } else { pair.counters_b() }
}

/// The segments that passed from the first stack (or the second) since there were `from` frames.
fn segments(pair: &Pair, of_a: bool, from: usize) -> Vec<Segment> {
    let frames = pair.frames[from..].iter().filter(|(to_b, _)| *to_b == of_a);
    frames.filter_map(|(_, frame)| Segment::of(frame)).collect()
}

/// Hands frames over until there are none, and returns the segments of each batch, with who sent them.
fn batches(pair: &mut Pair) -> Vec<(bool, Vec<Segment>)> {
    let mut batches = Vec::new();
    loop {
        assert!(batches.len() < 10_000, "the stacks never stop to answer each other");
        let mut has_passed = false;
        for of_a in [true, false] {
            let from = pair.frames.len();
            if pair.pass(of_a) {
                has_passed = true;
                batches.push((of_a, segments(pair, of_a, from)));
            }
        }
        if !has_passed {
            return batches;
        }
    }
}

/// The data of one side are sent in order and once, and the other side has all of them and said so at last.
fn assert_once(segments: &[Segment], answers: &[Segment], len: usize) {
    let data: Vec<&Segment> = segments.iter().filter(|segment| segment.len > 0).collect();
    for pair in data.windows(2) {
        assert_eq!(pair[0].seq.wrapping_add(pair[0].len), pair[1].seq);
    }
    assert_eq!(data.iter().map(|segment| segment.len as usize).sum::<usize>(), len);
    let end = data[0].seq.wrapping_add(len as u32);
    assert_eq!(answers.last().unwrap().ack, end);
}

/// A small question waits for its acknowledgment; bulk data take it along, and no acknowledgment follows them.
#[test]
fn a_delayed_acknowledgment_leaves_with_bulk_data() {
    for (options, asks_a) in EACH.into_iter().flat_map(|options| [(options, true), (options, false)]) {
        let (mut pair, a, b) = connected(options);
        let (asking, answering) = if asks_a { (a, b) } else { (b, a) };
        let from = pair.frames.len();
        send(&mut pair, asks_a, asking, &[7; 100]);
        pair.settle();
        assert_eq!(segments(&pair, !asks_a, from).len(), 0, "{options:?}: it is delayed");
        let bytes = pattern(8 * mss(options));
        send(&mut pair, !asks_a, answering, &bytes);
        pair.settle();
        pair.run(500);
        let [questions, answers] = [asks_a, !asks_a].map(|of_a| segments(&pair, of_a, from));
        assert_eq!(answers.len(), 8, "{options:?}: data alone: {answers:?}");
        assert_eq!(answers[0].ack, questions[0].seq.wrapping_add(100), "{options:?}");
        // One acknowledgment of all segments of the batch.
        assert_eq!(questions.len(), 2, "{options:?}: {questions:?}");
        assert_once(&answers, &questions, bytes.len());
        assert_once(&questions[..1], &answers, 100);
        for is_a in [true, false] {
            let counters = counters(&mut pair, is_a);
            assert_eq!((counters.retrans_segs, counters.delayed_acks), (0, 0), "{options:?}");
        }
        assert_eq!(if asks_a { pair.a.app().bytes() } else { pair.b.app().bytes() }, bytes);
    }
}

/// Where nothing is sent, the acknowledgment follows when its time has come, once; data that are written just before take it along, though a
/// deadline stands for it.
#[test]
fn a_delayed_acknowledgment_is_sent_once_whatever_comes_first() {
    for (options, answers_after_ms) in EACH.into_iter().flat_map(|options| [(options, 39), (options, 500)]) {
        let (mut pair, a, b) = connected(options);
        let from = pair.frames.len();
        send(&mut pair, true, a, b"question");
        pair.run(answers_after_ms);
        let bytes = pattern(3 * mss(options));
        send(&mut pair, false, b, &bytes);
        pair.run(500);
        let sent = segments(&pair, false, from);
        let pure = sent.iter().filter(|segment| segment.len == 0).count();
        let expected = usize::from(answers_after_ms == 500);
        assert_eq!((pure, sent.len()), (expected, 3 + expected), "{options:?}: {sent:?}");
        assert_eq!(pair.counters_b().delayed_acks, expected as u64, "{options:?}");
        assert_once(&sent, &segments(&pair, true, from), bytes.len());
        assert_eq!((pair.counters_a().retrans_segs, pair.counters_b().retrans_segs), (0, 0), "{options:?}");
    }
}

/// Both sides send bulk data at the same time: data carry the acknowledgments, and where none can, one is sent for all of a batch.
#[test]
fn bulk_data_in_both_directions_carry_the_acknowledgments() {
    const LEN: usize = 120_000;
    for options in EACH {
        let (mut pair, a, b) = connected(options);
        let from = pair.frames.len();
        let bytes = pattern(LEN);
        send(&mut pair, true, a, &bytes);
        send(&mut pair, false, b, &bytes);
        let (mut with_data, mut alone) = (0, 0);
        for (of_a, batch) in batches(&mut pair) {
            let data = batch.iter().filter(|segment| segment.len > 0).count();
            // Data that left before the other side's came cannot acknowledge these: one that stands behind them does, and says more than they.
            let is_last = batch[data..].iter().all(|segment| segment.len == 0) && batch.len() <= data + 1;
            let says_more = data == 0 || batch.len() == data || batch[data].ack != batch[data - 1].ack;
            assert!(is_last && says_more, "{options:?} {of_a}: {batch:?}");
            (with_data, alone) = (with_data + usize::from(data > 0), alone + batch.len() - data);
        }
        assert!(
            with_data >= 6 && alone <= 4,
            "{options:?}: {with_data} batches with data, {alone} acknowledgments alone"
        );
        pair.run(500);
        let [of_a, of_b] = [true, false].map(|of_a| segments(&pair, of_a, from));
        assert_once(&of_a, &of_b, LEN);
        assert_once(&of_b, &of_a, LEN);
        assert_eq!((pair.a.app().bytes(), pair.b.app().bytes()), (bytes.clone(), bytes), "{options:?}");
        assert_eq!((pair.counters_a().retrans_segs, pair.counters_b().retrans_segs), (0, 0), "{options:?}");
    }
}

/// The program answers bulk data with as many, within the batch that they arrive in: the answers carry all acknowledgments.
#[test]
fn answers_of_the_same_batch_carry_the_acknowledgments() {
    for options in EACH {
        let (mut pair, a, b) = connected(options);
        pair.b.app_mut().echoes = true;
        let from = pair.frames.len();
        let bytes = pattern(9 * mss(options));
        send(&mut pair, true, a, &bytes);
        pair.run(500);
        let [of_a, of_b] = [true, false].map(|of_a| segments(&pair, of_a, from));
        assert!(of_b.iter().all(|segment| segment.len > 0), "{options:?}: {of_b:?}");
        assert_once(&of_a, &of_b, bytes.len());
        assert_once(&of_b, &of_a, bytes.len());
        assert_eq!((pair.a.app().bytes(), &pair.b.app().data[&b]), (bytes.clone(), &bytes), "{options:?}");
        for is_a in [true, false] {
            let counters = counters(&mut pair, is_a);
            assert_eq!((counters.retrans_segs, counters.delayed_acks), (0, 0), "{options:?}");
        }
    }
}

/// A segment is lost while its receiver has full segments to send: these have no room for SACK blocks, so one acknowledgment follows them, and the
/// lost segment alone is sent again.
#[test]
fn a_gap_is_reported_beside_full_segments() {
    for options in EACH {
        let (mut pair, a, _) = connected(options);
        pair.b.app_mut().echoes = true;
        let bytes = pattern(5 * mss(options));
        send(&mut pair, true, a, &bytes);
        let mut number = 0;
        pair.filter = Some(Box::new(move |to_b, frame| {
            number += u32::from(to_b && Segment::of(frame).is_some_and(|segment| segment.len > 0));
            !(to_b && number == 2)
        }));
        assert!(pair.pass(true));
        pair.filter = None;
        let from = pair.frames.len();
        assert!(pair.pass(false));
        let batch = segments(&pair, false, from);
        let shapes: Vec<(u32, bool)> = batch.iter().map(|segment| (segment.len, segment.has_sacks)).collect();
        assert_eq!(shapes, [(mss(options) as u32, false), (0, options.sacks)], "{options:?}");
        assert_eq!(batch[0].ack, batch[1].ack, "{options:?}");
        pair.run(2_000);
        assert_eq!((pair.a.app().bytes(), pair.b.app().bytes()), (bytes.clone(), bytes), "{options:?}");
        let counters = [true, false].map(|is_a| counters(&mut pair, is_a));
        assert_eq!(counters[1].retrans_segs, 0, "{options:?}");
        assert!(!options.sacks || counters[0].retrans_segs == 1, "{options:?}: {counters:?}");
    }
}

/// Connections that ended owe their last acknowledgment while another one has more bulk data than the output takes: what is owed goes before.
#[test]
fn the_last_acknowledgments_of_others_go_before_bulk_data() {
    const ENDING: usize = 20;
    const ROOM: usize = 8;
    let mut pair = Pair::with(config(1), StackConfig { output_packets: ROOM, ..config(2) });
    let (_, bulk) = pair.connected(ListenOptions::default());
    let ending: Vec<Conn> = (0..ENDING).map(|_| pair.connect(address(B, 80))).collect();
    pair.settle();
    let others = pair.b.app().connections()[1..].to_vec();
    assert_eq!(others.len(), ENDING);
    pair.b.with(pair.now_ns, |_, io| others.iter().for_each(|conn| io.close(*conn)));
    pair.settle();
    pair.a.with(pair.now_ns, |_, io| ending.iter().for_each(|conn| io.close(*conn)));
    // The output is full of data, and more wait, when the FINs arrive.
    let bytes = pattern(60_000);
    send(&mut pair, false, bulk, &bytes);
    let from = pair.frames.len();
    assert!(pair.pass(true));
    let fins: Vec<Segment> = segments(&pair, true, from);
    assert_eq!(fins.len(), ENDING);
    while pair.pass(false) {}
    let sent = segments(&pair, false, from);
    assert!(sent[..ROOM].iter().all(|segment| segment.len > 0), "{sent:?}");
    let last = &sent[ROOM..ROOM + ENDING];
    for (fin, ack) in fins.iter().zip(last) {
        assert_eq!((ack.len, ack.dst_port, ack.src_port), (0, fin.src_port, fin.dst_port), "{sent:?}");
        assert_eq!(ack.ack, fin.seq.wrapping_add(1), "{sent:?}");
    }
    assert!(sent[ROOM + ENDING..].iter().all(|segment| segment.len > 0), "{sent:?}");
    pair.settle();
    assert_eq!(pair.a.app().closed(), [CloseReason::Normal; ENDING]);
    pair.run(500);
    assert_eq!(pair.a.app().bytes(), bytes);
    assert_once(
        &segments(&pair, false, from).into_iter().filter(|one| one.len > 0).collect::<Vec<_>>(),
        &bulk_answers(&pair, from),
        60_000,
    );
    assert_eq!((pair.counters_a().retrans_segs, pair.counters_b().retrans_segs), (0, 0));
}

/// Acknowledgments of the first stack for data, which are those of the connection that had some.
fn bulk_answers(pair: &Pair, from: usize) -> Vec<Segment> {
    let port = segments(pair, false, from).iter().find(|segment| segment.len > 0).map(|segment| segment.dst_port);
    segments(pair, true, from).into_iter().filter(|segment| Some(segment.src_port) == port).collect()
}
