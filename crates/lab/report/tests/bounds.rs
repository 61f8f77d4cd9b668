//! Stated bounds: on made-up machines whose pace drifts, neighbouring runs overlap within them; a calm machine's are those of the repetitions.
//!
//! `cargo test -p linerate-report --test all bounds:: -- --nocapture` prints the shares.

use super::experiment;

use experiment::{Device, Random, finding, sizes, trial};
use linerate_report::{
    ExperimentTrial, GoalBounds, GoalFound, LimitedBy, Noise, RateBounds, Results, SearchStop, StatedBounds,
    TestResult, results_terminal, stated_bounds,
};

const DEVICE: Device = Device { capacity_pps: 8e5, noise: 0.0, baseline_pps: 1.5e6 };

fn search(carries_pps: f64) -> TestResult {
    let goal = GoalFound {
        name: "NDR".to_owned(),
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        lower_pps: Some(carries_pps / 1.025),
        upper_pps: Some(carries_pps * 1.025),
        conditional_pps: None,
        width: 0.05,
        irregular: false,
        limited_by: LimitedBy::Loss,
        tester_limited: false,
        stop: SearchStop::Resolved,
        confirmations: 0,
        overturned: 0,
        outside_interruptions: true,
        with_interruptions: None,
    };
    TestResult::Throughput { goals: vec![goal] }
}

/// A repetition: a search, then trials under overload, with the loop's time and the cache line's beside each.
fn repetition(number: u32, carries_pps: f64, delivered_pps: &[f64], (loop_ns, line_ns): (f64, f64)) -> Vec<Made> {
    let overload =
        TestResult::Capacity { delivered_pps: delivered_pps.to_vec(), sent_pps: vec![1.5e6; delivered_pps.len()] };
    [search(carries_pps), overload].map(|found| Made { number, found, loop_ns, line_ns }).into()
}

struct Made {
    number: u32,
    found: TestResult,
    loop_ns: f64,
    line_ns: f64,
}

fn run(found: Vec<Made>) -> Results {
    thread_local!(static BEFORE: (Results, ExperimentTrial) = {
        let mut results = sizes(1, 1, 1e6, 0.01);
        results.cells.truncate(1);
        results.cells[0].findings.clear();
        (results, trial("one", 64, 1, 7e5, 8e5, &DEVICE))
    });
    let (mut results, before) = BEFORE.with(Clone::clone);
    let findings = found.into_iter().map(|Made { number, found, loop_ns, line_ns }| {
        let mut made = before.clone();
        let (generator_pace_ns, dut_pace_ns) = (Some(27e3), Some(loop_ns));
        made.machine.noise =
            Noise { generator_pace_ns, dut_pace_ns, cache_line_ns: Some(line_ns), ..made.machine.noise };
        finding(number, found, vec![made])
    });
    results.cells[0].findings = findings.collect();
    results
}

fn stated(results: &Results) -> StatedBounds {
    stated_bounds(results).expect("rates")
}

fn rate<'a>(stated: &'a StatedBounds, figure: &str) -> &'a RateBounds {
    stated.rates.iter().find(|rate| rate.figure == figure).expect("the figure")
}

#[test]
fn the_summary_has_the_capacity_of_the_table() {
    // The middle one of all nine trials is 820, that of the repetitions' medians 810 kpps.
    let all: [&[f64]; 3] = [&[7.0e5, 8.1e5, 8.2e5], &[7.9e5, 8.0e5, 8.3e5], &[8.2e5, 8.3e5, 8.4e5]];
    let made = (1..).zip(all).flat_map(|(number, trials)| repetition(number, 7.0e5, trials, (27e3, 100.0)));
    let results = run(made.collect());
    let stated = stated(&results);
    let capacity = rate(&stated, "capacity");
    assert_eq!((capacity.pps, capacity.lower_pps, capacity.upper_pps), (8.1e5, 7.0e5, 8.4e5));
    let text = results_terminal(&results, 4_000, false);
    assert!(text.contains("810.0 kpps under overload (700.0 kpps to 840.0 kpps)"), "{text}");
    let row = text.lines().find(|line| line.contains("capacity") && line.contains("kpps")).expect("a row");
    assert!(row.contains("810.0 kpps"), "{text}");
}

