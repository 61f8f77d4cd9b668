//! What happened since the document was written whole, as JSON lines: so that saving after each of thousands of trials stays cheap.
//!
//! The first line names the document that the others continue, by its hash: a journal of another one is not read. A line that was
//! cut short by a kill or a full disk has no line end and does not count.

use crate::{Cell, ExperimentTrial, Finding, Results, Timestamp};
use serde::{Deserialize, Serialize};

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Line {
    /// Hash of the document's text. Always the first line.
    Continues(String),
    /// What changes in the document itself.
    Run { ended: Timestamp, complete: bool, warnings: Vec<String> },
    /// A new cell, or one that changed; without its findings.
    Cell { cell: usize, head: Box<Cell> },
    /// A new finding, or one that changed; without its trials.
    Finding { cell: usize, finding: usize, head: Box<Finding> },
    /// A trial that ended.
    Trial { cell: usize, finding: usize, trial: usize, made: Box<ExperimentTrial> },
}

/// What of a document is on the disk.
#[derive(Debug, Default)]
pub(super) struct Saved {
    /// Hash of what cannot be written as a line.
    fixed: u64,
    cells: Vec<SavedCell>,
}

#[derive(Debug, Default)]
struct SavedCell {
    head: u64,
    /// Hash of the head and number of trials.
    findings: Vec<(u64, usize)>,
}

impl Saved {
    /// All of `results`.
    pub(super) fn all(results: &Results) -> Self {
        let findings = |cell: &Cell| cell.findings.iter().map(|f| (hash(&finding_head(f)), f.trials.len())).collect();
        let saved = |cell: &Cell| SavedCell { head: hash(&cell_head(cell)), findings: findings(cell) };
        Self { fixed: hash(&fixed(results)), cells: results.cells.iter().map(saved).collect() }
    }

    /// The lines that lead from what is saved to `results`; `None`: no lines do, because something was taken away.
    pub(super) fn lines_to(&self, results: &Results) -> Option<Vec<Line>> {
        let taken_away = results.cells.len() < self.cells.len() || hash(&fixed(results)) != self.fixed;
        if taken_away {
            return None;
        }
        let Results { ended, complete, warnings, .. } = results;
        let mut lines = vec![Line::Run { ended: *ended, complete: *complete, warnings: warnings.clone() }];
        let none = SavedCell::default();
        for (index, cell) in results.cells.iter().enumerate() {
            let known = self.cells.get(index);
            let head = cell_head(cell);
            if known.is_none_or(|known| known.head != hash(&head)) {
                lines.push(Line::Cell { cell: index, head: Box::new(head) });
            }
            lines.extend(finding_lines(known.unwrap_or(&none), index, cell)?);
        }
        Some(lines)
    }
}

fn finding_lines(known: &SavedCell, cell_index: usize, cell: &Cell) -> Option<Vec<Line>> {
    if cell.findings.len() < known.findings.len() {
        return None;
    }
    let mut lines = Vec::new();
    for (index, finding) in cell.findings.iter().enumerate() {
        let (known_head, trials) = known.findings.get(index).copied().unzip();
        let head = finding_head(finding);
        if known_head != Some(hash(&head)) {
            lines.push(Line::Finding { cell: cell_index, finding: index, head: Box::new(head) });
        }
        let from = trials.unwrap_or(0);
        for (trial, made) in finding.trials.get(from..)?.iter().enumerate() {
            let made = Box::new(made.clone());
            lines.push(Line::Trial { cell: cell_index, finding: index, trial: from + trial, made });
        }
    }
    Some(lines)
}

/// Does again what the lines say. `document` is the text of the document that `results` was read from.
///
/// # Errors
/// A line that is not one, or not of this document, in words.
pub(super) fn replay(results: &mut Results, document: &str, journal: &str) -> Result<(), String> {
    let whole = journal.rfind('\n').map_or("", |end| journal.get(..end).unwrap_or(""));
    for (number, text) in whole.lines().enumerate() {
        let line = serde_json::from_str(text).map_err(|error| format!("line {}: {error}", number + 1))?;
        match line {
            Line::Continues(base) if number == 0 && base == hash_text(document) => {}
            Line::Continues(_) if number == 0 => return Ok(()), // of an older document, which holds all of it
            _ if number == 0 => return Err("line 1: it does not say which document it continues".to_owned()),
            line => apply(results, line).ok_or_else(|| format!("line {}: what it changes is not there", number + 1))?,
        }
    }
    Ok(())
}

fn apply(results: &mut Results, line: Line) -> Option<()> {
    match line {
        Line::Continues(_) => None,
        Line::Run { ended, complete, warnings } => {
            (results.ended, results.complete, results.warnings) = (ended, complete, warnings);
            Some(())
        }
        Line::Cell { cell, head } => {
            let findings = results.cells.get_mut(cell).map(|cell| std::mem::take(&mut cell.findings));
            put(&mut results.cells, cell, Cell { findings: findings.unwrap_or_default(), ..*head })
        }
        Line::Finding { cell, finding, head } => {
            let findings = &mut results.cells.get_mut(cell)?.findings;
            let trials = findings.get_mut(finding).map(|finding| std::mem::take(&mut finding.trials));
            put(findings, finding, Finding { trials: trials.unwrap_or_default(), ..*head })
        }
        Line::Trial { cell, finding, trial, made } => {
            put(&mut results.cells.get_mut(cell)?.findings.get_mut(finding)?.trials, trial, *made)
        }
    }
}

/// Replaces an element or adds the next one.
fn put<T>(list: &mut Vec<T>, index: usize, element: T) -> Option<()> {
    if index == list.len() {
        list.push(element);
    } else {
        *list.get_mut(index)? = element;
    }
    Some(())
}

fn fixed(results: &Results) -> Results {
    let Results { schema, name, title, about, file, tool, started, environment, .. } = results;
    Results {
        schema: schema.clone(),
        name: name.clone(),
        title: title.clone(),
        about: about.clone(),
        file: file.clone(),
        tool: tool.clone(),
        started: *started,
        ended: *started,
        complete: false,
        cells: Vec::new(),
        environment: environment.clone(),
        warnings: Vec::new(),
        bounds: None,
        recommendation: Vec::new(),
    }
}

fn cell_head(cell: &Cell) -> Cell {
    let Cell {
        id,
        dut_name,
        dut,
        size,
        size_wire,
        flows,
        flow_pattern,
        ip,
        direction,
        cores,
        ports,
        mode,
        baseline_pps,
        published,
        ..
    } = cell;
    Cell {
        id: id.clone(),
        dut_name: dut_name.clone(),
        dut: dut.clone(),
        size: size.clone(),
        size_wire: *size_wire,
        flows: *flows,
        flow_pattern: flow_pattern.clone(),
        ip: ip.clone(),
        direction: direction.clone(),
        cores: cores.clone(),
        ports: ports.clone(),
        mode: mode.clone(),
        baseline_pps: *baseline_pps,
        findings: Vec::new(),
        published: published.clone(),
    }
}

fn finding_head(finding: &Finding) -> Finding {
    let Finding { test, repetition, result, error, goals, trials: _ } = finding;
    let (result, error, goals) = (result.clone(), error.clone(), goals.clone());
    Finding { test: test.clone(), repetition: *repetition, result, error, goals, trials: Vec::new() }
}

fn hash(value: &impl Serialize) -> u64 {
    fnv1a(&serde_json::to_vec(value).unwrap_or_default())
}

/// Names a document's text.
pub(super) fn hash_text(text: &str) -> String {
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// FNV-1a, 64 bits: tells documents apart that nobody made alike on purpose.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
