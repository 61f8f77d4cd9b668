//! The document as text for a terminal: what was found, then the numbers, then where every packet went.

mod experiment;
mod ledger;
mod page;
mod table;

use crate::units::{bps, count, frame_bytes, l1_bps, l2_bps, nanoseconds, percent, pps, signed_count};
use crate::{Document, Environment, LimitedBy, Purpose, Throughput, Trial};
pub(crate) use experiment::grids;
pub use experiment::results_terminal;
use page::{Page, Style};
pub(crate) use page::{clean, wrap};
use std::collections::BTreeMap;
use table::{Cell, Set, Table};

const LABEL_COLUMNS: usize = 13;

/// Writes the whole document for a terminal of `columns` columns, with or without colours.
///
/// No line is longer than the terminal (40 columns at least), and no number is cut. Control characters in names and notes are
/// replaced: a stored result cannot write to the terminal anything but text.
pub fn terminal(document: &Document, columns: usize, colour: bool) -> String {
    let mut page = Page::new(columns, colour);
    print_head(&mut page, document);
    print_throughput(&mut page, document);
    print_trials(&mut page, document);
    print_cpu(&mut page, document);
    print_ledgers(&mut page, document);
    print_searches(&mut page, document);
    print_environment(&mut page, &document.environment);
    print_goals(&mut page, document);
    print_warnings(&mut page, document);
    page.finish()
}

/// Writes the ledger of one trial, for a command that shows trials as they end.
pub fn ledger(trial: &Trial, columns: usize, colour: bool) -> String {
    let mut page = Page::new(columns, colour);
    ledger::print(&mut page, trial);
    page.finish()
}

fn print_head(page: &mut Page, document: &Document) {
    let took_ms = document.ended.unix_ms().saturating_sub(document.started.unix_ms());
    let head = format!(
        "{} {}: {}, {}, took {}",
        document.tool.name,
        document.tool.version,
        document.name,
        document.started.words(),
        nanoseconds(took_ms as f64 * 1e6)
    );
    page.paragraph("", 0, Style::Heading, &head);
    if let Some(dut) = &document.dut {
        let version = dut.version.as_deref().unwrap_or("");
        page.paragraph("  DUT", LABEL_COLUMNS, Style::Plain, &format!("{} {version}", dut.name));
        print_map(page, "", &dut.configuration);
    }
    if !document.mode.is_empty() {
        page.paragraph("  mode", LABEL_COLUMNS, Style::Plain, &document.mode);
    }
    if let Some(baseline) = &document.baseline {
        let words = format!(
            "{} without the DUT ({}, {}), L1 {}, L2 {}",
            pps(baseline.pps),
            frame_bytes(baseline.size_wire),
            ledger::flows(baseline.flows),
            bps(l1_bps(baseline.pps, baseline.size_wire)),
            bps(l2_bps(baseline.pps, baseline.size_wire))
        );
        page.paragraph("  baseline", LABEL_COLUMNS, Style::Plain, &words);
    }
}

fn print_throughput(page: &mut Page, document: &Document) {
    if document.throughput.is_empty() {
        return;
    }
    page.gap();
    let is_lossless = document.throughput.iter().all(|throughput| throughput.loss_ratio == 0.0);
    let goal = if is_lossless { "with no loss" } else { "with no more loss than the goal allows" };
    page.paragraph("", 0, Style::Heading, &format!("Throughput: the highest rate {goal}"));
    let mut table = Table::new(vec![
        ("size", Set::Number),
        ("flows", Set::Number),
        ("throughput", Set::Number),
        ("fails at", Set::Number),
        ("L1", Set::Number),
        ("L2", Set::Number),
        ("trials", Set::Number),
    ]);
    for throughput in &document.throughput {
        table.row(throughput_row(throughput));
    }
    table.print(page);
    print_remarks(page, &document.throughput);
}

/// Each remark once, with what it applies to.
fn print_remarks(page: &mut Page, throughputs: &[Throughput]) {
    let mut printed: Vec<(String, Vec<String>)> = Vec::new();
    for throughput in throughputs {
        let subject = format!("{}, {}", frame_bytes(throughput.size_wire), ledger::flows(throughput.flows));
        for remark in remarks(throughput) {
            match printed.iter_mut().find(|(other, _)| *other == remark) {
                Some((_, subjects)) => subjects.push(subject.clone()),
                None => printed.push((remark, vec![subject.clone()])),
            }
        }
    }
    for (remark, subjects) in printed {
        let subjects = if subjects.len() == throughputs.len() { String::new() } else { subjects.join("; ") + ": " };
        page.paragraph("  note", 8, Style::Doubtful, &format!("{subjects}{remark}"));
    }
}

