//! An experiment's results as three CSV files (RFC 4180): figures, trials, ledgers. The columns are described in `docs/results.md`.

use crate::figure::{Figure, figures};
use crate::overview::account_rows;
use crate::{Cell, ExperimentTrial, Finding, Results};

/// One row for each figure of each repetition: goals, percentiles, losses, costs.
pub fn figures_csv(results: &Results) -> String {
    let head =
        "cell,dut,size,size_wire,flows,direction,baseline_pps,test,figure,repetition,value,upper,unit,marks,error";
    let mut text = format!("{head}\r\n");
    for figure in figures(results) {
        let Some(cell) = results.cells.get(figure.cell) else { continue };
        let Figure { test, name, unit, repetition, value, upper, marks, .. } = figure;
        let (value, error) = match value {
            Ok(value) => (number(value), String::new()),
            Err(why) => (String::new(), why),
        };
        let marks = marks.iter().map(|mark| mark.short()).collect::<Vec<_>>().join("; ");
        let mut fields = cell_fields(cell);
        fields.extend([test.to_owned(), name, repetition.to_string(), value]);
        fields.extend([upper.map(number).unwrap_or_default(), unit.symbol().to_owned(), marks, error]);
        line(&mut text, &fields);
    }
    for cell in &results.cells {
        for finding in &cell.findings {
            for goal in &finding.goals {
                let mut fields = cell_fields(cell);
                let figure = format!("goal: {}, {}", goal.name, goal.wanted);
                let (value, unit) = (u8::from(goal.met).to_string(), "met".to_owned());
                fields.extend([finding.test.clone(), figure, finding.repetition.to_string(), value]);
                let error = if goal.measured.is_none() { "not measured" } else { "" };
                fields.extend([String::new(), unit, String::new(), error.to_owned()]);
                line(&mut text, &fields);
            }
        }
    }
    text
}

/// One row for each trial.
pub fn trials_csv(results: &Results) -> String {
    let mut text = String::from(
        "cell,dut,size,size_wire,flows,direction,baseline_pps,test,repetition,trial,load_pps,duration_ns,intended,unsent,sent,\
         delivered,duplicated,reordered,lost,unexplained,delivered_pps,p50_ns,p99_ns,p999_ns,max_ns,cores_full,steal_share,\
         gap_max_ns,preempted,waited_ns,cache_line_ns,disturbed,repeated,tester_limited,not_used\r\n",
    );
    for (cell, finding, made) in trials(results) {
        let (trial, noise) = (&made.trial, &made.machine.noise);
        let account = &trial.account;
        let mut fields = cell_fields(cell);
        fields.extend([finding.test.clone(), finding.repetition.to_string(), trial.name.clone()]);
        fields.extend([number(trial.load_pps), trial.duration_ns.to_string()]);
        let counts = [account.intended(), account.unsent(), account.sent(), account.delivered()];
        fields.extend(counts.map(|count| count.to_string()));
        fields.extend([account.duplicated(), account.reordered(), account.lost_total()].map(|count| count.to_string()));
        fields.push(account.unexplained().to_string());
        fields.push(trial.rates().map(|rates| number(rates.delivered_pps)).unwrap_or_default());
        let latency = trial.latency.map(|latency| [latency.p50_ns, latency.p99_ns, latency.p999_ns, latency.max_ns]);
        fields.extend(latency.map_or([const { String::new() }; 4], |latency| latency.map(|time| time.to_string())));
        fields.extend([made.cores_full().to_string(), number(noise.steal_share), noise.gap_max_ns.to_string()]);
        fields.push(noise.preempted.to_string());
        fields.push(noise.waited_ns.map(|time| time.to_string()).unwrap_or_default());
        fields.push(noise.cache_line_ns.map(number).unwrap_or_default());
        fields.extend([noise.disturbed.to_string(), noise.repeated.to_string(), trial.is_tester_limited().to_string()]);
        fields.push(made.not_used.clone().unwrap_or_default());
        line(&mut text, &fields);
    }
    text
}

/// One row for each line of each trial's account.
pub fn ledger_csv(results: &Results) -> String {
    let mut text = String::from("cell,test,repetition,trial,row,place,cause,packets,counter,hint,not_used\r\n");
    for (cell, finding, made) in trials(results) {
        for row in account_rows(&made.trial) {
            let fields = [
                cell.id.clone(),
                finding.test.clone(),
                finding.repetition.to_string(),
                made.trial.name.clone(),
                row.kind.word().to_owned(),
                row.place.to_owned(),
                row.cause.into_owned(),
                row.packets.to_string(),
                row.counter.to_owned(),
                row.hint.to_owned(),
                made.not_used.clone().unwrap_or_default(),
            ];
            line(&mut text, &fields);
        }
    }
    text
}

fn trials(results: &Results) -> impl Iterator<Item = (&Cell, &Finding, &ExperimentTrial)> {
    let findings = results.cells.iter().flat_map(|cell| cell.findings.iter().map(move |finding| (cell, finding)));
    findings.flat_map(|(cell, finding)| finding.trials.iter().map(move |made| (cell, finding, made)))
}

fn cell_fields(cell: &Cell) -> Vec<String> {
    let baseline = cell.baseline_pps.map(number).unwrap_or_default();
    let (id, dut, size, direction) = (&cell.id, &cell.dut_name, &cell.size, &cell.direction);
    let fields = [id.clone(), dut.clone(), size.clone(), number(cell.size_wire), cell.flows.to_string()];
    fields.into_iter().chain([direction.clone(), baseline]).collect()
}

/// A plain number; empty if it is none.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

fn line(text: &mut String, fields: &[String]) {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    text.push_str(&fields.join(","));
    text.push_str("\r\n");
}

/// A field as RFC 4180 section 2 writes it. Text that a spreadsheet would take for a formula gets an apostrophe in front.
fn quoted(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']) && field.parse::<f64>().is_err();
    let field = if is_formula { format!("'{field}") } else { field.to_owned() };
    match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}
