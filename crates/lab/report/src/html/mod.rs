//! An experiment's results as one HTML file that needs nothing else: no network, no script, no font.
//!
//! What is said comes from `overview`, so it is what the other outputs say; this adds the pictures. `style` is the look, `chart` the
//! drawing, the other files one picture each.

mod bars;
mod captures;
mod chart;
mod cores;
mod echoes;
mod flow;
mod latency;
mod loss;
mod page;
mod shares;
mod sizes;
mod spread;
mod style;
mod tables;
mod timeline;

use crate::figure::summaries;
use crate::overview::labels::Labels;
use crate::overview::{Grid, KeyFigure, LEDGERS_MAX, Topic, key_figures, ledger_trials, overview};
use crate::{ExperimentTrial, Finding, Results};
pub(crate) use page::Page;
pub(crate) use tables::table;

/// Pictures of one kind on a page.
const CHARTS_MAX: usize = 12;

/// Writes what an experiment found as one HTML file of less than 2 MB. Text of the results cannot become markup.
pub fn html(results: &Results) -> String {
    let overview = overview(results);
    let labels = Labels::new(results);
    let (figures, _) = summaries(results);
    let mut page = Page::new(&overview.title);
    page.raw("<header>");
    page.element("h1", "", &overview.title);
    page.element("p", "faint", &overview.subtitle);
    if !overview.about.is_empty() {
        page.element("p", "about", &overview.about);
    }
    page.raw("</header><main>");
    for warning in &overview.warnings {
        page.element("p", "warning", &format!("Warning: {warning}"));
    }
    summary(&mut page, &overview.sentences, &key_figures(results, &labels, &figures));
    for grid in &overview.grids {
        let title = &grid.title;
        let collapsed = matches!(grid.topic, Topic::Environment);
        page.raw(if collapsed { "<section><details class=\"print\"><summary>" } else { "<section>" });
        page.element("h2", "", title);
        page.raw(if collapsed { "</summary>" } else { "" });
        match grid.topic {
            Topic::Ranking => captures::charts(&mut page, results),
            Topic::Throughput => {
                sizes::charts(&mut page, results, &figures);
                bars::throughput(&mut page, results, &labels, &figures);
            }
            Topic::SessionLimits => bars::sessions(&mut page, &labels, &figures),
            Topic::Echoes => echoes::charts(&mut page, results, &labels, &figures),
            Topic::Loss => loss::charts(&mut page, results),
            Topic::Latency => latency::charts(&mut page, results, &labels),
            Topic::Cost => bars::costs(&mut page, &labels, &figures),
            Topic::Cores => cores::chart(&mut page, results, &labels),
            Topic::Noise => spread::chart(&mut page, &labels, &figures),
            _ => {}
        }
        grid_table(&mut page, grid);
        page.raw(if collapsed { "</details></section>" } else { "</section>" });
        if grid.topic == Topic::Cores {
            ledgers(&mut page, results, &labels);
        }
    }
    page.raw("</main>");
    page.finish()
}

/// Long tables below their picture are folded.
fn grid_table(page: &mut Page, grid: &Grid) {
    let has_picture = matches!(grid.topic, Topic::Loss | Topic::Latency | Topic::Cost | Topic::Cores | Topic::Noise);
    if has_picture {
        page.raw("<details><summary>");
        page.text(&format!("All {} rows", grid.rows.len()));
        page.raw("</summary>");
    }
    table(page, grid);
    if has_picture {
        page.raw("</details>");
    }
    for note in &grid.notes {
        page.element("p", "note", note);
    }
}

fn summary(page: &mut Page, sentences: &[String], keys: &[KeyFigure]) {
    page.raw("<section class=\"summary\"><h2>Summary</h2><ul>");
    for sentence in sentences {
        page.element("li", "", sentence);
    }
    page.raw("</ul><dl class=\"keys\">");
    for key in keys {
        page.raw(if key.marks.is_empty() { "<div>" } else { "<div class=\"marked\">" });
        page.element("dt", "", &key.label);
        page.element("dd", "value", &key.value);
        page.element("dd", "faint", &key.detail);
        if !key.marks.is_empty() {
            page.element("dd", "mark", &key.marks);
        }
        page.raw("</div>");
    }
    page.raw("</dl></section>");
}

/// The trial of each cell that lost most, as a flow and as a table.
fn ledgers(page: &mut Page, results: &Results, labels: &Labels) {
    let trials = ledger_trials(results);
    if trials.is_empty() {
        return;
    }
    page.raw("<section><h2>Where the packets went</h2>");
    page.element("p", "note", "Of each cell the trial that lost most. All trials are in ledger.csv.");
    for (number, (cell, made)) in trials.iter().take(LEDGERS_MAX).enumerate() {
        page.raw(if number == 0 { "<details open><summary>" } else { "<details><summary>" });
        page.text(&format!("{}: {}", labels.of(*cell), flow::words(&made.trial)));
        page.raw("</summary><div class=\"charts\">");
        flow::picture(page, &made.trial);
        timeline::picture(page, made);
        page.raw("</div>");
        tables::ledger(page, &made.trial);
        if let Some(interrupted) = most_interrupted(results, *cell).filter(|other| other.trial.name != made.trial.name)
        {
            page.element("p", "note", &format!("Interruptions cost most in {}:", interrupted.trial.name));
            page.raw("<div class=\"charts\">");
            timeline::picture(page, interrupted);
            page.raw("</div>");
        }
        page.raw("</details>");
    }
    page.raw("</section>");
}

/// The trial of a cell that interruptions cost most packets, where they cost some.
fn most_interrupted(results: &Results, cell: usize) -> Option<&ExperimentTrial> {
    let trials = results.cells.get(cell)?.findings.iter().flat_map(Finding::used_trials);
    trials
        .max_by_key(|made| made.machine.stalls.lost_in_interruptions)
        .filter(|made| made.machine.stalls.lost_in_interruptions > 0)
}