#[test]
fn a_machine_that_kept_its_pace_states_the_bounds_of_the_repetitions() {
    let of = |slow_loop_ns: f64, far_line_ns: f64| {
        run([
            repetition(1, 7.0e5, &[7.9e5, 8.0e5, 8.1e5], (27e3, 100.0)),
            repetition(2, 7.2e5, &[8.0e5, 8.0e5, 8.0e5], (slow_loop_ns, far_line_ns)),
            repetition(3, 7.1e5, &[8.1e5, 7.6e5, 8.1e5], (27e3, 104.0)),
        ]
        .into_iter()
        .flatten()
        .collect())
    };
    let calm = stated(&of(28e3, 140.0));
    let ndr = rate(&calm, "NDR");
    assert!(calm.kept_pace && ndr.machine.is_none(), "{calm:#?}");
    assert_eq!((ndr.lower_pps, ndr.upper_pps), (7.0e5 / 1.025, 7.2e5 * 1.025));
    assert_eq!(ndr.spread, GoalBounds { lower_pps: Some(7.0e5 / 1.025), upper_pps: Some(7.2e5 * 1.025) });
    // The same rates on a machine that moved: each repetition as it would have been at 760 and at 810 kpps under overload.
    for moved in [of(29e3, 140.0), of(27e3, 180.0)] {
        let moved = stated(&moved);
        let ndr = rate(&moved, "NDR");
        let machine = [7.0e5 / 1.025 * (7.6 / 8.0), 7.2e5 * 1.025 * (8.1 / 8.0)];
        assert!(!moved.kept_pace);
        assert_eq!(ndr.machine, Some(GoalBounds { lower_pps: Some(machine[0]), upper_pps: Some(machine[1]) }));
        assert_eq!([ndr.lower_pps, ndr.upper_pps], machine);
        let capacity = rate(&moved, "capacity");
        assert_eq!((capacity.pps, capacity.lower_pps, capacity.upper_pps), (8.0e5, 7.6e5, 8.1e5));
    }
    let text = results_terminal(&of(29e3, 140.0), 4_000, false);
    assert!(text.contains("692.7 kpps without loss (NDR, 648.8 kpps to 747.2 kpps)"), "{text}");
    assert!(text.contains("from the slowest to the fastest moment of this run"), "{text}");
}

#[test]
fn what_is_not_known_widens_nothing_and_a_lost_core_is_no_distance() {
    let without = |mut results: Results| {
        results.cells[0].findings.retain(|finding| finding.test == "throughput");
        results
    };
    let moved =
        || run([1, 2].into_iter().flat_map(|n| repetition(n, 7e5, &[8e5], (27e3 * f64::from(n), 1e2))).collect());
    let found = stated(&without(moved()));
    assert!(!found.kept_pace && rate(&found, "NDR").machine.is_none());
    // A repetition without trials under overload is held against all of them.
    let mut results = moved();
    results.cells[0].findings.remove(1);
    assert!(rate(&stated(&results), "NDR").machine.is_some());
    let lines = [100.0, 222_000.0, 105.0];
    let lost = (1..).zip(lines).flat_map(|(n, line_ns)| repetition(n, 7e5, &[8e5], (27e3, line_ns)));
    let lost = stated(&run(lost.collect()));
    assert_eq!((lost.cache_line_ns, lost.kept_pace), (Some([100.0, 105.0]), true));
    let mut nothing = moved();
    nothing.cells[0].findings.clear();
    assert_eq!(stated_bounds(&nothing), None);
}

/// The device takes 850 ns and 1.2 round trips for a packet. With one flow the cores were far from each other all the time, with many near at first.
#[test]
fn a_cell_that_saw_far_cores_only_is_restated_by_what_another_one_saw() {
    let carried = |line_ns: f64| 1e9 / (850.0 + 1.2 * line_ns);
    let made = |lines: [f64; 3]| {
        (1..).zip(lines).flat_map(|(number, line_ns)| {
            let pps = carried(line_ns);
            repetition(number, 0.9 * pps, &[pps, pps, pps], (27e3, line_ns))
        })
    };
    let mut results = run(made([400.0; 3]).collect());
    let mut other = run(made([100.0, 400.0, 400.0]).collect()).cells.remove(0);
    other.id = "many".to_owned();
    results.cells.push(other);
    let bounds = stated(&results);
    let near = |figure: &str| {
        let of_cell = |cell: &str| bounds.rates.iter().find(|rate| rate.cell == cell && rate.figure == figure);
        [of_cell(&results.cells[0].id).expect("one flow").clone(), of_cell("many").expect("many").clone()]
    };
    let is = |pps: f64, expected: f64| (pps / expected - 1.0).abs() < 1e-6;
    for rate in near("capacity") {
        assert!(is(rate.lower_pps, carried(400.0)) && is(rate.upper_pps, carried(100.0)), "{rate:#?}");
    }
    for rate in near("NDR") {
        let ends = [carried(400.0) * 0.9 / 1.025, carried(100.0) * 0.9 * 1.025];
        assert!(is(rate.lower_pps, ends[0]) && is(rate.upper_pps, ends[1]), "{rate:#?}");
    }
    let [one, _] = near("NDR");
    assert!(is(one.spread.upper_pps.expect("a bound"), carried(400.0) * 0.9 * 1.025), "{one:#?}");
}

