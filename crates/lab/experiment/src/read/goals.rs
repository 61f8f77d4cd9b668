//! How a throughput test searches, and for what.

use toml::de::DeValue;

use crate::section::{self, SHARE_BELOW_1, Section, Value, is_share_below_1, shown_ns};
use crate::{LossGoal, Search, words};

const GOALS_MAX: usize = 16;
const EXPECTED: &str = "expected \"NDR\", \"PDR\" or { name = \"own\", loss_ratio = 0.001 }";
const WIDTH: &str = "a width above 0 up to 0.5";
/// Longest duration sum: a day.
const SUM_NS_MAX: u64 = 86_400_000_000_000;
const TRIAL_NS_MIN: u64 = 1_000_000;

/// What the test says for all goals.
struct Defaults {
    exceed_ratio: f64,
    final_trial_ns: u64,
    duration_sum_ns: u64,
    initial_trial_ns: u64,
    width: f64,
    outside_interruptions: bool,
}

pub(crate) fn search(test: &Section<'_>, trial_ns: u64) -> Search {
    match test.word("search", "search", &[("mlr", true), ("bisection", false)]) {
        Some(false) => bisection(test),
        Some(true) => Search::Mlr { goals: goals(test, trial_ns) },
        None if test.has("search") => {
            let _ = (bisection(test), goals(test, trial_ns));
            Search::Mlr { goals: Vec::new() }
        }
        None => Search::Mlr { goals: goals(test, trial_ns) },
    }
}

fn bisection(test: &Section<'_>) -> Search {
    Search::Bisection {
        resolution: test.number("resolution", is_width, WIDTH).unwrap_or(0.01),
        loss_ratio: test.number("loss_ratio", is_share_below_1, SHARE_BELOW_1).unwrap_or(0.0),
        confirmations: test.integer("confirmations", 0..=10).unwrap_or(0) as u32,
    }
}

fn is_width(number: f64) -> bool {
    number > 0.0 && number <= 0.5
}

/// The goals of a search, the strictest first. Without `goals`, NDR and PDR.
fn goals(test: &Section<'_>, trial_ns: u64) -> Vec<LossGoal> {
    let span = |key, default: u64| test.span_ns(key, TRIAL_NS_MIN..=SUM_NS_MAX).unwrap_or(default);
    let defaults = Defaults {
        exceed_ratio: test.number("exceed_ratio", is_share_below_1, SHARE_BELOW_1).unwrap_or(0.5),
        final_trial_ns: trial_ns,
        duration_sum_ns: span("duration_sum", trial_ns.saturating_mul(3)),
        initial_trial_ns: span("initial_trial", (trial_ns / 4).max(TRIAL_NS_MIN).min(trial_ns)),
        width: test.number("width", is_width, WIDTH).unwrap_or(0.01),
        outside_interruptions: test.boolean("outside_interruptions").unwrap_or(false),
    };
    if !test.has("goals") {
        test.value("goals");
        let goals = [("NDR", 0.0), ("PDR", 0.005)].map(|(name, loss_ratio)| defaults.goal(name, loss_ratio));
        check_times(test, &goals[0]);
        return goals.to_vec();
    }
    let mut goals: Vec<LossGoal> = Vec::new();
    for value in test.list("goals", 1..=GOALS_MAX).unwrap_or_default() {
        let Some(goal) = goal(test, value, &defaults) else { continue };
        check_order(test, value, &goals, &goal);
        goals.push(goal);
    }
    goals
}

impl Defaults {
    fn goal(&self, name: &str, loss_ratio: f64) -> LossGoal {
        LossGoal {
            name: name.to_string(),
            loss_ratio,
            exceed_ratio: self.exceed_ratio,
            final_trial_ns: self.final_trial_ns,
            duration_sum_ns: self.duration_sum_ns,
            initial_trial_ns: self.initial_trial_ns,
            width: self.width,
            outside_interruptions: self.outside_interruptions,
        }
    }
}

