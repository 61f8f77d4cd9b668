//! What each core did, by kind of work.

use super::chart::{Svg, WIDTH};
use super::page::{Page, shortened};
use crate::overview::cores_trial;
use crate::overview::labels::Labels;
use crate::units::percent;
use crate::{CoreUse, Results};

const ROWS_MAX: usize = 48;
const ROW: f64 = 26.0;
const KINDS: [(&str, &str); 6] =
    [("f1", "user"), ("f6", "system"), ("f3", "softirq"), ("f4", "irq"), ("f2", "steal"), ("f0", "idle")];

pub(super) fn chart(page: &mut Page, results: &Results, labels: &Labels) {
    let cells = results.cells.iter().enumerate();
    let cores = cells.flat_map(|(index, cell)| {
        let cores = cores_trial(cell).map(|made| made.trial.cpu.as_slice()).unwrap_or_default();
        cores.iter().map(move |core| (index, core))
    });
    let cores: Vec<(usize, &CoreUse)> = cores.take(ROWS_MAX).collect();
    if cores.is_empty() {
        return;
    }
    let heads = cores.chunk_by(|one, other| one.0 == other.0).count();
    let mut svg = Svg::new(WIDTH, cores.len() as f64 * ROW + heads as f64 * 18.0 + 2.0);
    let (mut y, mut before) = (0.0, None);
    for (cell, core) in cores {
        if before != Some(cell) {
            svg.text("b", (0.0, y + 13.0), "start", &shortened(labels.of(cell), 50));
            y += 18.0;
            before = Some(cell);
        }
        let role = core.role.as_deref().unwrap_or("");
        svg.text("t", (0.0, y + 10.0), "start", &shortened(&format!("core {} {role}", core.core), 40));
        let full = if core.idle <= 0.05 { "at 100 %" } else { "" };
        svg.text("b d", (WIDTH, y + 10.0), "end", full);
        let mut x = 0.0;
        let shares = [core.user, core.system, core.softirq, core.irq, core.steal, core.idle];
        for ((class, kind), share) in KINDS.iter().zip(shares) {
            let width = if share.is_finite() { share.clamp(0.0, 1.0) * WIDTH } else { 0.0 };
            let width = width.min(WIDTH - x);
            if width > 0.05 {
                let title = format!("core {} {role}: {kind} {}", core.core, percent(share));
                svg.rect(class, (x, y + 13.0), (width, 8.0), &title);
            }
            x += width;
        }
        y += ROW;
    }
    let swatch = |class: &str| format!("<rect class=\"{class}\" y=\"1\" width=\"26\" height=\"8\"/>");
    let legend: Vec<_> = KINDS.iter().map(|(class, kind)| (swatch(class), (*kind).to_owned())).collect();
    page.raw("<div class=\"charts wide\">");
    let description =
        "Share of each core's time by kind of work, in the trial at the rate found; the values are in the table.";
    svg.put(page, "Cores, at the rate found", description, &legend);
    page.raw("</div>");
}
