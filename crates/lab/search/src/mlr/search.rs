//! The search as a state machine.

use super::choice::choose;
use super::database::TrialDatabase;
use super::goal::{Goal, GoalError, Limits};
use super::outcome::{self, Outcome, Record};
use super::step::{Order, Step, answers};
use super::tally::LoadClass;
use super::target::targets;
use super::view::{Choice, Pursuit};
use crate::{Bounds, Trial, TrialError};

/// The search for several goals in one pass.
#[derive(Debug, Clone)]
pub struct Search {
    goals: Vec<Goal>,
    limits: Limits,
    database: TrialDatabase,
    /// The last target of each goal.
    finals: Vec<usize>,
    /// By target.
    pursuits: Vec<Pursuit>,
    choice: Option<Choice>,
    records: Vec<Record>,
    trial_time_ns: u64,
}

impl Search {
    /// Starts a search.
    pub fn new(limits: Limits, goals: Vec<Goal>) -> Result<Self, GoalError> {
        limits.check(&goals)?;
        let (targets, finals) = targets(&goals);
        let pursuits = vec![Pursuit::default(); targets.len()];
        let database = TrialDatabase::new(targets);
        let choice = choose(&database, &limits, &pursuits);
        Ok(Self { goals, limits, database, finals, pursuits, choice, records: Vec::new(), trial_time_ns: 0 })
    }

    /// What is looked for.
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// Every trial so far, in order.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The time that all trials so far sent, in nanoseconds.
    pub fn trial_time_ns(&self) -> u64 {
        self.trial_time_ns
    }

    /// The relevant bounds of a goal so far.
    pub fn bounds(&self, goal: usize) -> Bounds {
        self.finals.get(goal).map_or(Bounds { lower: None, upper: None }, |target| self.database.bounds(*target))
    }

    /// Bounds of a goal to show while the search runs, or where it was cut short: those of its furthest stage that has a lower one, or
    /// any. Short trials may err.
    pub fn estimate(&self, goal: usize) -> Bounds {
        let of_goal = |target: &usize| self.database.targets().get(*target).is_some_and(|target| target.goal == goal);
        let stages =
            || (0..self.database.targets().len()).rev().filter(of_goal).map(|target| self.database.bounds(target));
        let any = || stages().find(|bounds| bounds.upper.is_some());
        stages().find(|bounds| bounds.lower.is_some()).or_else(any).unwrap_or(Bounds { lower: None, upper: None })
    }

    /// The trial to make next, or `None` at the end. Asking twice gives the same answer.
    pub fn next(&self) -> Option<Order> {
        self.next_step().map(|step| step.order)
    }

    /// The trial to make next and why, or `None` at the end.
    pub fn next_step(&self) -> Option<Step> {
        if self.is_used_up() {
            return None;
        }
        let Choice { target: index, load, reason, .. } = self.choice?;
        let target = self.database.targets().get(index)?;
        let order = Order { load, duration_ns: target.trial_ns };
        Some(Step { order, goal: target.goal, is_final: self.finals.get(target.goal) == Some(&index), reason })
    }

    /// Takes the result of a trial: the one that was asked for, or any other, which counts as well.
    ///
    /// [`Trial::duration_ns`] is the duration that was intended. A trial that answers the order within 1 % of its duration is
    /// taken to have the ordered one, so that rounding does not make a full-length trial short.
    ///
    /// # Errors
    /// A trial whose numbers cannot be of one trial is refused and nothing changes.
    pub fn record(&mut self, trial: Trial) -> Result<(), TrialError> {
        trial.check()?;
        let step = self.next_step().filter(|step| answers(&step.order, &trial));
        let duration_ns = step.map_or(trial.duration_ns, |step| step.order.duration_ns);
        self.database.add(Trial { duration_ns, ..trial });
        self.records.push(Record { trial, step });
        self.trial_time_ns = self.trial_time_ns.saturating_add(trial.duration_ns);
        self.choice = self.choice_after(step.is_some());
        Ok(())
    }

    /// What was found. Before the end it says what is known so far.
    pub fn outcome(&self) -> Outcome {
        let goals = self.goals.iter().zip(&self.finals);
        Outcome {
            goals: goals
                .map(|(goal, target)| {
                    outcome::of_goal(goal, &self.database, *target, &self.limits, self.next_step().is_none())
                })
                .collect(),
            trial_time_ns: self.trial_time_ns,
            trials: self.records.clone(),
        }
    }

    /// The same load again while its target cannot tell what it is; else a new choice.
    fn choice_after(&mut self, is_answer: bool) -> Option<Choice> {
        if let Some(choice) = self.choice.filter(|_| is_answer) {
            let class = self.database.class(choice.target, choice.load);
            let Limits { minimum, maximum, .. } = self.limits;
            if class == LoadClass::Undecided && !self.database.is_reached(choice.target, minimum, maximum) {
                return self.choice;
            }
            if let Some(pursuit) = self.pursuits.get_mut(choice.target) {
                pursuit.note(&choice, class);
            }
        }
        choose(&self.database, &self.limits, &self.pursuits)
    }

    fn is_used_up(&self) -> bool {
        self.records.len() >= self.limits.trials_max as usize || self.trial_time_ns >= self.limits.duration_max_ns
    }
}
