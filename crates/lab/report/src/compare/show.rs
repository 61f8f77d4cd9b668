//! A comparison for people and programs.

use super::{Compared, Comparison, Method, Pair, Verdict};
use crate::html::{Page, table as html_table};
use crate::markdown::table as markdown_table;
use crate::overview::{Entry, Grid, Tone, Topic};
use crate::terminal::grids;
use crate::units::percent;

/// More figures without a difference than this are only counted.
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

fn headline(pair: &Pair) -> String {
    let differences = pair.differences().count();
    let worse = pair.differences().filter(|figure| figure.verdict == Verdict::Worse).count();
    let better = pair.differences().filter(|figure| figure.verdict == Verdict::Better).count();
    let busier = pair.figures.iter().filter(|figure| figure.verdict == Verdict::Busier).count();
    let found = match differences {
        0 if busier > 0 => format!("cannot tell, {busier} may differ by the noise of the machine alone"),
        0 => "no difference larger than the noise".to_owned(),
        1 => format!("1 difference ({worse} worse, {better} better)"),
        _ => format!("{differences} differences ({worse} worse, {better} better)"),
    };
    format!("{} beside {}: {found}", pair.after, pair.before)
}

fn sentences(comparison: &Comparison, pair: &Pair) -> Vec<String> {
    let of = |method: Method| pair.figures.iter().filter(|figure| figure.method == method).count();
    let limits = comparison.thresholds;
    let mut sentences = vec![format!(
        "{} figures in both. The chance of any false difference among those tested is at most {} (Holm's correction); a difference is also \
         at least {} of a rate, {} of a time ({} of a tail), {} of loss, and more than the resolution of the search.",
        pair.figures.len(),
        percent(limits.alpha),
        percent(limits.rate),
        percent(limits.time),
        percent(limits.tail),
        percent(limits.loss),
    )];
    let methods = [
        (Method::MannWhitney, "by the exact Mann-Whitney U test"),
        (
            Method::Student,
            "by Student's t-test of logarithms, too few repetitions for a rank test among so many figures",
        ),
        (
            Method::None,
            "not at all: one repetition each, so the noise is not known (`lab run --repetitions 5`), the tester's own limit in both, or \
             all disturbed",
        ),
    ];
    let judged = methods.iter().filter(|(method, _)| of(*method) > 0);
    sentences.extend(judged.map(|(method, words)| format!("{} judged {words}.", of(*method))));
    let disturbed = pair.figures.iter().filter(|figure| figure.verdict == Verdict::Disturbed).count();
    if disturbed > 0 {
        sentences.push(format!("{disturbed} not judged: in one of the results every trial behind them was disturbed."));
    }
    if !pair.noise_differs.is_empty() {
        let how = pair.noise_differs.join("; ");
        sentences.push(format!("The machines were not equally busy ({how}), so no difference can be told."));
    }
    if !pair.settings.is_empty() {
        sentences.push("They were not measured under the same conditions: see below.".to_owned());
    }
    sentences
}

fn pair_grids(pair: &Pair) -> Vec<Grid> {
    let columns = [
        ("cell", false),
        ("figure", false),
        ("before", true),
        ("after", true),
        ("shift", true),
        ("delta", true),
        ("p", true),
        ("verdict", false),
        ("mark", false),
    ];
    let is_difference = |figure: &&Compared| pair.differences().any(|other| std::ptr::eq(*figure, other));
    let mut differences = Grid::new(Topic::Tests, "Differences", &columns);
    differences.rows = pair.differences().map(row).collect();
    let mut same = Grid::new(Topic::Tests, "No difference told", &columns);
    let others: Vec<&Compared> = pair.figures.iter().filter(|figure| !is_difference(figure)).collect();
    same.rows = others.iter().take(ROWS_MAX).map(|figure| row(figure)).collect();
    if others.len() > ROWS_MAX {
        same.notes.push(format!("and {} more", others.len() - ROWS_MAX));
    }
    same.notes.push(
        "Medians; shift: Hodges and Lehmann's estimate; delta: Cliff's, -1 to 1; p: after Holm's correction."
            .to_owned(),
    );
    let mut settings = Grid::new(
        Topic::Environment,
        "Conditions that differ",
        &[("what", false), ("before", false), ("after", false)],
    );
    settings.rows = pair.settings.iter().map(|s| [&s.what, &s.before, &s.after].map(Entry::new).into()).collect();
    let mut only = Grid::new(Topic::Missing, "In one of them only", &[("figure", false), ("in", false)]);
    let only_one = |list: &[String], words: &'static str| -> Vec<Vec<Entry>> {
        list.iter().take(ROWS_MAX).map(|figure| vec![Entry::new(figure), Entry::new(words)]).collect()
    };
    only.rows = only_one(&pair.only_before, "before");
    only.rows.extend(only_one(&pair.only_after, "after"));
    [differences, settings, same, only].into_iter().filter(|grid| !grid.rows.is_empty()).collect()
}

fn row(figure: &Compared) -> Vec<Entry> {
    let words = |values: &[f64]| figure.words.0.words(crate::figure::median(values));
    let sign = if figure.shift > 0.0 { "+" } else { "" };
    let (verdict, tone) = match figure.verdict {
        Verdict::Same => ("same", Tone::Plain),
        Verdict::Better => ("better", Tone::Good),
        Verdict::Worse => ("worse", Tone::Bad),
        Verdict::Different => ("different", Tone::Strong),
        Verdict::Untold => ("cannot be told", Tone::Doubtful),
        Verdict::Disturbed => ("not judged: all disturbed", Tone::Doubtful),
        Verdict::Busier => ("cannot be told: other noise", Tone::Doubtful),
    };
    let name = if figure.test == "throughput" {
        figure.figure.clone()
    } else {
        format!("{}: {}", figure.test.replace('-', " "), figure.figure)
    };
    vec![
        Entry::new(&figure.cell),
        Entry::new(name),
        Entry::new(words(&figure.before)),
        Entry::new(words(&figure.after)),
        Entry::toned(format!("{sign}{}", percent(figure.shift)), tone),
        Entry::new(format!("{:.2}", figure.cliffs_delta)),
        Entry::new(
            figure
                .p_value
                .map_or("-".to_owned(), |p| if p < 0.0001 { "<0.0001".to_owned() } else { format!("{p:.4}") }),
        ),
        Entry::toned(verdict, tone),
        Entry::toned(figure.marks.join(", "), Tone::Doubtful),
    ]
}
