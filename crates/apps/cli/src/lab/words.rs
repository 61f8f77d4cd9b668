//! What happened, in a line of text each.

use linerate_report::{ExperimentTrial, Finding, TestResult, units};

/// `505.2 kpps delivered of 512.0 kpps sent, 1.3 % lost, 0 unsent`.
pub fn trial(trial: &ExperimentTrial) -> String {
    let account = &trial.trial.account;
    let Some(rates) = trial.trial.rates() else { return "nothing was sent".into() };
    let lost = account.sent().saturating_sub(account.delivered());
    let mut words = format!("{} delivered of {} sent", units::pps(rates.delivered_pps), units::pps(rates.sent_pps));
    if lost > 0 {
        let share = lost as f64 / account.sent().max(1) as f64;
        words += &format!(", {} lost ({})", units::count(lost), units::percent(share));
    }
    if account.unsent() > 0 {
        words += &format!(", {} unsent", units::count(account.unsent()));
    }
    if account.unexplained() != 0 {
        words += &format!(", {} unexplained", units::signed_count(account.unexplained()));
    }
    if let Some(latency) = &trial.trial.latency {
        let time = |span_ns: u64| units::nanoseconds(span_ns as f64);
        words += &format!(", latency p50 {} p99 {}", time(latency.p50_ns), time(latency.p99_ns));
    }
    words
}

/// Why a trial does not count.
pub fn not_used(trial: &ExperimentTrial) -> String {
    printable(trial.not_used.as_deref().unwrap_or_default())
}

/// The places where most packets of a trial were lost, in a line each: `6,800  receive ring of lr-in: ring full`.
pub fn losses(trial: &ExperimentTrial, lines: usize) -> Vec<String> {
    let mut rows: Vec<_> = trial.trial.account.lost().iter().filter(|loss| loss.packets > 0).collect();
    rows.sort_by_key(|loss| std::cmp::Reverse(loss.packets));
    let line = |loss: &&linerate_report::Loss| {
        format!("{:>12}  {}: {}", units::count(loss.packets), printable(&loss.place), printable(&loss.cause_words()))
    };
    rows.iter().take(lines).map(line).collect()
}

/// What a test found.
pub fn finding(finding: &Finding) -> String {
    let test = &finding.test;
    match (&finding.result, &finding.error) {
        (Some(found), _) => format!("{test}: {}", figure(found)),
        (None, Some(why)) => format!("{test}: not measured: {}", printable(why)),
        (None, None) => format!("{test}: stopped"),
    }
}

