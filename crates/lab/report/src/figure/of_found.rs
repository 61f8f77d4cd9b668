//! From what a test found to figures.

use super::{Better, Mark, Unit, median};
use crate::units::{nanoseconds, percent, pps};
use crate::{
    CapturePoint, EchoPoint, EchoesFound, GoalFound, Latency, LatencyPoint, LimitedBy, SearchStop, SessionsFound,
    TestResult,
};

/// A figure without where it belongs.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) better: Better,
    pub(super) value: Result<f64, String>,
    pub(super) upper: Option<f64>,
    pub(super) width: Option<f64>,
    pub(super) marks: Vec<Mark>,
}

impl Part {
    pub(super) fn new(name: impl Into<String>, unit: Unit, better: Better, value: f64) -> Self {
        let value = if value.is_finite() { Ok(value) } else { Err("it could not be measured".to_owned()) };
        Self { name: name.into(), unit, better, value, upper: None, width: None, marks: Vec::new() }
    }

    fn or(name: impl Into<String>, unit: Unit, better: Better, value: Option<f64>, error: &str) -> Self {
        let value = value.filter(|value| value.is_finite());
        Self { value: value.ok_or_else(|| error.to_owned()), ..Self::new(name, unit, better, f64::NAN) }
    }
}

pub(super) fn of_found(found: &TestResult) -> Vec<Part> {
    use Unit::{Nanoseconds, Packets, PacketsPerSecond, Share};
    let time = |span_ns: u64| span_ns as f64;
    match found {
        TestResult::Throughput { goals } => goals.iter().flat_map(of_goal).collect(),
        TestResult::Capacity { delivered_pps, sent_pps } => {
            let (least, most) =
                delivered_pps.iter().fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), pps| (a.min(*pps), b.max(*pps)));
            let spread = Part::new("spread", Share, Better::Lower, (most - least) / median(delivered_pps));
            let sent = Part::new("sent", PacketsPerSecond, Better::Neither, median(sent_pps));
            let capacity = Part::new("capacity", PacketsPerSecond, Better::Higher, median(delivered_pps));
            if delivered_pps.len() > 1 { vec![capacity, spread, sent] } else { vec![capacity, sent] }
        }
        TestResult::NoLoss { pps, duration_ns, points, why } => {
            let name = format!("no loss over {}", nanoseconds(*duration_ns as f64));
            let why = why.as_deref().unwrap_or("no load passed");
            let mut part = Part::or(name, PacketsPerSecond, Better::Higher, *pps, why);
            // The load tried before it lost packets.
            part.upper = pps.and(points.iter().rev().nth(1)).map(|point| point.load_pps);
            vec![part]
        }
        TestResult::Latency { points } => points.iter().flat_map(of_point).collect(),
        TestResult::FrameLoss { points } => {
            let name = |load_pps: f64| format!("loss at {}", pps(load_pps));
            points.iter().map(|p| Part::new(name(p.load_pps), Share, Better::Lower, p.loss_ratio)).collect()
        }
        TestResult::BackToBack { bursts, buffer_seconds, at_maximum, .. } => {
            let mean = bursts.iter().map(|burst| *burst as f64).sum::<f64>() / bursts.len() as f64;
            let mut parts = vec![Part::new("mean burst", Packets, Better::Higher, mean)];
            let buffer = buffer_seconds.map(|seconds| Part::new("buffer", Nanoseconds, Better::Neither, seconds * 1e9));
            parts.extend(buffer);
            for part in &mut parts {
                part.marks.extend(at_maximum.then_some(Mark::AtMaximum));
            }
            parts
        }
        TestResult::SystemRecovery { recovery_ns, .. } => {
            let why = "it did not recover while it was watched";
            vec![Part::or("recovery", Nanoseconds, Better::Lower, recovery_ns.map(time), why)]
        }
        TestResult::Reset { outage_ns, outage_by_loss_ns, .. } => {
            let why = "it did not come back while it was watched";
            let by_loss = Part::new("outage by lost packets", Nanoseconds, Better::Lower, time(*outage_by_loss_ns));
            vec![Part::or("outage", Nanoseconds, Better::Lower, outage_ns.map(time), why), by_loss]
        }
        TestResult::Soak { load_pps, loss_ratio } => {
            vec![Part::new(format!("loss at {}", pps(*load_pps)), Share, Better::Lower, *loss_ratio)]
        }
        TestResult::MaxForwardingRate { pps, .. } => {
            vec![Part::new("rate", PacketsPerSecond, Better::Higher, *pps)]
        }
        TestResult::Capture { points } => points.iter().flat_map(of_capture).collect(),
        TestResult::Ping { sent, rtt, .. } => of_ping(*sent, rtt.as_ref()),
        TestResult::ConnectionRate(found) => of_sessions("connections", Unit::PerSecond, found),
        TestResult::ConcurrentConnections(found) => of_sessions("concurrent connections", Unit::Connections, found),
        TestResult::RequestRate(found) => of_sessions("requests", Unit::PerSecond, found),
        TestResult::TcpEcho(found) => of_echoes(found),
        TestResult::UdpLoop(found) => vec![
            Part::new("udp-cycles", Unit::PerSecond, Better::Higher, found.per_second),
            Part::new("udp-cycles per core", Unit::PerSecond, Better::Higher, found.per_core_second),
        ],
        TestResult::Load { sent_pps, delivered_pps } => {
            let sent = Part::new("sent", PacketsPerSecond, Better::Neither, *sent_pps);
            vec![Part::new("delivered", PacketsPerSecond, Better::Higher, *delivered_pps), sent]
        }
    }
}

