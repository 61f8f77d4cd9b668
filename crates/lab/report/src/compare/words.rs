//! What a comparison says in sentences.

use super::{Compared, Comparison, Pair, Reason, Thresholds, Verdict};
use crate::figure::{Unit, median};
use crate::units::{nanoseconds, percent};

/// Relative changes above this are not written out.
const CHANGE_MAX: f64 = 99.0;

/// The result in one line.
pub(super) fn headline(pair: &Pair) -> String {
    format!("{} (before), {} (after): {}", pair.before, pair.after, outcome(pair))
}

fn outcome(pair: &Pair) -> String {
    let count = |verdict: Verdict| pair.figures.iter().filter(|figure| figure.verdict == verdict).count();
    let kinds = [
        (Verdict::Gone, "gone"),
        (Verdict::Worse, "worse"),
        (Verdict::Better, "better"),
        (Verdict::Appeared, "new"),
        (Verdict::Different, "neither"),
    ];
    let kinds = kinds.iter().map(|(verdict, word)| (count(*verdict), word)).filter(|(count, _)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(count, word)| format!("{count} {word}")).collect();
    let inconclusive = pair.inconclusive().count();
    let found = match pair.differences().count() {
        _ if pair.figures.is_empty() => return "inconclusive: they have no figure in common".to_owned(),
        0 if inconclusive == 0 && count(Verdict::Same) == 0 => {
            return "inconclusive: no figure says anything of the DUT".to_owned();
        }
        0 if inconclusive == 0 => return format!("no significant difference in {}", figures(count(Verdict::Same))),
        0 if inconclusive == pair.figures.len() => {
            format!("inconclusive: none of {} can be judged", figures(inconclusive))
        }
        0 => format!("inconclusive: {inconclusive} of {} cannot be judged", figures(pair.figures.len())),
        1 => format!("1 significant difference ({})", kinds.join(", ")),
        all => format!("{all} significant differences ({})", kinds.join(", ")),
    };
    let rest =
        if kinds.is_empty() || inconclusive == 0 { String::new() } else { format!("; {inconclusive} inconclusive") };
    let largest = by_size(pair).into_iter().find(|figure| figure.is_large && figure.shift.is_finite());
    let largest = largest.map(|figure| {
        let words = |values: &[f64]| figure.words.0.words(median(values));
        let (change, before, after) = (change(figure, figure.shift), words(&figure.before), words(&figure.after));
        let name = name(figure).replace(": ", " ");
        format!("; the largest change is {change}, {name} of {} ({before} to {after}), not judged", figure.cell)
    });
    format!("{found}{rest}{}", largest.unwrap_or_default())
}

/// What the headline rests on, and what is not known.
pub(super) fn sentences(comparison: &Comparison, pair: &Pair) -> Vec<String> {
    let thresholds = &comparison.thresholds;
    let mut sentences = Vec::new();
    if !pair.noise_differs.is_empty() {
        sentences.push(format!("The machines were not equally busy: {}.", pair.noise_differs.join("; ")));
    }
    sentences.extend(REASONS.iter().filter_map(|reason| of_reason(pair, *reason, thresholds)));
    let limited = pair.figures.iter().filter(|figure| figure.verdict == Verdict::Limited).count();
    if limited > 0 {
        let subject = is_are(limited, "the tester's own limit, or the highest load tried, on both sides");
        sentences.push(format!("{subject}, which says nothing of the DUT."));
    }
    if pair.figures.iter().any(|figure| figure.p_value.is_some()) {
        sentences.push(of_level(thresholds));
        sentences.push(of_runs(pair, thresholds));
    }
    if !pair.settings.is_empty() {
        sentences.push("The runs were not measured under the same conditions: see below.".to_owned());
    }
    sentences
}

const REASONS: [Reason; 7] = [
    Reason::OneRepetition,
    Reason::Spread,
    Reason::Missing,
    Reason::Disturbed,
    Reason::Busier,
    Reason::Tester,
    Reason::NotMeasured,
];