fn throughput_row(throughput: &Throughput) -> Vec<Cell> {
    let known = |rate_pps: Option<u64>, words: &dyn Fn(f64) -> String| {
        rate_pps.map_or("-".to_owned(), |rate| words(rate as f64))
    };
    let or_more = if throughput.limited_by == LimitedBy::Maximum { "≥ " } else { "" };
    let (lower, upper) = (throughput.bounds.lower_pps, throughput.bounds.upper_pps);
    let size_wire = throughput.size_wire;
    vec![
        Cell::new(frame_bytes(size_wire)),
        Cell::new(count(throughput.flows)),
        Cell::styled(known(lower, &|rate| format!("{or_more}{}", pps(rate))), Style::Heading),
        Cell::new(known(upper, &pps)),
        Cell::new(known(lower, &|rate| bps(l1_bps(rate, size_wire)))),
        Cell::new(known(lower, &|rate| bps(l2_bps(rate, size_wire)))),
        Cell::new(count(throughput.trials.len() as u64)),
    ]
}

/// What a reader of the throughput has to know.
fn remarks(throughput: &Throughput) -> Vec<String> {
    let mut remarks = Vec::new();
    if throughput.is_tester_limited() {
        remarks.push("within 5 % of the baseline: this is the tester's own limit, the DUT may carry more".to_owned());
    }
    match throughput.limited_by {
        LimitedBy::Tester => {
            remarks.push("more could not be sent: the tester's limit, or a path that pushes back on it".to_owned())
        }
        LimitedBy::Maximum => remarks.push("the highest load that was tried passed".to_owned()),
        LimitedBy::Unknown => remarks.push("what limits it is not known".to_owned()),
        LimitedBy::Loss => {}
    }
    if let (Some(lower), Some(upper)) = (throughput.bounds.lower_pps, throughput.bounds.upper_pps) {
        let width_pps = upper.saturating_sub(lower);
        let width = width_pps as f64 / upper as f64;
        // Rates are whole packets per second: rounding may have made the width longer by less than 1.
        if width_pps > 1 && width_pps as f64 >= throughput.resolution * upper as f64 + 1.0 {
            let asked = percent(throughput.resolution);
            remarks.push(format!("the bounds are {} apart, wider than the {asked} asked for", percent(width)));
        }
    }
    if throughput.loss_ratio != 0.0 {
        remarks.push(format!(
            "a trial with up to {} of its packets lost counts as passed",
            percent(throughput.loss_ratio)
        ));
    }
    if throughput.confirmations > 0 {
        let overturned = match throughput.overturned {
            0 => "no failure was overturned".to_owned(),
            1 => "1 failure was overturned".to_owned(),
            number => format!("{number} failures were overturned"),
        };
        remarks.push(format!("not strict RFC 2544: a failing trial is repeated before it counts; {overturned}"));
    }
    if throughput.irregular {
        remarks.push("a load failed below another that passed later: the DUT or the machine is not steady".to_owned());
    }
    remarks
}

/// All trials but the steps of searches, which have a section of their own.
fn main_trials(document: &Document) -> impl Iterator<Item = &Trial> {
    document.trials.iter().filter(|trial| trial.purpose != Purpose::Search)
}

fn print_trials(page: &mut Page, document: &Document) {
    if main_trials(document).next().is_none() {
        return;
    }
    page.gap();
    page.paragraph("", 0, Style::Heading, "Trials");
    let name = ("trial", Set::Text);
    let packets = ["intended", "sent", "delivered", "lost", "unexplained"].map(|column| (column, Set::Number));
    let rates = ["rate", "L1", "L2"].map(|column| (column, Set::Number));
    let mut all = Table::new([&[name], &packets[..], &rates[..]].concat());
    let mut packets = Table::new([&[name], &packets[..]].concat());
    let mut rates = Table::new([&[name], &rates[..]].concat());
    for trial in main_trials(document) {
        all.row([vec![Cell::new(&trial.name)], packet_cells(trial), rate_cells(trial)].concat());
        packets.row([vec![Cell::new(&trial.name)], packet_cells(trial)].concat());
        rates.row([vec![Cell::new(&trial.name)], rate_cells(trial)].concat());
    }
    if all.fits(page.columns) {
        all.print(page);
    } else {
        packets.print(page);
        page.gap();
        rates.print(page);
    }
    for trial in main_trials(document).filter(|trial| trial.is_tester_limited()) {
        let remark = "within 5 % of the baseline: this is the tester's own limit";
        page.paragraph("  note", 8, Style::Doubtful, &format!("{}: {remark}", trial.name));
    }
}

fn packet_cells(trial: &Trial) -> Vec<Cell> {
    let account = &trial.account;
    let lost = account.lost_total();
    vec![
        Cell::new(count(account.intended())),
        Cell::new(count(account.sent())),
        Cell::new(count(account.delivered())),
        Cell::styled(count(lost), if lost == 0 { Style::Plain } else { Style::Bad }),
        Cell::styled(
            signed_count(account.unexplained()),
            if account.unexplained() == 0 { Style::Good } else { Style::Bad },
        ),
    ]
}

fn rate_cells(trial: &Trial) -> Vec<Cell> {
    match trial.rates() {
        Some(rates) => {
            vec![Cell::new(pps(rates.delivered_pps)), Cell::new(bps(rates.l1_bps)), Cell::new(bps(rates.l2_bps))]
        }
        None => vec![Cell::new("-"), Cell::new("-"), Cell::new("-")],
    }
}