fn of_goal(goal: &GoalFound) -> Vec<Part> {
    let unit = Unit::PacketsPerSecond;
    let mut part = Part::or(&goal.name, unit, Better::Higher, goal.lower_pps, "no load passed");
    part.upper = goal.upper_pps;
    part.width = Some(goal.width);
    let by_tester = goal.tester_limited || goal.limited_by == LimitedBy::Tester;
    part.marks.extend(by_tester.then_some(Mark::TesterLimited));
    part.marks.extend((goal.limited_by == LimitedBy::Maximum).then_some(Mark::AtMaximum));
    part.marks.extend((goal.limited_by == LimitedBy::Unknown).then_some(Mark::LimitUnknown));
    part.marks.extend(goal.irregular.then_some(Mark::Irregular));
    part.marks.extend((goal.stop == SearchStop::UsedUp).then_some(Mark::Wide));
    let (marks, shared) = (part.marks.clone(), part.marks.clone());
    // Says nothing of its own where no loss is allowed.
    let conditional = goal.conditional_pps.filter(|_| goal.exceed_ratio > 0.0).map(|value| {
        let name = format!("{}, conditional", goal.name);
        Part { marks, width: Some(goal.width), ..Part::new(name, unit, Better::Higher, value) }
    });
    // The figure with all that was lost, beside the one that leaves interruptions out.
    let counted = goal.outside_interruptions.then(|| {
        let own = crate::GoalBounds { lower_pps: goal.lower_pps, upper_pps: goal.upper_pps };
        let bounds = goal.with_interruptions.unwrap_or(own);
        let name = format!("{}, interruptions counted", goal.name);
        let value = Part::or(name, unit, Better::Higher, bounds.lower_pps, "no load passed");
        Part { upper: bounds.upper_pps, width: Some(goal.width), marks: shared.clone(), ..value }
    });
    std::iter::once(part).chain(conditional).chain(counted).collect()
}

fn of_capture(point: &CapturePoint) -> Vec<Part> {
    let at = pps(point.load_pps);
    let part = |name: &str, unit, better, value: Option<f64>, error: &str| {
        Part::or(format!("{name} at {at}"), unit, better, value, error)
    };
    let mut parts = vec![
        part("capture ratio", Unit::Share, Better::Higher, point.capture_ratio, "the capture saw no packet"),
        part("captured of sent", Unit::Share, Better::Higher, Some(point.captured_of_sent), "nothing was sent"),
        part("captured", Unit::PacketsPerSecond, Better::Neither, Some(point.captured_pps), "nothing was sent"),
        part("idle", Unit::Share, Better::Higher, point.idle_share, "the cores' times could not be read"),
        part(
            "CPU time per packet",
            Unit::Nanoseconds,
            Better::Lower,
            point.cpu_ns_per_packet,
            "the capture does not say",
        ),
    ];
    // Of a ring whose level is not known there is no figure; the table of captures says so.
    let fill = point.fill_share().map(|share| part("ring full", Unit::Share, Better::Lower, Some(share), ""));
    parts.extend(fill);
    parts
}

