//! A trial on its time axis: when packets were lost, and when which core was away.

use super::chart::{Svg, WIDTH};
use super::page::Page;
use crate::number::sum;
use crate::units::{count, nanoseconds};
use crate::{ExperimentTrial, Stall, StalledPart};

const LOSS_HEIGHT: f64 = 90.0;
const LANE: f64 = 26.0;
const LEFT: f64 = 78.0;
/// A stall is at least this wide, so that it can be seen and pointed at.
const WIDTH_MIN: f64 = 1.5;

/// Draws loss above stalls; nothing where neither is known, or nothing happened.
pub(super) fn picture(page: &mut Page, made: &ExperimentTrial) {
    let stalls = &made.machine.stalls;
    let bins = stalls.loss.as_ref().map(|loss| (loss.bin_ns, loss.lost.as_slice())).unwrap_or_default();
    let lost = sum(bins.1.iter().copied());
    if stalls.list.is_empty() && lost == 0 {
        return;
    }
    let whole_ns = made.trial.duration_ns.max(bins.0.saturating_mul(bins.1.len() as u64)).max(1) as f64;
    let x = |ns: f64| LEFT + (ns / whole_ns).clamp(0.0, 1.0) * (WIDTH - LEFT);
    let lanes = lanes(&stalls.list);
    let bottom = LOSS_HEIGHT + lanes.len() as f64 * LANE;
    let mut svg = Svg::new(WIDTH, bottom + 18.0);
    let most = bins.1.iter().copied().max().unwrap_or(0).max(1) as f64;
    svg.text("t", (0.0, 12.0), "start", "packets lost");
    svg.text("t", (0.0, 26.0), "start", &format!("at most {}", count(most as u64)));
    for (number, packets) in bins.1.iter().enumerate().filter(|(_, packets)| **packets > 0) {
        let (from, to) = (x(number as f64 * bins.0 as f64), x((number + 1) as f64 * bins.0 as f64));
        let height = (*packets as f64 / most * (LOSS_HEIGHT - 10.0)).max(1.0);
        let title = format!("{} lost at {}", count(*packets), nanoseconds(number as f64 * bins.0 as f64));
        svg.rect("lost", (from, LOSS_HEIGHT - height), ((to - from).max(1.0), height), &title);
    }
    svg.line("g", (LEFT, LOSS_HEIGHT), (WIDTH, LOSS_HEIGHT));
    for (lane, (core, of)) in lanes.iter().enumerate() {
        let y = LOSS_HEIGHT + lane as f64 * LANE + 5.0;
        svg.text("", (0.0, y + 12.0), "start", &lane_words(*core, *of));
        for stall in stalls.list.iter().filter(|stall| (stall.core, stall.part) == (*core, *of)) {
            let (from, length) = (x(stall.start_ns as f64), stall.duration_ns as f64 / whole_ns * (WIDTH - LEFT));
            let class = if stall.interruption { "f4" } else { "f0" };
            svg.rect(class, (from, y), (length.max(WIDTH_MIN), LANE - 10.0), &stall_words(stall));
        }
        svg.line("g", (LEFT, y + LANE - 7.0), (WIDTH, y + LANE - 7.0));
    }
    for share in [0.0, 0.5, 1.0] {
        let anchor = if share == 0.0 {
            "start"
        } else if share == 1.0 {
            "end"
        } else {
            "middle"
        };
        svg.text("t", (x(share * whole_ns), bottom + 13.0), anchor, &nanoseconds(share * whole_ns));
    }
    let description = format!(
        "{} lost packets by the time when they were sent, above {} times when a core was away.",
        count(lost),
        count(stalls.list.len() as u64)
    );
    let swatch = |class: &str| format!("<rect class=\"{class}\" width=\"26\" height=\"10\"/>");
    let legend =
        [("lost", "packets lost"), ("f4", "core away: interruption"), ("f0", "core away: the device's own doing")];
    let legend = legend.map(|(class, name)| (swatch(class), name.to_owned()));
    svg.put(page, "Loss and stalls over the trial", &description, &legend);
}

/// A lane for each core and part, in order.
fn lanes(stalls: &[Stall]) -> Vec<(Option<u32>, StalledPart)> {
    let mut lanes: Vec<(Option<u32>, StalledPart)> = Vec::new();
    for stall in stalls {
        if !lanes.contains(&(stall.core, stall.part)) {
            lanes.push((stall.core, stall.part));
        }
    }
    lanes.sort_by_key(|(core, of)| (*of == StalledPart::Dut, *core));
    lanes
}

fn lane_words(core: Option<u32>, of: StalledPart) -> String {
    let part = if of == StalledPart::Generator { "generator" } else { "DUT" };
    core.map_or(part.to_owned(), |core| format!("{part}, core {core}"))
}

fn stall_words(stall: &Stall) -> String {
    let lost = if stall.lost > 0 { format!(", {} lost", count(stall.lost)) } else { String::new() };
    let (at, length) = (nanoseconds(stall.start_ns as f64), nanoseconds(stall.duration_ns as f64));
    format!("{length} from {at} on: {}{lost}", stall.by.words())
}