/// How a made-up machine moves. Times are in repetitions: a run of three lasts 3.
#[derive(Debug, Clone, Copy)]
enum Machine {
    Calm,
    /// Its cores are moved apart and back, after so long on average.
    Moved(f64),
    /// Neighbours come and go: a walk between 0.6 and 1, of such steps.
    Walk(f64),
}

struct Pace {
    machine: Machine,
    random: Random,
    speed: f64,
}

impl Pace {
    fn speed_after(&mut self, time: f64) -> f64 {
        match self.machine {
            Machine::Calm => {}
            Machine::Moved(dwell) => {
                if self.random.unit() < 0.5 * (1.0 - (-2.0 * time / dwell).exp()) {
                    self.speed = if self.speed > 0.85 { 0.7 } else { 1.0 };
                }
            }
            Machine::Walk(step) => {
                self.speed = (self.speed + step * time.sqrt() * self.random.normal()).clamp(0.6, 1.0)
            }
        }
        self.speed
    }

    /// A run of so many repetitions; a search errs by 2 %, a trial under overload by 1 %.
    fn run(&mut self, repetitions: u32) -> Results {
        let found = (1..=repetitions).flat_map(|number| {
            let speed = self.speed_after(0.6);
            let carries_pps = 7e5 * speed * (1.0 + 0.02 * self.random.normal());
            let rates = [(); 3].map(|()| 8e5 * self.speed_after(0.1) * (1.0 + 0.01 * self.random.normal()));
            self.speed_after(0.1);
            repetition(number, carries_pps, &rates, (27e3 / speed, 100.0))
        });
        run(found.collect())
    }
}

const RUNS: usize = 500;

/// Of neighbouring runs: the share that overlaps within the bounds of the repetitions alone, and within those stated; and the mean half-width
/// of the latter.
fn shares(machine: Machine, repetitions: u32) -> [f64; 3] {
    let mut pace = Pace { machine, random: Random(1), speed: 1.0 };
    let runs: Vec<RateBounds> = (0..RUNS).map(|_| rate(&stated(&pace.run(repetitions)), "NDR").clone()).collect();
    let share = |ends: &dyn Fn(&RateBounds) -> [f64; 2]| {
        let overlap = |pair: &&[RateBounds]| {
            let [one, other] = [ends(&pair[0]), ends(&pair[1])];
            one[0] <= other[1] && other[0] <= one[1]
        };
        runs.windows(2).filter(overlap).count() as f64 / (runs.len() - 1) as f64
    };
    let spread = |rate: &RateBounds| [rate.spread.lower_pps, rate.spread.upper_pps].map(|end| end.expect("a rate"));
    let width = |rate: &RateBounds| (rate.upper_pps - rate.lower_pps) / 2.0 / rate.pps;
    let mean_width = runs.iter().map(width).sum::<f64>() / runs.len() as f64;
    [share(&spread), share(&|rate| [rate.lower_pps, rate.upper_pps]), mean_width]
}

#[test]
fn neighbouring_runs_overlap_on_machines_whose_pace_drifts() {
    let machines = [
        Machine::Calm,
        Machine::Moved(0.5),
        Machine::Moved(1.0),
        Machine::Moved(3.0),
        Machine::Moved(40.0),
        Machine::Walk(0.05),
        Machine::Walk(0.15),
    ];
    for machine in machines {
        let [of_three, of_five] = [3, 5].map(|repetitions| shares(machine, repetitions));
        println!("{machine:?}: three {of_three:.3?}, five {of_five:.3?}");
        for [spread, stated, width] in [of_three, of_five] {
            assert!(stated >= spread);
            assert!(stated >= 0.9, "{machine:?}: {stated}");
            assert!(!matches!(machine, Machine::Calm) || width < 0.07, "{width}");
        }
        assert!(of_five[1] >= 0.95, "{machine:?}: {of_five:?}");
        // The repetitions alone miss what drifts.
        assert!(!matches!(machine, Machine::Walk(_)) || of_three[0] < 0.93, "{machine:?}: {of_three:?}");
    }
}
