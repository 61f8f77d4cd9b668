//! Which setting of a capture is the best for this host.

use super::labels::size_words;
use super::points::{Point, points};
use crate::capture::{CapturePoint, RingTrend};
use crate::units::{nanoseconds, percent, pps};
use crate::{Cell, Results};

/// Settings that captured this share less than the best one captured as much: short trials do not tell them apart.
const EQUAL_SHARE: f64 = 0.005;
/// Settings whose threads need this much more CPU time for a packet than the cheapest one cost as much.
const EQUAL_COST: f64 = 0.1;

/// Which setting is the best for this host, by which rule, and how sure that is; nothing where no capture was measured.
pub(crate) fn recommendation(results: &Results) -> Vec<String> {
    let Some(ranking) = Ranking::of(results) else { return Vec::new() };
    let Some(best) = ranking.candidates.first() else { return Vec::new() };
    let (point, load) = (&best.point, pps(ranking.load_pps));
    let mut sentences = Vec::new();
    let cost = point.of(|point| point.cpu_ns_per_packet);
    let ring = match point.of(CapturePoint::fill_share) {
        Some(fill) => format!("its ring at most {} full", percent(fill)),
        None => "a ring that does not tell how full it was".to_owned(),
    };
    if ranking.candidates.len() == 1 {
        sentences.push(format!("One setting was measured ({}), so there is none to recommend.", setting(best.cell)));
    } else {
        sentences.push(format!(
            "Best setting for this host: {}. At {load} ({}) it captured {} of what was sent, with {} of CPU time for \
             each packet in its threads and {ring}.",
            setting(best.cell),
            ranking.case,
            percent(point.captured_of_sent()),
            cost.map_or("an unknown amount".to_owned(), nanoseconds)
        ));
        let rule = format!(
            "The rule: the most captured of what was sent, at the highest load that was really sent to all {} settings; of those \
             within {} of the best, rings whose level is known to fall back before those whose level is not known, and these before rings \
             that fill up; then less CPU time for a packet in the capturing threads (differences below {} do not count), then the smaller ring. \
             Idle time of the machine does not count: others use it too.",
            ranking.candidates.len(),
            percent(ranking.equal),
            percent(EQUAL_COST)
        );
        sentences.push(rule);
    }
    if ranking.equals > 1 {
        sentences.push(format!(
            "{} settings captured as much within the noise ({}): between them ring and CPU time decide, and another run may \
             name another one.",
            ranking.equals,
            percent(ranking.equal)
        ));
    }
    if !ranking.sent {
        sentences.push(format!(
            "No load was really sent to every setting, so the comparison is at the lowest, {load}, and doubtful: give the tester \
             lower loads or a quieter machine."
        ));
    }
    match point.ring_trend() {
        RingTrend::FullIn | RingTrend::Overflowed => sentences.push(format!(
            "At that load its ring {}: a longer run loses packets. Use it below that load.",
            point.outlook_words()
        )),
        RingTrend::TooShort | RingTrend::Unknown => {
            sentences
                .push("The trials were too short to tell whether its ring would last: give them 1 s and more.".into());
        }
        RingTrend::Steady => {}
    }
    if point.0.len() == 1 && ranking.candidates.len() > 1 {
        sentences.push("Each setting was measured once; --repetitions 3 says how far that can be trusted.".into());
    }
    sentences
}

/// The settings at one load, the best first.
pub(super) struct Ranking<'a> {
    pub(super) candidates: Vec<Candidate<'a>>,
    /// Size and ports, in words.
    pub(super) case: String,
    load_pps: f64,
    /// Whether every setting was sent that load.
    sent: bool,
    /// Settings that captured so much less than the best are as good.
    equal: f64,
    /// How many there are of those, the best among them.
    equals: usize,
}

pub(super) struct Candidate<'a> {
    pub(super) cell: &'a Cell,
    pub(super) point: Point<'a>,
}

impl<'a> Ranking<'a> {
    /// At the hardest case.
    pub(super) fn of(results: &'a Results) -> Option<Self> {
        Self::all(results).into_iter().next()
    }