fn figure(found: &TestResult) -> String {
    let time = |span_ns: Option<u64>, none: &str| span_ns.map_or(none.into(), |ns| units::nanoseconds(ns as f64));
    match found {
        TestResult::Throughput { goals } => {
            let goal = |goal: &linerate_report::GoalFound| {
                let lower = goal.lower_pps.map_or("no load passed".into(), units::pps);
                let upper = goal.upper_pps.map_or(String::new(), |pps| format!(" (fails at {})", units::pps(pps)));
                let tester = if goal.tester_limited { ", the tester's limit" } else { "" };
                format!("{} {lower}{upper}{tester}", goal.name)
            };
            goals.iter().map(goal).collect::<Vec<_>>().join("; ")
        }
        TestResult::Capacity { delivered_pps, .. } => {
            let (least, most) = (
                delivered_pps.iter().copied().fold(f64::INFINITY, f64::min),
                delivered_pps.iter().copied().fold(0.0, f64::max),
            );
            let median = units::pps(linerate_report::median(delivered_pps));
            format!(
                "{median} delivered under overload ({} to {}, {} trials)",
                units::pps(least),
                units::pps(most),
                delivered_pps.len()
            )
        }
        TestResult::NoLoss { pps, duration_ns, why, .. } => match pps {
            Some(pps) => format!("{} without loss for {}", units::pps(*pps), units::nanoseconds(*duration_ns as f64)),
            None => format!("no load without loss: {}", printable(why.as_deref().unwrap_or("none passed"))),
        },
        TestResult::Latency { points } => {
            let point = |point: &linerate_report::LatencyPoint| {
                let latency = point.latency.map(|latency| (latency.p50_ns, latency.p99_ns));
                let words = latency.map_or("-".into(), |(p50, p99)| {
                    format!("p50 {} p99 {}", time(Some(p50), "-"), time(Some(p99), "-"))
                });
                format!("{} load {words}", units::percent(point.share))
            };
            let mut timestamps: Vec<_> =
                points.iter().flat_map(|point| &point.timestamps).map(|one| one.kind.word()).collect();
            timestamps.dedup();
            let by = if timestamps.is_empty() { "" } else { &format!(" ({} timestamps)", timestamps.join(", ")) };
            points.iter().map(point).collect::<Vec<_>>().join("; ") + by
        }
        TestResult::FrameLoss { points } => {
            let most = points.iter().map(|point| point.loss_ratio).fold(0.0, f64::max);
            format!("{} loads, up to {} lost", points.len(), units::percent(most))
        }
        TestResult::BackToBack { bursts, at_maximum, .. } => {
            let mean = bursts.iter().sum::<u64>() / bursts.len().max(1) as u64;
            let more = if *at_maximum { " (the longest tried)" } else { "" };
            format!("bursts of {} packets{more}", units::count(mean))
        }
        TestResult::SystemRecovery { recovery_ns, .. } => time(*recovery_ns, "did not recover"),
        TestResult::Reset { outage_ns, how, .. } => {
            format!("{} ({})", time(*outage_ns, "did not come back"), printable(how))
        }
        TestResult::Soak { load_pps, loss_ratio } => {
            format!("{} lost at {}", units::percent(*loss_ratio), units::pps(*load_pps))
        }
        TestResult::MaxForwardingRate { pps, load_pps } => {
            format!("{} at {} offered", units::pps(*pps), units::pps(*load_pps))
        }
        TestResult::Capture { points } => {
            let least = points.iter().map(|point| point.captured_of_sent).fold(1.0, f64::min);
            format!("{} loads, {} captured of the one that lost most", points.len(), units::percent(least))
        }
        TestResult::Ping { sent, rtt, .. } => match rtt {
            Some(rtt) => {
                let (median, p99) = (units::nanoseconds(rtt.p50_ns as f64), units::nanoseconds(rtt.p99_ns as f64));
                format!("RTT {median}, p99 {p99} ({} of {} answered)", units::count(rtt.samples), units::count(*sent))
            }
            None => format!("none of {} requests was answered", units::count(*sent)),
        },
        TestResult::ConnectionRate(found) | TestResult::RequestRate(found) => sessions(found, units::per_second),
        TestResult::ConcurrentConnections(found) => sessions(found, |count| units::count(count as u64)),
        TestResult::UdpLoop(found) => format!("{} cycles of both ends", units::per_second(found.per_second)),
        TestResult::TcpEcho(linerate_report::EchoesFound { stack, connections, points, .. }) => {
            let point = |point: &linerate_report::EchoPoint| {
                format!("{} echoes by {}", units::per_second(point.per_second), point.order)
            };
            let points = points.iter().map(point).collect::<Vec<_>>().join("; ");
            let by = if stack == "Linerate" { String::new() } else { format!("{}: ", printable(stack)) };
            format!("{by}{points} over {} connections", units::count(*connections))
        }
        TestResult::Load { sent_pps, delivered_pps } => {
            format!("{} delivered of {} sent", units::pps(*delivered_pps), units::pps(*sent_pps))
        }
    }
}

fn sessions(found: &linerate_report::SessionsFound, words: impl Fn(f64) -> String) -> String {
    let highest =
        found.highest.map_or("no load at which all succeed".into(), |load| format!("all succeed at {}", words(load)));
    let fails = found.fails_at.map_or(String::new(), |load| format!(" (not at {})", words(load)));
    let tester = if found.tester_limited { ", the tester's limit" } else { "" };
    format!("{highest}{fails}{tester}")
}

/// `9 min`, `1 h 20 min`, `45 s`.
pub fn span(span_ns: u64) -> String {
    let seconds = span_ns.div_ceil(1_000_000_000);
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..=5_400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Without control characters: what a device or a file says cannot write to the terminal anything but text.
pub fn printable(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        let second = 1_000_000_000;
        for (seconds, words) in
            [(0, "0 s"), (1, "1 s"), (90, "90 s"), (91, "2 min"), (3_600, "60 min"), (5_401, "1 h 30 min")]
        {
            assert_eq!(span(seconds * second), words);
        }
        assert_eq!(printable("a\x1b[2Jb\n"), "a [2Jb ");
    }
}
