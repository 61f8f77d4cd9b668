//! The ledger of a trial as rows in path order, each with its cause and what to change.

use std::borrow::Cow;

use super::LedgerTrial;
use crate::number::sum;
use crate::{Finding, Loss, Results, Trial};

/// What a row of an account is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowKind {
    Intended,
    Unsent,
    Sent,
    Lost,
    Delivered,
    Unexplained,
}

/// A row of an account.
#[derive(Debug, Clone)]
pub(crate) struct Row<'a> {
    pub(crate) kind: RowKind,
    pub(crate) place: &'a str,
    pub(crate) cause: Cow<'a, str>,
    pub(crate) hint: &'a str,
    pub(crate) counter: &'a str,
    /// Negative only where counters claim more than is missing.
    pub(crate) packets: i128,
}

/// All rows of a trial's account; losses only where packets were lost.
pub(crate) fn account_rows(trial: &Trial) -> Vec<Row<'_>> {
    let account = &trial.account;
    let plain = |kind, packets: i128| Row { kind, place: "", cause: Cow::Borrowed(""), hint: "", counter: "", packets };
    let unsent_known = sum(account.unsent_by().iter().map(|loss| loss.packets));
    let mut rows = vec![plain(RowKind::Intended, account.intended().into())];
    rows.extend(moved(account.unsent_by()).into_iter().map(|loss| of_loss(RowKind::Unsent, loss)));
    if account.unsent() > unsent_known {
        rows.push(plain(RowKind::Unsent, i128::from(account.unsent() - unsent_known)));
    }
    rows.push(plain(RowKind::Sent, account.sent().into()));
    let mut lost = moved(account.lost());
    lost.sort_by_key(|loss| trial.path.iter().position(|place| *place == loss.place).unwrap_or(usize::MAX));
    rows.extend(lost.into_iter().map(|loss| of_loss(RowKind::Lost, loss)));
    rows.push(plain(RowKind::Delivered, account.delivered().into()));
    rows.push(plain(RowKind::Unexplained, account.unexplained().into()));
    rows
}

fn moved(losses: &[Loss]) -> Vec<&Loss> {
    losses.iter().filter(|loss| loss.packets > 0).collect()
}

fn of_loss(kind: RowKind, loss: &Loss) -> Row<'_> {
    let counter = loss.counter.as_deref().unwrap_or("");
    let hint = loss.hint.as_deref().unwrap_or("");
    Row { kind, place: &loss.place, cause: loss.cause_words(), hint, counter, packets: loss.packets.into() }
}

/// The trial of each cell whose account tells most: the one that lost the greatest share of what was sent; where none lost any, the one
/// that left most unsent.
pub(crate) fn ledger_trials(results: &Results) -> Vec<LedgerTrial<'_>> {
    let share = |trial: &Trial| {
        let account = &trial.account;
        let lost = account.sent().saturating_sub(account.delivered()) as f64 / account.sent().max(1) as f64;
        (lost, account.unsent() as f64 / account.intended().max(1) as f64)
    };
    results
        .cells
        .iter()
        .enumerate()
        .filter_map(|(index, cell)| {
            let trials = cell.findings.iter().flat_map(Finding::used_trials);
            let worst = trials.max_by(|one, other| {
                let (one, other) = (share(&one.trial), share(&other.trial));
                one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
            })?;
            Some((index, worst))
        })
        .collect()
}