fn of_reason(pair: &Pair, reason: Reason, thresholds: &Thresholds) -> Option<String> {
    let count = pair.inconclusive().filter(|figure| figure.reason == Some(reason)).count();
    let excluded = thresholds.excluded;
    let subject = |verb: &str, verbs: &str| format!("{} {}", figures(count), if count == 1 { verb } else { verbs });
    let sentence = match reason {
        Reason::OneRepetition => format!(
            "{} one repetition a side: at least 2 a side are needed to judge. Run with `lab run FILE --repetitions 5`, or compare \
             several runs a side (`--before A1 A2 A3 --after B1 B2 B3`).",
            subject("has", "have")
        ),
        Reason::Spread => format!(
            "{} too much for so few values: a change beyond {} of a rate, {} of a time or {} of a share cannot be excluded. More repetitions \
             narrow the interval.",
            subject("varies", "vary"),
            share(excluded.rate),
            share(excluded.time),
            share(excluded.share).replace('%', "pp")
        ),
        Reason::Missing => {
            format!("{} no value in some of the repetitions, too few to call it a difference.", subject("has", "have"))
        }
        Reason::Disturbed => {
            format!("{} judged: on one side every trial behind the figure was disturbed.", subject("is not", "are not"))
        }
        Reason::Busier => {
            format!("{}, and the busier machine may be the cause, not the DUT.", subject("differs", "differ"))
        }
        Reason::Tester => {
            format!("{} no value on one side, where the tester itself was the limit.", subject("has", "have"))
        }
        Reason::NotMeasured => {
            format!("{} not measured on one side, whose run is not complete.", subject("was", "were"))
        }
    };
    (count > 0).then_some(sentence)
}

fn of_level(thresholds: &Thresholds) -> String {
    format!(
        "A difference is significant if chance alone gives it, in any of the figures, with a probability of at most {} (Holm's \
         correction), and if it is more than {} of a rate, {} of a time or of work per packet ({} of a tail), {} of a share, {} of \
         an outage, and the resolution of the search.",
        share(thresholds.alpha),
        share(thresholds.rate),
        share(thresholds.time),
        share(thresholds.tail),
        share(thresholds.loss).replace('%', "pp"),
        nanoseconds(thresholds.outage_ns),
    )
}

/// A threshold without digits that say nothing: `5 %`.
fn share(value: f64) -> String {
    format!("{} %", (value * 1e5).round() / 1e3)
}

/// What the significance level assumes.
fn of_runs(pair: &Pair, thresholds: &Thresholds) -> String {
    let level = share(thresholds.alpha);
    if pair.runs.iter().all(|runs| *runs > 1) {
        let [before, after] = pair.runs;
        return format!(
            "Each value is the median of a run ({before} before, {after} after), so the {level} include what varies from run to run, \
             if the runs of the two sides alternated."
        );
    }
    format!(
        "The {level} assume that two runs of the same DUT differ by no more than these thresholds: one run a side shows how its \
         repetitions vary, not how runs do. To include that, compare several runs a side (`--before A1 A2 A3 --after B1 B2 B3`)."
    )
}

/// The inconclusive figures, those with the largest changes first.
pub(super) fn by_size(pair: &Pair) -> Vec<&Compared> {
    let mut figures: Vec<&Compared> = pair.inconclusive().collect();
    figures.sort_by(|one, other| other.size().total_cmp(&one.size()));
    figures
}

/// The figure's name, with its test where the name alone does not tell.
pub(super) fn name(figure: &Compared) -> String {
    match figure.test == "throughput" {
        true => figure.figure.clone(),
        false => format!("{}: {}", figure.test.replace('-', " "), figure.figure),
    }
}

/// A change of a figure: `-95.9 %`, `+1.2 pp`, `-3.0 ms`.
pub(super) fn change(figure: &Compared, value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    let sign = if value > 0.0 { "+" } else { "" };
    match figure.words.0 {
        _ if figure.relative && value > CHANGE_MAX => format!(">+{}", percent(CHANGE_MAX)),
        _ if figure.relative => format!("{sign}{}", percent(value)),
        Unit::Share => format!("{sign}{}", points(value)),
        unit => format!("{}{}", if value < 0.0 { "-" } else { sign }, unit.words(value.abs())),
    }
}

/// The interval of the change: `-1.20 to +1.43 %`.
pub(super) fn interval(figure: &Compared) -> String {
    let Some([low, high]) = figure.interval else { return "-".to_owned() };
    let (low, high) = (change(figure, low), change(figure, high));
    let unit = high.rsplit_once(' ').map_or("", |(_, unit)| unit);
    format!("{} to {high}", low.strip_suffix(unit).map_or(low.as_str(), str::trim_end))
}

fn points(share: f64) -> String {
    percent(share).replace('%', "pp")
}

fn figures(count: usize) -> String {
    if count == 1 { "1 figure".to_owned() } else { format!("{count} figures") }
}

fn is_are(count: usize, what: &str) -> String {
    format!("{} {} {what}", figures(count), if count == 1 { "is" } else { "are" })
}
