//! `hop [HOPS]`: the time of one packet through the in-process switch, on one core and from one core to another.

use linerate_benches::say;
use linerate_benches::switch;
use linerate_gen::Histogram;
use linerate_sys::affinity;
use linerate_tester::cache_line;

fn main() {
    let hops = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(1_000_000);
    let allowed = affinity::allowed_cores();
    let cores = [allowed[0], *allowed.last().unwrap_or(&allowed[0])];
    show("one core, each the mean of 16 in a row", &switch::hops_one_core(cores[0], hops));
    if cores[0] != cores[1] {
        trip(cores);
        show("from one core to another", &switch::hops_two_cores(cores, hops / 10));
        trip(cores);
    }
}

fn show(what: &str, histogram: &Histogram) {
    let at = |percent| histogram.percentile_ns(percent).unwrap_or(0);
    let (p50, p99, p999) = (at(50.0), at(99.0), at(99.9));
    say!("{what}: p50 {p50} ns, p99 {p99} ns, p99.9 {p999} ns, of {}", histogram.count());
}

fn trip(cores: [usize; 2]) {
    if let Ok(trip) = cache_line::round_trip(cores[0], cores[1]) {
        say!("a cache line takes {:.0} ns to the other core and back", trip.median_ns);
    }
}