fn print_cpu(page: &mut Page, document: &Document) {
    if main_trials(document).all(|trial| trial.cpu.is_empty()) {
        return;
    }
    page.gap();
    page.paragraph("", 0, Style::Heading, "CPU, in % of each core's time");
    let kinds = ["user", "system", "softirq", "irq", "steal", "idle"].map(|kind| (kind, Set::Number));
    let mut table =
        Table::new([&[("trial", Set::Text), ("core", Set::Number), ("role", Set::Text)], &kinds[..]].concat());
    for trial in main_trials(document) {
        for (index, core) in trial.cpu.iter().enumerate() {
            let share = |share: f64| if share.is_finite() { format!("{:.1}", share * 100.0) } else { "-".to_owned() };
            let name = if index == 0 { trial.name.as_str() } else { "" };
            let role = core.role.as_deref().unwrap_or("");
            let mut cells = vec![Cell::new(name), Cell::new(core.core.to_string()), Cell::new(role)];
            cells.extend([core.user, core.system, core.softirq, core.irq].map(|kind| Cell::new(share(kind))));
            let steal_style = if core.steal >= 0.01 { Style::Doubtful } else { Style::Plain };
            cells.extend([Cell::styled(share(core.steal), steal_style), Cell::new(share(core.idle))]);
            table.row(cells);
        }
    }
    table.print(page);
}

fn print_ledgers(page: &mut Page, document: &Document) {
    for trial in main_trials(document) {
        page.gap();
        ledger::print(page, trial);
    }
}

/// One line for each step of a search, with its whole account.
fn print_searches(page: &mut Page, document: &Document) {
    let steps = || document.trials.iter().filter(|trial| trial.purpose == Purpose::Search);
    if steps().next().is_none() {
        return;
    }
    page.gap();
    page.paragraph("", 0, Style::Heading, "Search trials");
    let mut table = Table::new(vec![
        ("trial", Set::Text),
        ("load", Set::Number),
        ("intended", Set::Number),
        ("delivered", Set::Number),
        ("where the others went", Set::Text),
    ]);
    for trial in steps() {
        let (style, words) = ledger::words(trial);
        table.row(vec![
            Cell::new(&trial.name),
            Cell::new(pps(trial.load_pps)),
            Cell::new(count(trial.account.intended())),
            Cell::new(count(trial.account.delivered())),
            Cell::styled(words, style),
        ]);
    }
    table.print(page);
}

fn print_environment(page: &mut Page, environment: &Environment) {
    if *environment == Environment::default() {
        return;
    }
    page.gap();
    page.paragraph("", 0, Style::Heading, "Environment");
    let cores = environment.cores_online.map(|cores| cores.to_string());
    for (label, value) in [
        ("kernel", &environment.kernel),
        ("CPU", &environment.cpu_model),
        ("cores online", &cores),
        ("governor", &environment.governor),
        ("hypervisor", &environment.hypervisor),
    ] {
        if let Some(value) = value {
            page.paragraph(&format!("  {label}"), 16, Style::Plain, value);
        }
    }
    if let Some(cache_line) = &environment.cache_line {
        let time = |span_ns: Option<f64>| nanoseconds(span_ns.unwrap_or(f64::NAN));
        let [one, other] = cache_line.cores;
        let (before, after) = (time(cache_line.before_ns), time(cache_line.after_ns));
        let words = format!("cores {one} and {other}, there and back: {before} before the run, {after} after it");
        page.paragraph("  cache line", 16, Style::Plain, &words);
    }
    print_map(page, "versions", &environment.versions);
    print_map(page, "sysctls", &environment.sysctls);
    print_map(page, "offloads", &environment.offloads);
    print_map(page, "mitigations", &environment.mitigations);
    print_map(page, "other", &environment.other);
}

fn print_map(page: &mut Page, label: &str, map: &BTreeMap<String, String>) {
    if map.is_empty() {
        return;
    }
    let words = map.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join("; ");
    let columns = if label.is_empty() { LABEL_COLUMNS } else { 16 };
    page.paragraph(&format!("  {label}"), columns, Style::Faint, &words);
}

fn print_goals(page: &mut Page, document: &Document) {
    if document.goals.is_empty() {
        return;
    }
    page.gap();
    page.paragraph("", 0, Style::Heading, "Goals");
    let columns = ["goal", "wanted", "measured", ""].map(|column| (column, Set::Text));
    let mut table = Table::new(columns.to_vec());
    for goal in &document.goals {
        let verdict = if goal.met { Cell::styled("met", Style::Good) } else { Cell::styled("missed", Style::Bad) };
        let measured = goal.measured.as_deref().unwrap_or("not measured");
        table.row(vec![Cell::new(&goal.name), Cell::new(&goal.wanted), Cell::new(measured), verdict]);
    }
    table.print(page);
}

fn print_warnings(page: &mut Page, document: &Document) {
    if !document.warnings.is_empty() {
        page.gap();
    }
    for warning in &document.warnings {
        page.paragraph("warning", 9, Style::Doubtful, warning);
    }
}
