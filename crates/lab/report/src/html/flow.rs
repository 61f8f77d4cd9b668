//! The ledger as a flow: a band runs down the path and gets narrower wherever packets leave it.

use super::chart::{Svg, WIDTH};
use super::page::{Page, shortened};
use crate::Trial;
use crate::overview::{RowKind, account_rows};
use crate::terminal::wrap;
use crate::units::{count, percent};

/// Width of the band of all packets intended.
const BAND: f64 = 112.0;
/// Where a branch ends and its words begin.
const WORDS: f64 = 152.0;
const LEAVE: f64 = 54.0;
/// Characters of a line beside the band.
const LINE_CHARACTERS: usize = 29;
const STAY: f64 = 26.0;
/// Rows of one picture; the least ones are left to the table.
const BRANCHES_MAX: usize = 16;

/// One step down the path.
struct Step {
    class: &'static str,
    place: String,
    words: String,
    packets: f64,
}

/// `12.3 % delivered`, for the head of a ledger.
pub(super) fn words(trial: &Trial) -> String {
    let account = &trial.account;
    let share = account.delivered() as f64 / account.intended().max(1) as f64;
    format!("{}, {} of {} packets delivered", trial.name, percent(share), count(account.intended()))
}

pub(super) fn picture(page: &mut Page, trial: &Trial) {
    let intended = trial.account.intended();
    if intended == 0 || page.is_full() {
        return;
    }
    let steps = steps(trial);
    let height = LEAVE + steps.iter().map(|step| if step.packets > 0.0 { LEAVE } else { STAY }).sum::<f64>() + 30.0;
    let mut svg = Svg::new(WIDTH, height);
    let mut left = intended as f64;
    let width = |packets: f64| (packets / intended as f64).clamp(0.0, 1.0) * BAND;
    svg.text("b", (0.0, 12.0), "start", &format!("{} intended", count(intended)));
    svg.rect("flow", (0.0, 20.0), (BAND, LEAVE - 20.0), "intended");
    let mut y = LEAVE;
    for step in &steps {
        let (before, after) = (width(left), width((left - step.packets).max(0.0)));
        if step.packets > 0.0 {
            branch(&mut svg, y, before, after, step);
            y += LEAVE;
        } else {
            svg.rect("flow", (0.0, y), (before, STAY), &step.place);
            svg.text("t", (WORDS, y + 16.0), "start", &shortened(&step.place, LINE_CHARACTERS));
            y += STAY;
        }
        left = (left - step.packets).max(0.0);
    }
    svg.rect("flow", (0.0, y), (width(trial.account.delivered() as f64).max(0.8), 12.0), "delivered");
    let delivered = trial.account.delivered();
    let share = percent(delivered as f64 / intended as f64);
    svg.text("b", (0.0, y + 26.0), "start", &format!("{} delivered, {share}", count(delivered)));
    let description = format!("{}. Losses in path order; the values are in the table below.", words(trial));
    svg.put(page, &format!("{}: packets along the path", trial.name), &description, &[]);
}

/// What leaves at this step turns to the right; what stays goes on down.
fn branch(svg: &mut Svg, y: f64, before: f64, after: f64, step: &Step) {
    let title = format!("{} {}", step.place, step.words);
    let (end, turn) = (y + LEAVE, y + LEAVE * 0.5);
    svg.path("flow", &format!("M0 {y:.1}H{after:.2}V{end:.1}H0Z"), "");
    let leaving = (before - after).max(0.6);
    let thick = leaving.min(LEAVE * 0.55);
    let (from, to) = (after, after + leaving);
    let (top, bottom) = (turn - thick / 2.0, turn + thick / 2.0);
    // Down from the band, then to the right, along two quarter curves.
    let data = format!(
        "M{from:.2} {y:.1}H{to:.2}C{to:.2} {top:.1} {to:.2} {top:.1} {:.1} {top:.1}H{:.1}V{bottom:.1}H{:.1}C{from:.2} {bottom:.1} {from:.2} {bottom:.1} {from:.2} {y:.1}Z",
        (to + 8.0).min(WORDS - 8.0),
        WORDS - 6.0,
        (to + 4.0).min(WORDS - 10.0),
    );
    svg.path(step.class, &data, &title);
    svg.text("b", (WORDS, turn - 8.0), "start", &shortened(&step.place, LINE_CHARACTERS - 2));
    let lines = wrap(&step.words, LINE_CHARACTERS);
    let second = lines.get(1..).map(|rest| rest.join(" ")).unwrap_or_default();
    svg.text("", (WORDS, turn + 5.0), "start", lines.first().map_or("", String::as_str));
    svg.text("", (WORDS, turn + 18.0), "start", &shortened(&second, LINE_CHARACTERS));
}

/// The path with what left at each place; places where nothing left stay, so that the path can be read.
fn steps(trial: &Trial) -> Vec<Step> {
    let intended = trial.account.intended() as f64;
    let rows = account_rows(trial);
    let leaving = |kind: RowKind| rows.iter().filter(move |row| row.kind == kind && row.packets > 0);
    let step = |class, place: &str, cause: &str, packets: i128| {
        let packets = packets as f64;
        let words = format!("{} {cause}", percent(packets / intended));
        Step { class, place: place.to_owned(), words, packets }
    };
    let pass = |place: &String| Step { class: "", place: place.clone(), words: String::new(), packets: 0.0 };
    let mut steps: Vec<Step> = Vec::new();
    for row in leaving(RowKind::Unsent) {
        let place = if row.place.is_empty() { "not sent" } else { row.place };
        let cause = if row.cause.is_empty() { "cause unknown" } else { &*row.cause };
        steps.push(step("unsent", place, &format!("unsent: {cause}"), row.packets));
    }
    let mut lost: Vec<_> = leaving(RowKind::Lost).collect();
    if lost.len() > BRANCHES_MAX {
        let mut sizes: Vec<i128> = lost.iter().map(|row| row.packets).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let least = sizes.get(BRANCHES_MAX - 1).copied().unwrap_or(0);
        lost.retain(|row| row.packets >= least);
        lost.truncate(BRANCHES_MAX);
    }
    let unsent_at = |place: &String| steps.iter().any(|step| step.place == *place);
    let mut along: Vec<Step> = Vec::new();
    for place in trial.path.iter().take(40) {
        let here: Vec<_> = lost.iter().filter(|row| row.place == *place).collect();
        if here.is_empty() && !unsent_at(place) {
            along.push(pass(place));
        }
        along.extend(here.iter().map(|row| step("lost", row.place, &row.cause, row.packets)));
    }
    let elsewhere = lost.iter().filter(|row| !trial.path.iter().take(40).any(|place| place == row.place));
    along.extend(elsewhere.map(|row| step("lost", row.place, &row.cause, row.packets)));
    let unexplained = leaving(RowKind::Unexplained);
    along.extend(unexplained.map(|row| step("lost", "unexplained", "in no counter", row.packets)));
    steps.extend(along);
    steps
}
