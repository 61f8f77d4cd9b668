//! A comparison for people and programs.

use super::words::{by_size, change, headline, interval, name, sentences};
use super::{Compared, Comparison, Pair, Reason, Verdict};
use crate::figure::median;
use crate::html::{Page, table as html_table};
use crate::markdown::table as markdown_table;
use crate::overview::{Entry, Grid, Tone, Topic};
use crate::terminal::grids;

/// More figures than this without a significant difference are only counted.
const ROWS_MAX: usize = 300;

/// The comparison for a terminal of `columns` columns, with or without colours.
pub fn comparison_terminal(comparison: &Comparison, columns: usize, colour: bool) -> String {
    let mut text = String::new();
    for pair in &comparison.pairs {
        text.push_str(&grids(&headline(pair), &sentences(comparison, pair), &pair_grids(pair), columns, colour));
    }
    text
}

/// The comparison as Markdown.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let mut text = String::from("# Comparison\n");
    for pair in &comparison.pairs {
        text.push_str(&format!("\n**{}**\n\n", crate::markdown::escaped(&headline(pair))));
        for sentence in sentences(comparison, pair) {
            text.push_str(&format!("- {}\n", crate::markdown::escaped(&sentence)));
        }
        text.extend(pair_grids(pair).iter().map(markdown_table));
    }
    text
}

/// The comparison as one HTML file that needs nothing else.
pub fn comparison_html(comparison: &Comparison) -> String {
    let mut page = Page::new("Comparison");
    page.raw("<header>");
    page.element("h1", "", "Comparison");
    page.raw("</header><main>");
    for pair in &comparison.pairs {
        page.raw("<section class=\"summary\">");
        page.element("h2", "", &headline(pair));
        page.raw("<ul>");
        for sentence in sentences(comparison, pair) {
            page.element("li", "", &sentence);
        }
        page.raw("</ul></section>");
        for grid in pair_grids(pair) {
            page.raw("<section>");
            page.element("h2", "", &grid.title);
            html_table(&mut page, &grid);
            for note in &grid.notes {
                page.element("p", "note", note);
            }
            page.raw("</section>");
        }
    }
    page.raw("</main>");
    page.finish()
}

/// The comparison as JSON: indented, one line end at the end.
pub fn comparison_json(comparison: &Comparison) -> String {
    let mut text = serde_json::to_string_pretty(comparison).unwrap_or_default();
    text.push('\n');
    text
}

fn pair_grids(pair: &Pair) -> Vec<Grid> {
    let is_same = |figure: &&Compared| figure.verdict == Verdict::Same;
    let is_rest = |figure: &&Compared| !is_same(figure) && !figure.is_difference() && !figure.is_inconclusive();
    let limited = grid("Not judged: nothing of the DUT", pair.figures.iter().filter(is_rest).collect());
    let mut same = grid("No significant difference", pair.figures.iter().filter(is_same).collect());
    same.notes.push(
        "before and after: medians; change: Hodges and Lehmann's estimate; interval: where the change lies, for all figures \
         together at the significance level."
            .to_owned(),
    );
    let mut settings = Grid::new(
        Topic::Environment,
        "Conditions that differ",
        &[("what", false), ("before", false), ("after", false)],
    );
    settings.rows = pair.settings.iter().map(|s| [&s.what, &s.before, &s.after].map(Entry::new).into()).collect();
    let mut only = Grid::new(Topic::Missing, "On one side only, not compared", &[("figure", false), ("side", false)]);
    let only_one = |list: &[String], words: &'static str| -> Vec<Vec<Entry>> {
        list.iter().take(ROWS_MAX).map(|figure| vec![Entry::new(figure), Entry::new(words)]).collect()
    };
    only.rows = only_one(&pair.only_before, "before");
    only.rows.extend(only_one(&pair.only_after, "after"));
    let differences = grid("Significant differences", pair.differences().collect());
    let inconclusive = grid("Inconclusive", by_size(pair));
    [differences, inconclusive, settings, same, limited, only]
        .into_iter()
        .filter(|grid| !grid.rows.is_empty())
        .collect()
}

