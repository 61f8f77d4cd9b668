//! `peers [--runs N] [--into FOLDER] [NAME...]`: our hot paths beside other tools, alternating, as ratios.
//!
//! Each comparison runs our side and the other one in turn, at least five times; two-core ones with the time of a cache line
//! to the other core and back before and after each run. Results go into `FOLDER/results.csv`, `summary.md` and
//! `environment.json` after each comparison, so that a run that is cut short keeps what it has. FOLDER is `benches/runs/latest` for
//! all comparisons, and `linerate-peers` in the temporary folder for those that are named. Wants root, huge pages (reserved and given
//! back here) and the tools; what is missing is named and left out.

use std::fmt::Write as _;
use std::process::ExitCode;

use linerate_benches::measure::{Spread, cycles_per_ns};
use linerate_benches::peers::compare::{By, COMPARISONS, Comparison, Tools};
use linerate_benches::peers::{Reached, Unable};
use linerate_benches::say;
use linerate_tester::cache_line;

fn main() -> ExitCode {
    let mut runs = 5;
    let mut folder = None;
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--runs" => runs = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(runs),
            "--into" => folder = arguments.next(),
            "--list" => {
                COMPARISONS.iter().for_each(|one| say!("{:26} {} | {}", one.name, one.sides[0], one.sides[1]));
                return ExitCode::SUCCESS;
            }
            name if COMPARISONS.iter().any(|one| one.name == name) => names.push(argument),
            _ => {
                eprintln!(
                    "peers [--runs N] [--into FOLDER] [NAME...]: measures all comparisons, or those named; `peers --list` lists them"
                );
                return ExitCode::from(if argument == "--help" { 0 } else { 2 });
            }
        }
    }
    let folder = folder.unwrap_or_else(|| match names.is_empty() {
        true => "benches/runs/latest".into(),
        false => std::env::temp_dir().join("linerate-peers").display().to_string(),
    });
    let Some(tools) = tools() else {
        eprintln!("build first: cargo build --release -p linerate -p linerate-benches");
        return ExitCode::from(2);
    };
    let _pages = HugePages::reserve(512);
    let mut record = Record::begin(&folder);
    for one in COMPARISONS.iter().filter(|one| names.is_empty() || names.iter().any(|name| name == one.name)) {
        let missing = one.missing();
        if missing.is_empty() {
            record.add(one, &tools, runs);
        } else {
            record.note(&format!("{}: not run, {} is not installed", one.name, missing.join(" and ")));
        }
        record.write(&folder);
    }
    ExitCode::SUCCESS
}

/// Our programs, beside this one.
fn tools() -> Option<Tools> {
    let folder = std::env::current_exe().ok()?.parent()?.to_path_buf();
    let find = |name: &str| folder.join(name).is_file().then(|| folder.join(name).display().to_string());
    Some(Tools { linerate: find("linerate")?, hot_loop: find("linerate-loop")? })
}

/// Huge pages for DPDK, given back when dropped.
struct HugePages {
    before: Option<String>,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    fn reserve(count: u64) -> HugePages {
        let before = std::fs::read_to_string(HUGE_PAGES).unwrap_or_default();
        let enough = before.trim().parse().unwrap_or(0) >= count;
        let reserved = !enough && std::fs::write(HUGE_PAGES, count.to_string()).is_ok();
        HugePages { before: reserved.then_some(before) }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = std::fs::write(HUGE_PAGES, before.trim());
        }
    }
}

/// Cores of one cache: a line goes there and back in less than this, in nanoseconds; else it takes 380 to 500.
const NEAR_NS: f64 = 200.0;

/// What has been measured so far.
struct Record {
    rows: String,
    summary: String,
    notes: String,
    cycles_per_ns: f64,
}

impl Record {
    fn begin(folder: &str) -> Record {
        let _ = std::fs::create_dir_all(folder);
        let environment = serde_json::to_string_pretty(&linerate_testbed::environment::read(None)).unwrap_or_default();
        let _ = std::fs::write(format!("{folder}/environment.json"), environment + "\n");
        Record {
            rows: "comparison,run,side,mpps,core_ns_per_packet,ratio,round_trip_before_ns,round_trip_after_ns\n".into(),
            summary: String::new(),
            notes: String::new(),
            cycles_per_ns: cycles_per_ns(),
        }
    }

    fn note(&mut self, text: &str) {
        say!("{text}");
        let _ = writeln!(self.notes, "- {text}");
    }