    /// At each case, the hardest first: most packets per second and port come with the smallest size; two ports need more than one.
    pub(super) fn all(results: &'a Results) -> Vec<Self> {
        let mut measured: Vec<&Cell> = results.cells.iter().filter(|cell| !points(cell).is_empty()).collect();
        measured.sort_by_key(|cell| (!cell.direction.starts_with("two"), cell.size_wire as i64));
        let mut cases: Vec<&Cell> = Vec::new();
        for cell in &measured {
            if !cases.iter().any(|case| is_same_case(case, cell)) {
                cases.push(cell);
            }
        }
        cases.into_iter().filter_map(|case| Self::at(&measured, case)).collect()
    }

    /// At the highest load that all settings were sent.
    fn at(measured: &[&'a Cell], case: &'a Cell) -> Option<Self> {
        let is_case = |cell: &&Cell| is_same_case(case, cell);
        let cells: Vec<&Cell> = measured.iter().copied().filter(is_case).collect();
        let loads: Vec<f64> = points(case).iter().map(Point::load_pps).collect();
        let at = |load_pps: f64| -> Option<Vec<Candidate<'a>>> {
            let candidate = |cell: &&'a Cell| {
                let point = points(cell).into_iter().find(|point| point.load_pps() == load_pps)?;
                Some(Candidate { cell, point })
            };
            cells.iter().map(candidate).collect()
        };
        let all_sent = |candidates: &Vec<Candidate<'_>>| candidates.iter().all(|candidate| candidate.point.was_sent());
        let fair = loads.iter().rev().find_map(|load| at(*load).filter(all_sent).map(|candidates| (*load, candidates)));
        let sent = fair.is_some();
        let (load_pps, mut candidates) = match fair {
            Some(fair) => fair,
            None => loads.iter().find_map(|load| at(*load).map(|candidates| (*load, candidates)))?,
        };
        let most = candidates.iter().map(|candidate| candidate.point.captured_of_sent()).fold(0.0, f64::max);
        let equal = candidates.iter().map(|candidate| candidate.point.spread()).fold(EQUAL_SHARE, f64::max);
        let is_equal = |candidate: &Candidate<'_>| candidate.point.captured_of_sent() >= most - equal;
        let equals = candidates.iter().filter(|candidate| is_equal(candidate)).count();
        let cost =
            |candidate: &Candidate<'_>| candidate.point.of(|point| point.cpu_ns_per_packet).unwrap_or(f64::INFINITY);
        let ring = |candidate: &Candidate<'_>| match candidate.point.ring_trend() {
            RingTrend::Steady => 0,
            RingTrend::TooShort | RingTrend::Unknown => 1,
            RingTrend::FullIn | RingTrend::Overflowed => 2,
        };
        let best_ring = candidates.iter().filter(|candidate| is_equal(candidate)).map(ring).min();
        let among = candidates.iter().filter(|candidate| is_equal(candidate) && Some(ring(candidate)) == best_ring);
        let cheapest = among.map(cost).fold(f64::INFINITY, f64::min);
        // Groups first; what is better than another by more than the noise is in an earlier one.
        let rank = |candidate: &Candidate<'_>| {
            let equal = is_equal(candidate);
            let lost = if equal { 0 } else { ((1.0 - candidate.point.captured_of_sent()) * 1e6) as u64 };
            let cheap = equal && cost(candidate) <= cheapest * (1.0 + EQUAL_COST);
            let dear = if cheap { 0 } else { (cost(candidate) * 1e3) as u64 };
            (!equal, lost, ring(candidate), dear, candidate.point.buffers())
        };
        candidates.sort_by_key(rank);
        let case = format!("{}, {}", size_words(case), case.direction);
        Some(Self { candidates, case, load_pps, sent, equal, equals })
    }
}

fn is_same_case(one: &Cell, other: &Cell) -> bool {
    (&one.direction, &one.size, one.flows, &one.cores) == (&other.direction, &other.size, other.flows, &other.cores)
}