/// A table of figures. A column that says nothing, or the same number of values for all of them, is left out.
fn grid(title: &'static str, figures: Vec<&Compared>) -> Grid {
    let all = [
        ("cell", false),
        ("figure", false),
        ("values", true),
        ("before", true),
        ("after", true),
        ("change", true),
        ("interval", true),
        ("verdict", false),
        ("remark", false),
    ];
    let numbers = |figure: &Compared| (figure.before.len(), figure.after.len());
    let is_complete = |figure: &Compared| figure.before_missing.is_empty() && figure.after_missing.is_empty();
    let first = figures.first().map(|figure| numbers(figure));
    let same = first.filter(|first| figures.iter().all(|figure| is_complete(figure) && numbers(figure) == *first));
    let is_kept = |column: &str| match column {
        "values" => same.is_none(),
        "interval" => figures.iter().any(|figure| figure.interval.is_some()),
        "verdict" => figures.iter().any(|figure| verdict(figure).1 != Tone::Plain || figure.is_significant),
        "remark" => figures.iter().any(|figure| !remarks(figure).is_empty()),
        _ => true,
    };
    let columns: Vec<_> = all.into_iter().filter(|(column, _)| is_kept(column)).collect();
    let mut grid = Grid::new(Topic::Tests, title, &columns);
    let kept = |entries: Vec<Entry>| {
        let named = all.iter().zip(entries).filter(|((column, _), _)| is_kept(column));
        named.map(|(_, entry)| entry).collect()
    };
    grid.rows = figures.iter().take(ROWS_MAX).map(|figure| kept(row(figure))).collect();
    if figures.len() > ROWS_MAX {
        grid.notes.push(format!("and {} more", figures.len() - ROWS_MAX));
    }
    grid.notes.extend(same.map(|(before, after)| format!("values of each figure: {before} before, {after} after")));
    grid
}

fn row(figure: &Compared) -> Vec<Entry> {
    let words = |values: &[f64]| match values {
        [] => "none".to_owned(),
        _ => figure.words.0.words(median(values)),
    };
    let number = |values: &[f64], missing: &[String]| match missing {
        [] => values.len().to_string(),
        _ => format!("{} of {}", values.len(), values.len() + missing.len()),
    };
    let (before, after) =
        (number(&figure.before, &figure.before_missing), number(&figure.after, &figure.after_missing));
    let (verdict, tone) = verdict(figure);
    let change_tone = if figure.is_large && tone == Tone::Doubtful { Tone::Bad } else { tone };
    vec![
        Entry::new(&figure.cell),
        Entry::new(name(figure)),
        Entry::new(format!("{before}, {after}")),
        Entry::new(words(&figure.before)),
        Entry::new(words(&figure.after)),
        Entry::toned(change(figure, figure.shift), change_tone),
        Entry::new(interval(figure)),
        Entry::toned(verdict, tone),
        Entry::toned(remarks(figure), Tone::Doubtful),
    ]
}

/// What makes the figure doubtful, and why it has no value.
fn remarks(figure: &Compared) -> String {
    let missing = figure.before_missing.first().into_iter().chain(figure.after_missing.first());
    figure.marks.iter().copied().chain(missing.map(String::as_str)).collect::<Vec<_>>().join(", ")
}

fn verdict(figure: &Compared) -> (&'static str, Tone) {
    match figure.verdict {
        Verdict::Same if figure.is_significant => ("too small to count", Tone::Plain),
        Verdict::Same => ("not significant", Tone::Plain),
        Verdict::Better => ("better", Tone::Good),
        Verdict::Worse => ("worse", Tone::Bad),
        Verdict::Different => ("different", Tone::Strong),
        Verdict::Gone => ("gone", Tone::Bad),
        Verdict::Appeared => ("new", Tone::Good),
        Verdict::Limited => ("limit on both sides", Tone::Plain),
        Verdict::Inconclusive => (figure.reason.map_or("inconclusive", reason), Tone::Doubtful),
    }
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::OneRepetition => "not judged: one repetition",
        Reason::Spread => "varies too much",
        Reason::Missing => "some values missing",
        Reason::Disturbed => "all disturbed",
        Reason::Busier => "one side busier",
        Reason::Tester => "tester's limit",
        Reason::NotMeasured => "not measured",
    }
}