fn of_sessions(name: &str, unit: Unit, found: &SessionsFound) -> Vec<Part> {
    let mut part = Part::or(name, unit, Better::Higher, found.highest, "something failed at every load");
    part.upper = found.fails_at;
    part.marks.extend(found.tester_limited.then_some(Mark::TesterLimited));
    vec![part]
}

/// Other stacks' figures are named after them: they stand beside ours in one cell.
fn of_echoes(found: &EchoesFound) -> Vec<Part> {
    let of = |what: &str| if found.stack == "Linerate" { what.to_owned() } else { format!("{what}, {}", found.stack) };
    let rate = |name: &str, value: f64| Part::new(of(name), Unit::PerSecond, Better::Higher, value);
    let mut parts: Vec<Part> = found.points.iter().flat_map(|point| of_echo(point, &of)).collect();
    parts.push(rate("set up per core", found.set_up_per_core_second));
    parts.push(rate("closed per core", found.torn_down_per_core_second));
    let bytes = |bytes| Part::new(of("bytes per connection"), Unit::Bytes, Better::Lower, bytes);
    parts.extend(found.bytes_per_connection.map(bytes));
    parts
}

fn of_echo(point: &EchoPoint, of_stack: &impl Fn(&str) -> String) -> Vec<Part> {
    let of = |what: &str| {
        let what = of_stack(what);
        if point.order == "reply" { what } else { format!("{what}, {}", point.order) }
    };
    let part = |name: &str, unit, better, value| Part::new(of(name), unit, better, value);
    let mut parts = vec![
        part("echoes", Unit::PerSecond, Better::Higher, point.per_second),
        part("echoes per core", Unit::PerSecond, Better::Higher, point.per_core_second),
    ];
    let cycles =
        point.cycles_per_echo.map(|cycles| part("cycles per echo", Unit::CyclesPerPacket, Better::Lower, cycles));
    parts.extend(cycles);
    parts
}

fn of_ping(sent: u64, rtt: Option<&Latency>) -> Vec<Part> {
    let Some(rtt) = rtt else {
        return vec![Part::or("RTT", Unit::Nanoseconds, Better::Lower, None, "no request was answered")];
    };
    let times = [("RTT", rtt.p50_ns), ("RTT p99", rtt.p99_ns), ("RTT min", rtt.min_ns), ("RTT max", rtt.max_ns)];
    let time = |(name, ns): (&str, u64)| Part::new(name, Unit::Nanoseconds, Better::Lower, ns as f64);
    let unanswered = sent.saturating_sub(rtt.samples) as f64 / sent.max(1) as f64;
    let unanswered = Part::new("unanswered", Unit::Share, Better::Lower, unanswered);
    times.into_iter().map(time).chain([unanswered]).collect()
}

fn of_point(point: &LatencyPoint) -> Vec<Part> {
    let at = load_words(point);
    let Some(latency) = &point.latency else {
        let why = "no packet with a timestamp arrived";
        return vec![Part::or(format!("latency at {at}"), Unit::Nanoseconds, Better::Lower, None, why)];
    };
    let percentiles = [
        ("p50", Some(latency.p50_ns)),
        ("p90", Some(latency.p90_ns)),
        ("p99", Some(latency.p99_ns)),
        ("p99.9", Some(latency.p999_ns)),
        ("p99.99", Some(latency.p9999_ns)),
        ("max", Some(latency.max_ns)),
        ("PDV", point.pdv_ns),
    ];
    let part = |(name, value): (&str, Option<u64>)| {
        Some(Part::new(format!("{name} at {at}"), Unit::Nanoseconds, Better::Lower, value? as f64))
    };
    percentiles.into_iter().filter_map(part).collect()
}

/// `50 %`, or `idle`.
pub(crate) fn load_words(point: &LatencyPoint) -> String {
    if point.share == 0.0 { "idle".to_owned() } else { percent(point.share).replace(".0 %", " %") }
}
