//! `cargo bench`: each hot loop seven times, in turn with the others, as nanoseconds and cycles on a core per packet.
//!
//! Time on a core is thread time, which other load does not lengthen as it does wall time; two-core loops depend on where the
//! two cores are, so the time of a cache line there and back is printed before and after. Beside other tools: `peers`.

use linerate_benches::loops::LOOPS;
use linerate_benches::measure::cycles_per_ns;
use linerate_benches::say;
use linerate_sys::affinity;
use linerate_tester::cache_line;

const RUNS: usize = 7;
const PACKETS: u64 = 5_000_000;

fn main() {
    let allowed = affinity::allowed_cores();
    let cores = [allowed[0], *allowed.last().unwrap_or(&allowed[0])];
    let cycles = cycles_per_ns();
    say!("{cycles:.2} cycles a nanosecond; {}", round_trip(cores));
    let mut taken: Vec<Vec<f64>> = vec![Vec::new(); LOOPS.len()];
    for _ in 0..RUNS {
        for (one, taken) in LOOPS.iter().zip(&mut taken) {
            let run = std::thread::spawn(move || (one.run)(cores, PACKETS.min(one_core_share(one.name)))).join();
            taken.extend(run.ok().map(|run| run.core_ns.max(1) as f64 / run.packets.max(1) as f64));
        }
    }
    say!("{:24} {:>8} {:>8} {:>8}  ns on a core per packet; cycles at the median", "", "min", "median", "max");
    for (one, taken) in LOOPS.iter().zip(&mut taken) {
        taken.sort_by(f64::total_cmp);
        if let (Some(min), Some(median), Some(max)) = (taken.first(), taken.get(taken.len() / 2), taken.last()) {
            say!("{:24} {min:8.2} {median:8.2} {max:8.2}  {:6.0}  {}", one.name, median * cycles, one.what);
        }
    }
    say!("{}", round_trip(cores));
}

/// Round trips of a single line are slow: fewer of them.
fn one_core_share(name: &str) -> u64 {
    if name == "line_round_trip" { PACKETS / 20 } else { PACKETS }
}

fn round_trip(cores: [usize; 2]) -> String {
    match cache_line::round_trip(cores[0], cores[1]) {
        Ok(trip) => format!("a cache line takes {:.0} ns to the other core and back", trip.median_ns),
        Err(error) => format!("no round trip of a cache line: {error}"),
    }
}