    /// Runs one side; once more where it could not be measured, which is noted.
    fn reach(&mut self, one: &Comparison, run: usize, which: &str, tools: &Tools) -> Result<Reached, Unable> {
        let side = if which == "ours" { one.ours } else { one.theirs };
        side(tools).or_else(|why| {
            self.note(&format!("{}, run {run}, {which}, first try: {why}", one.name));
            side(tools)
        })
    }

    /// Runs a comparison, and adds its rows and its line of the summary.
    fn add(&mut self, one: &Comparison, tools: &Tools, runs: usize) {
        let (mut ours, mut theirs, mut ratios, mut trips) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut near = Vec::new();
        for run in 0..runs {
            let before = round_trip(one);
            // Who goes first alternates: what warms up, or tires, favours neither.
            let mut order = ["ours", "theirs"];
            order.rotate_left(run % 2);
            let mut sides = order.map(|which| self.reach(one, run, which, tools));
            sides.rotate_left(run % 2);
            let after = round_trip(one);
            let [mine, other] = match sides {
                [Ok(mine), Ok(other)] => [mine, other],
                [mine, other] => {
                    let why = [mine.err(), other.err()].into_iter().flatten().collect::<Vec<_>>().join("; ");
                    self.note(&format!("{}, run {run}: {why}", one.name));
                    continue;
                }
            };
            let ratio = one.ratio(&mine, &other);
            for (side, reached) in [("ours", mine), ("theirs", other)] {
                let _ = writeln!(
                    self.rows,
                    "{},{run},{side},{:.3},{:.3},{ratio:.3},{before:.0},{after:.0}",
                    one.name, reached.wall_mpps, reached.core_ns
                );
            }
            let value = |reached: &Reached| match one.by {
                By::Core => 1e3 / reached.core_ns,
                By::Wall => reached.wall_mpps,
                By::Cost => reached.core_ns,
            };
            say!(
                "{} {run}: {:.2} beside {:.2}, ratio {ratio:.2}, line {before:.0}/{after:.0} ns",
                one.name,
                value(&mine),
                value(&other)
            );
            ours.push(value(&mine));
            theirs.push(value(&other));
            ratios.push(ratio);
            if before.max(after) < NEAR_NS {
                near.push(ratio);
            }
            trips.extend([before, after].into_iter().filter(|trip| trip.is_finite()));
        }
        if ratios.is_empty() {
            return;
        }
        let show = |spread: Spread| format!("{:.2} / {:.2} / {:.2}", spread.min, spread.median, spread.max);
        if one.two_cores && !near.is_empty() && near.len() < ratios.len() {
            let (count, all) = (near.len(), ratios.len());
            let ratio = show(Spread::of(near));
            self.note(&format!(
                "{}: {count} of {all} runs with the cores near each other before and after (line round trip below {NEAR_NS} \
                 ns): ratio {ratio}",
                one.name
            ));
        }
        let unit = if one.by == By::Cost { "ns of a core" } else { "Mpps" };
        let bar = if one.by == By::Cost { format!("<= {}", one.bar) } else { format!(">= {}", one.bar) };
        let trips = if trips.is_empty() { "-".into() } else { show(Spread::of(trips)) };
        let _ = writeln!(
            self.summary,
            "| {} | {} | {} | {} | {} | {unit} | **{}** | {bar} | {} | {trips} |",
            one.name,
            one.sides[0],
            show(Spread::of(ours)),
            one.sides[1],
            show(Spread::of(theirs)),
            show(Spread::of(ratios.clone())),
            ratios.len(),
        );
    }

    fn write(&self, folder: &str) {
        let summary = format!(
            "# Beside other tools\n\nMin / median / max of alternating runs; the ratio is that of neighbouring runs. Core clock \
             {:.2} cycles/ns. The environment is in `environment.json`, each run in `results.csv`.\n\n\
             | comparison | ours | reached | theirs | reached | unit | ratio | asked for | runs | line round trip, ns |\n\
             |---|---|---|---|---|---|---|---|---|---|\n{}\n{}",
            self.cycles_per_ns, self.summary, self.notes
        );
        let _ = std::fs::write(format!("{folder}/summary.md"), summary);
        let _ = std::fs::write(format!("{folder}/results.csv"), &self.rows);
    }
}

/// Nanoseconds of a cache line to the other core and back; NaN where a comparison has one core, or it could not be measured.
fn round_trip(one: &Comparison) -> f64 {
    if !one.two_cores {
        return f64::NAN;
    }
    cache_line::round_trip(0, 1).map_or(f64::NAN, |trip| trip.min_ns)
}