/// A setting in words, by its name where the device does not say.
fn setting(cell: &Cell) -> String {
    cell.dut.configuration.get("setting").map_or(cell.dut_name.clone(), |words| format!("{words} ({})", cell.dut_name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::CapturePort;
    use crate::{Dut, EXPERIMENT_SCHEMA, Environment, Finding, TestResult, Timestamp, Tool};

    fn point(load_pps: f64, ratio: f64, idle: f64, ring: u64, ring_trend: RingTrend) -> CapturePoint {
        let port = CapturePort {
            port: "lr-in".into(),
            captured: 10,
            dropped_by_ring: 0,
            dropped_by_writer: 0,
            ring_capacity: Some(ring),
            ring_high_water: Some(ring / 2),
            ring_trend,
            time_to_full_ns: None,
            cpu_ns: Some(1),
        };
        CapturePoint {
            load_pps,
            sent_pps: load_pps,
            captured_pps: load_pps * ratio,
            capture_ratio: Some(1.0),
            captured_of_sent: ratio,
            idle_share: Some(idle),
            cpu_ns_per_packet: Some(100.0),
            ports: vec![port],
        }
    }

    fn cell(name: &str, points: Vec<CapturePoint>) -> Cell {
        let found = Some(TestResult::Capture { points });
        let (test, goals, trials) = ("capture".to_owned(), Vec::new(), Vec::new());
        Cell {
            id: format!("{name}/64/1/two-ports"),
            dut_name: name.into(),
            dut: Dut::default(),
            size: "64".into(),
            size_wire: 64.0,
            flows: 1,
            flow_pattern: String::new(),
            ip: None,
            direction: "two ports".into(),
            ports: None,
            cores: None,
            mode: String::new(),
            baseline_pps: None,
            findings: vec![Finding { test, repetition: 1, result: found, error: None, goals, trials }],
            published: Vec::new(),
        }
    }

    fn results(cells: Vec<Cell>) -> Results {
        let started = Timestamp::from_unix_ms(0);
        Results {
            schema: EXPERIMENT_SCHEMA.into(),
            name: "x".into(),
            title: String::new(),
            about: String::new(),
            file: String::new(),
            tool: Tool::new("linerate", "0"),
            started,
            ended: started,
            complete: true,
            cells,
            environment: Environment::default(),
            warnings: Vec::new(),
            bounds: None,
            recommendation: Vec::new(),
        }
    }

    fn best(cells: Vec<Cell>) -> String {
        let results = results(cells);
        let ranking = Ranking::of(&results).expect("captures");
        ranking.candidates[0].cell.dut_name.clone()
    }

    #[test]
    fn what_captured_more_wins_then_what_lasts_then_the_cheap_then_the_small() {
        let one = |name, ratio, cost, ring, ring_trend| {
            cell(name, vec![CapturePoint { cpu_ns_per_packet: cost, ..point(1e5, ratio, 0.5, ring, ring_trend) }])
        };
        let (steady, cost) = (RingTrend::Steady, Some(100.0));
        assert_eq!(best(vec![one("a", 0.9, Some(10.0), 1, steady), one("b", 0.99, cost, 9, steady)]), "b");
        assert_eq!(
            best(vec![one("a", 0.999, Some(10.0), 1, RingTrend::FullIn), one("b", 0.997, cost, 9, steady)]),
            "b"
        );
        assert_eq!(
            best(vec![one("a", 0.999, Some(10.0), 1, RingTrend::Unknown), one("b", 0.997, cost, 9, steady)]),
            "b"
        );
        assert_eq!(
            best(vec![one("a", 0.999, cost, 1, RingTrend::FullIn), one("b", 0.997, cost, 9, RingTrend::Unknown)]),
            "b"
        );
        assert_eq!(best(vec![one("a", 0.999, Some(150.0), 1, steady), one("b", 0.997, cost, 9, steady)]), "b");
        assert_eq!(best(vec![one("a", 0.999, None, 1, steady), one("b", 0.997, cost, 9, steady)]), "b");
        assert_eq!(best(vec![one("a", 0.999, Some(95.0), 9, steady), one("b", 0.997, cost, 1, steady)]), "b");
    }

    #[test]
    fn idle_time_of_a_shared_machine_decides_nothing() {
        let one = |name, idle, ring| cell(name, vec![point(1e5, 0.999, idle, ring, RingTrend::Steady)]);
        assert_eq!(best(vec![one("a", 0.9, 9), one("b", 0.1, 1)]), "b");
        assert!(!recommendation(&results(vec![one("a", 0.9, 9), one("b", 0.1, 1)])).join(" ").contains("machine idle"));
    }

    #[test]
    fn the_highest_load_that_all_were_sent_decides() {
        let behind = |load_pps: f64| CapturePoint {
            sent_pps: load_pps / 2.0,
            ..point(load_pps, 1.0, 0.5, 1, RingTrend::Steady)
        };
        let of = |load_pps, ratio| point(load_pps, ratio, 0.5, 1, RingTrend::Steady);
        let cells = vec![
            cell("a", vec![of(1e5, 1.0), of(2e5, 0.9), of(4e5, 0.8)]),
            cell("b", vec![of(1e5, 0.9), of(2e5, 1.0), behind(4e5)]),
        ];
        let results = results(cells);
        let ranking = Ranking::of(&results).expect("captures");
        assert_eq!((ranking.load_pps, ranking.sent, ranking.candidates[0].cell.dut_name.as_str()), (2e5, true, "b"));
        let text = recommendation(&results).join(" ");
        assert!(text.contains("Best setting for this host: b") && text.contains("The rule:"), "{text}");
        assert!(text.contains("measured once"), "{text}");
    }

    #[test]
    fn pictures_show_the_best_and_the_worst_of_each_case() {
        let of = |name: &str, ratio| {
            cell(name, vec![point(1e5, 1.0, 0.9, 1, RingTrend::Steady), point(2e5, ratio, 0.5, 1, RingTrend::Steady)])
        };
        let mut cells: Vec<Cell> =
            (0..8).map(|number| of(&format!("n{number}"), 1.0 - 0.1 * f64::from(number))).collect();
        let large = Cell { size: "512".into(), size_wire: 512.0, ..of("large", 0.7) };
        cells.insert(0, large);
        let results = results(cells);
        let cases = super::super::capture_curves(&results);
        let names =
            |case: usize| -> Vec<&str> { cases[case].settings.iter().map(|curve| curve.name.as_str()).collect() };
        assert_eq!((cases.len(), names(0)), (2, vec!["n0", "n1", "n2", "n5", "n6", "n7"]));
        assert_eq!(names(1), ["large"]);
        assert!(cases[0].case.ends_with("3 of 8") && cases[1].case.starts_with("512"), "{}", cases[0].case);
        let last = &cases[1].settings[0].points[1];
        assert_eq!((last.load_pps, last.captured_of_sent, last.idle_share), (2e5, 0.7, Some(0.5)));
        let page = crate::html(&results);
        assert_eq!(
            (page.matches("<figcaption>Captured of").count(), page.matches("<figcaption>Idle share").count()),
            (2, 2)
        );
    }

    #[test]
    fn what_is_doubtful_is_said() {
        let of =
            |name, ring_trend| cell(name, vec![CapturePoint { sent_pps: 1.0, ..point(1e5, 1.0, 0.5, 1, ring_trend) }]);
        let results_of = |cells| recommendation(&results(cells)).join(" ");
        let text = results_of(vec![of("a", RingTrend::FullIn), of("b", RingTrend::FullIn)]);
        assert!(text.contains("2 settings captured as much") && text.contains("No load was really sent"), "{text}");
        assert!(text.contains("a longer run loses packets"), "{text}");
        let text = results_of(vec![of("a", RingTrend::TooShort)]);
        assert!(text.contains("One setting was measured") && text.contains("too short"), "{text}");
        assert_eq!(results_of(Vec::new()), "");
    }
}