/// `"NDR"`, `"PDR"`, or a table.
fn goal(test: &Section<'_>, value: &Value<'_>, defaults: &Defaults) -> Option<LossGoal> {
    let log = test.log;
    match value.get_ref() {
        DeValue::String(word) => {
            let loss_ratio = match word.as_ref() {
                "NDR" => 0.0,
                "PDR" => 0.005,
                other => {
                    log.error(value.span(), words::unknown_but("goal", other, EXPECTED, &["NDR", "PDR"]));
                    return None;
                }
            };
            let goal = defaults.goal(word, loss_ratio);
            check_times(test, &goal);
            Some(goal)
        }
        DeValue::Table(_) => own_goal(&Section::of(value, "the goal", log)?, defaults),
        _ => log.refuse(value.span(), format!("a goal is {}; {EXPECTED}", section::kind(value))),
    }
}

fn own_goal(table: &Section<'_>, defaults: &Defaults) -> Option<LossGoal> {
    let name = table.needed("name", "\"own\"").and_then(|value| section::name(value, "name", table.log));
    table.needed("loss_ratio", "0.001");
    let span = |key, default| table.span_ns(key, TRIAL_NS_MIN..=SUM_NS_MAX).unwrap_or(default);
    let loss_ratio = table.number("loss_ratio", is_share_below_1, SHARE_BELOW_1);
    let goal = LossGoal {
        name: name.clone().unwrap_or_default(),
        loss_ratio: loss_ratio.unwrap_or(0.0),
        exceed_ratio: table.number("exceed_ratio", is_share_below_1, SHARE_BELOW_1).unwrap_or(defaults.exceed_ratio),
        final_trial_ns: span("trial", defaults.final_trial_ns),
        duration_sum_ns: span("duration_sum", defaults.duration_sum_ns),
        initial_trial_ns: span("initial_trial", defaults.initial_trial_ns),
        width: table.number("width", is_width, WIDTH).unwrap_or(defaults.width),
        outside_interruptions: table.boolean("outside_interruptions").unwrap_or(defaults.outside_interruptions),
    };
    check_times(table, &goal);
    // Read with the other limits.
    table.value("at_least");
    table.finish();
    (name.is_some() && loss_ratio.is_some()).then_some(goal)
}

fn check_times(table: &Section<'_>, goal: &LossGoal) {
    let (trial, sum) = (shown_ns(goal.final_trial_ns), shown_ns(goal.duration_sum_ns));
    if goal.duration_sum_ns < goal.final_trial_ns {
        table.error("duration_sum", format!("the duration sum {sum} is shorter than one trial of {trial}"));
    }
    if goal.initial_trial_ns > goal.final_trial_ns {
        let initial = shown_ns(goal.initial_trial_ns);
        table.error("initial_trial", format!("the initial trial of {initial} is longer than the final one of {trial}"));
    }
}

/// Goals come from the strictest to the most lenient, and no two are the same.
fn check_order(test: &Section<'_>, value: &Value<'_>, before: &[LossGoal], goal: &LossGoal) {
    let log = test.log;
    if before.iter().any(|other| other.name.eq_ignore_ascii_case(&goal.name)) {
        log.error(value.span(), format!("two goals are called {:?}; each needs its own name", goal.name));
        return;
    }
    let Some(last) = before.last() else { return };
    if goal.loss_ratio < last.loss_ratio {
        let message = format!(
            "the goal {} (loss ratio {}) is stricter than {} before it ({}); expected the strictest first",
            goal.name, goal.loss_ratio, last.name, last.loss_ratio
        );
        log.error(value.span(), message);
    }
    let same = |other: &&LossGoal| LossGoal { name: goal.name.clone(), ..(*other).clone() } == *goal;
    if let Some(other) = before.iter().find(same) {
        log.error(value.span(), format!("the goals {} and {} look for the same", other.name, goal.name));
    }
}
