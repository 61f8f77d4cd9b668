//! An experiment's results in every format: complete, marked, escaped, and valid by the formats' own rules.

use super::experiment;
use super::hostile;

use experiment::{Device, finding, rich, sizes, small, trial};
use hostile::{HOSTILE, hostile};
use linerate_report::*;

/// Writes each output where a person can look at it, if asked to.
#[test]
fn outputs_to_look_at() {
    let Some(dir) = std::env::var_os("LINERATE_OUTPUTS") else {
        println!("skipped: LINERATE_OUTPUTS names no folder");
        return;
    };
    let dir = std::path::Path::new(&dir);
    for (name, results) in [("rich", rich(1)), ("sizes", sizes(3, 5, 1.2e6, 0.01)), ("small", small())] {
        let mut folder = ResultsFolder::create(&dir.join(name), &results).unwrap();
        folder.finish(&results).unwrap();
    }
}

#[test]
fn finish_writes_every_report() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = ResultsFolder::create(dir.path(), &small()).unwrap();
    folder.finish(&small()).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = ["experiment.toml", "ledger.csv", "metrics.txt", "report.html", "report.md", "report.txt"];
    let expected: Vec<&str> = expected.into_iter().chain(["result.json", "results.csv", "trials.csv"]).collect();
    assert_eq!(names, expected);
}

#[test]
fn marks_and_missing_figures_are_in_every_output() {
    let results = rich(1);
    let outputs = [
        ("terminal", results_terminal(&results, 120, false)),
        ("Markdown", results_markdown(&results)),
        ("CSV", figures_csv(&results)),
        ("OpenMetrics", openmetrics(&results)),
        ("HTML", html(&results)),
    ];
    for (name, text) in &outputs {
        let text = text.replace("&#39;", "'");
        for mark in ["tester's limit", "disturbed"] {
            assert!(text.contains(mark), "{name} does not say {mark}");
        }
    }
    for (name, text) in outputs.iter().filter(|(name, _)| *name != "OpenMetrics") {
        assert!(text.contains("the DUT stopped: exit status 1"), "{name} does not say why a test failed");
        assert!(text.contains("did not recover"), "{name} does not say that it did not recover");
    }
    for text in [results_markdown(&results), html(&results), ledger_csv(&results)] {
        assert!(text.contains("raise the ring: rx=4096"));
    }
    let incomplete = Results { complete: false, ..small() };
    for text in [results_terminal(&incomplete, 80, false), results_markdown(&incomplete), html(&incomplete)] {
        assert!(text.contains("not complete"));
    }
}

#[test]
fn a_rate_near_the_baseline_is_marked_whatever_the_test() {
    let rows = parse_csv(&figures_csv(&rich(1)));
    let most = rows.iter().find(|row| row[7] == "max-forwarding-rate").unwrap();
    assert_eq!(most[13], "tester's limit");
}

/// `rich` has one trial that was made again, by far the fastest.
#[test]
fn a_trial_that_was_made_again_is_shown_and_in_no_figure() {
    let with = rich(1);
    let mut without = with.clone();
    for finding in without.cells.iter_mut().flat_map(|cell| &mut cell.findings) {
        finding.trials.retain(|made| made.not_used.is_none());
    }
    assert_eq!((figures_csv(&with), openmetrics(&with)), (figures_csv(&without), openmetrics(&without)));
    let words = "Trials that were made again, and are in no figure: 1, of which 1 were disturbed";
    for of in [html, results_markdown, |results: &Results| results_terminal(results, 200, false)] {
        let (with, without) = (of(&with), of(&without));
        assert!(with.contains(words) && !without.contains(words), "{with}");
        let said = |line: &&str| !line.contains(words);
        let rest = |text: &str| text.lines().filter(said).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rest(&with).len(), rest(&without).len());
    }
    for text in [trials_csv(&with), ledger_csv(&with)] {
        let rows = parse_csv(&text);
        assert_eq!(rows[0].last().map(String::as_str), Some("not_used"));
        let why: Vec<&str> = rows[1..].iter().filter_map(|row| row.last()).map(String::as_str).collect();
        let again: Vec<_> = why.iter().filter(|why| why.contains("disturbed")).collect();
        assert!(!again.is_empty() && again.len() < why.len() && why.contains(&""), "{text}");
    }
    assert_eq!(parse_csv(&trials_csv(&with)).len(), parse_csv(&trials_csv(&without)).len() + 1);
    let [one, other] = compare(&[without, with]).pairs[0].noise;
    assert_eq!(one, other);
}

#[test]
fn the_screen_ends_with_the_summary() {
    let results = rich(1);
    let (file, screen) = (results_terminal(&results, 120, false), results_screen(&results, 120, false));
    let heading = file.lines().next().unwrap();
    let [tables, summary] = screen.split(heading).collect::<Vec<_>>()[..] else { panic!("one heading: {screen}") };
    assert!(tables.contains("Throughput") && !summary.contains("Throughput"), "{screen}");
    assert!(file.contains("\nEnvironment\n") && !screen.contains("\nEnvironment\n"), "{screen}");
    let whole: std::collections::HashSet<&str> = file.lines().collect();
    assert!(screen.lines().all(|line| whole.contains(line)), "the file has all that the screen has");
}

#[test]
fn terminal_lines_fit_and_colours_change_nothing_else() {
    for results in [rich(1), small(), hostile()] {
        for columns in [40, 80, 120] {
            let text = results_terminal(&results, columns, false);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns} columns");
            assert!(!text.contains(['\x1b', '\r', '\u{202e}']));
        }
    }
}

#[test]
fn csv_has_the_same_columns_in_every_row() {
    for results in [rich(1), small(), hostile()] {
        for (name, text) in
            [("figures", figures_csv(&results)), ("trials", trials_csv(&results)), ("ledger", ledger_csv(&results))]
        {
            let rows = parse_csv(&text);
            assert!(rows.len() > 1, "{name}");
            for row in &rows {
                assert_eq!(row.len(), rows[0].len(), "{name}: {row:?}");
                let formula = row.iter().find(|field| field.starts_with(['=', '@']));
                assert_eq!(formula, None, "{name}");
            }
        }
    }
    let figures = parse_csv(&figures_csv(&hostile()));
    assert!(figures[1][1].contains(HOSTILE), "{}", figures[1][1]);
    // One row for each trial, and documented columns.
    let results = rich(1);
    let trials: usize = results.cells.iter().flat_map(|cell| &cell.findings).map(|finding| finding.trials.len()).sum();
    assert_eq!(parse_csv(&trials_csv(&results)).len(), trials + 1);
    let prose = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/results.md")).unwrap();
    for text in [figures_csv(&results), trials_csv(&results), ledger_csv(&results)] {
        for column in &parse_csv(&text)[0] {
            assert!(prose.contains(&format!("`{column}`")), "docs/results.md does not describe {column}");
        }
    }
}

/// RFC 4180 section 2.
fn parse_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\r' if !quoted => assert_eq!(letters.peek(), Some(&'\n')),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            _ => field.push(letter),
        }
    }
    assert!(!quoted && row.is_empty() && field.is_empty());
    rows
}

#[test]
fn openmetrics_are_valid() {
    for results in [rich(1), sizes(1, 3, 1e6, 0.01), small(), hostile()] {
        let text = openmetrics(&results);
        check_openmetrics(&text).unwrap_or_else(|error| panic!("{error}"));
        assert!(text.contains("linerate_rate_packets_per_second{"));
    }
    for broken in ["", "# EOF", "a 1\n# EOF\n", "# TYPE a gauge\na{b=\"c} 1\n# EOF\n", "# TYPE a gauge\na x\n# EOF\n"] {
        assert!(check_openmetrics(broken).is_err(), "{broken:?}");
    }
}

/// The rules of OpenMetrics 1.0 that a gauge can break: order of metadata, units, names, escapes, duplicates, the end.
fn check_openmetrics(text: &str) -> Result<(), String> {
    let body = text.strip_suffix("# EOF\n").ok_or("does not end with EOF")?;
    let (mut family, mut seen_families, mut seen_samples) = (String::new(), vec![], std::collections::HashSet::new());
    for line in body.lines() {
        let error = |what: &str| Err(format!("{what}: {line}"));
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let Some((name, "gauge")) = rest.split_once(' ') else { return error("type") };
            if seen_families.contains(&name.to_owned()) {
                return error("family twice");
            }
            family = name.to_owned();
            seen_families.push(family.clone());
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let Some((name, unit)) = rest.split_once(' ') else { return error("unit") };
            if name != family || !name.ends_with(&format!("_{unit}")) {
                return error("unit is not the end of the name");
            }
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            if rest.split_once(' ').is_none_or(|(name, _)| name != family) {
                return error("help of another family");
            }
        } else {
            let Some(rest) = line.strip_prefix(&family).filter(|_| !family.is_empty()) else { return error("name") };
            let value = check_labels(rest).ok_or_else(|| format!("labels: {line}"))?;
            if value.trim().parse::<f64>().is_err() {
                return error("value");
            }
            let sample = line.len() - value.len();
            if !seen_samples.insert(line[..sample].to_owned()) {
                return error("sample twice");
            }
        }
    }
    Ok(())
}

/// What stands behind the labels.
fn check_labels(text: &str) -> Option<&str> {
    let Some(mut rest) = text.strip_prefix('{') else { return Some(text) };
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        is_name(name).then_some(())?;
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next()? {
                (_, '\\') => matches!(letters.next()?.1, '\\' | 'n' | '"').then_some(())?,
                (at, '"') => break at,
                _ => {}
            }
        };
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.strip_prefix("} "),
        }
    }
}

#[test]
fn markdown_has_no_markup_of_the_results() {
    let text = results_markdown(&hostile());
    assert!(!text.contains("<script>") && !text.replace("\\]", "").contains("](http"));
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let bars = line.replace("\\\\", "").replace("\\|", "").matches('|').count();
        assert!(bars == 9 || bars < 15, "{line}");
        assert!(line.ends_with('|'), "{line}");
    }
}

/// A run of one cell with these findings.
fn one_cell(findings: Vec<Finding>) -> Results {
    let mut results = sizes(1, 1, 1e6, 0.01);
    results.cells.truncate(1);
    results.cells[0].findings = findings;
    results
}

#[test]
fn the_ledger_shown_is_that_of_the_trial_that_lost_most_not_of_the_one_with_most_unsent() {
    let device = Device { capacity_pps: 5e5, noise: 0.0, baseline_pps: 2e6 };
    let counted = |intended, sent, delivered| Counted { intended, sent, delivered, ..Counted::default() };
    let made = |name: &str, counted: Counted| {
        let mut made = trial(name, 64, 1, 5e5, 5e5, &device);
        let lost = counted.sent - counted.delivered;
        made.trial.account = Account::new(counted, vec![Loss::new("ring", "full", lost)]).unwrap();
        made
    };
    let starved = made("starved", counted(1_000_000, 100_000, 99_999));
    let lossy = made("lossy", counted(1_000_000, 1_000_000, 873_367));
    let load = TestResult::Load { sent_pps: 1e6, delivered_pps: 1e6 };
    let text = results_terminal(&one_cell(vec![finding(1, load.clone(), vec![starved.clone(), lossy])]), 120, false);
    assert!(text.contains("lossy: 64 B") && !text.contains("starved: 64 B"), "{text}");
    // Where nothing was lost, the unsent ones are all there is to tell.
    let whole = made("whole", counted(1_000, 1_000, 1_000));
    let starved = made("starved", counted(1_000_000, 100_000, 100_000));
    let text = results_terminal(&one_cell(vec![finding(1, load, vec![starved, whole])]), 120, false);
    assert!(text.contains("starved: 64 B"), "{text}");
}

#[test]
fn the_answer_comes_first_with_bounds_interruptions_and_pace() {
    let device = Device { capacity_pps: 8e5, noise: 0.0, baseline_pps: 2e6 };
    let goal = |lower: f64, with: Option<f64>| GoalFound {
        name: "NDR".to_owned(),
        loss_ratio: 0.0,
        exceed_ratio: 0.5,
        lower_pps: Some(lower),
        upper_pps: Some(lower * 1.05),
        conditional_pps: None,
        width: 0.05,
        irregular: false,
        limited_by: LimitedBy::Loss,
        tester_limited: false,
        stop: SearchStop::Resolved,
        confirmations: 0,
        overturned: 0,
        outside_interruptions: true,
        with_interruptions: with.map(|pps| GoalBounds { lower_pps: Some(pps), upper_pps: None }),
    };
    let trials = |pace_ns: f64, line_ns: f64| {
        let mut made = trial("one", 64, 1, 7e5, 8e5, &device);
        made.machine.noise = Noise {
            generator_pace_ns: Some(30e3),
            dut_pace_ns: Some(pace_ns),
            cache_line_ns: Some(line_ns),
            ..made.machine.noise
        };
        vec![made]
    };
    let run = |paces: [f64; 2], line_ns: f64| {
        let search = |pps, with| TestResult::Throughput { goals: vec![goal(pps, with)] };
        let rates = |all: [f64; 3]| TestResult::Capacity { delivered_pps: all.into(), sent_pps: vec![1.5e6; 3] };
        let no_loss = TestResult::NoLoss { pps: Some(6.5e5), duration_ns: 500_000_000, points: Vec::new(), why: None };
        one_cell(vec![
            finding(1, search(8e5, None), trials(paces[0], 110.0)),
            finding(2, search(7e5, Some(2e5)), trials(paces[1], line_ns)),
            finding(3, search(7.5e5, Some(3e5)), trials(paces[0], 110.0)),
            finding(1, rates([8.1e5, 7.9e5, 8.3e5]), trials(paces[0], 110.0)),
            finding(1, no_loss, trials(paces[0], 110.0)),
        ])
    };
    let words = |results: &Results| {
        let text = results_terminal(results, 4_000, false);
        text.lines().skip(2).take(8).map(str::trim).collect::<Vec<_>>().join("\n")
    };
    let text = words(&run([30e3, 30.6e3], 115.0));
    assert!(text.contains("750.0 kpps without loss (NDR, 700.0 kpps to 840.0 kpps)"), "{text}");
    assert!(text.contains("810.0 kpps under overload (790.0 kpps to 830.0 kpps)"), "{text}");
    assert!(text.contains("not one packet lost over 500 ms at 650.0 kpps"), "{text}");
    assert!(text.contains("NDR 750.0 kpps, with them 300.0 kpps"), "{text}");
    assert!(
        text.contains("The cores kept their pace: a fixed loop, timed beside each trial, moved by 2.00 %."),
        "{text}"
    );
    let text = words(&run([30e3, 45e3], 115.0));
    assert!(text.contains("did not keep their pace") && text.contains("moved by 50.0 %."), "{text}");
    let text = words(&run([30e3, 30e3], 510.0));
    assert!(text.contains("did not keep their pace") && text.contains("a cache line took 110 ns to 510 ns"), "{text}");
}

#[test]
fn each_device_has_the_line_of_its_own_path_unless_that_is_far_beyond_the_picture() {
    let mut results = sizes(1, 1, 1.2e6, 0.01);
    let lines = |results: &Results| html(results).matches("<path class=\"base\" d=\"M").count();
    // The picture, and the legend below it.
    assert_eq!(lines(&results), 2);
    let of_memory = |factor: f64| {
        let other = |cell: &Cell| Cell {
            id: format!("memif-{}", cell.id),
            dut_name: "switch-memif".to_owned(),
            baseline_pps: cell.baseline_pps.map(|pps| factor * pps),
            ..cell.clone()
        };
        results.cells.iter().map(other).collect::<Vec<_>>()
    };
    let (near, far) = (of_memory(1.5), of_memory(20.0));
    let before = results.cells.clone();
    results.cells = [before.clone(), near].concat();
    assert_eq!(lines(&results), 3);
    results.cells = [before, far].concat();
    assert_eq!(lines(&results), 2);
}

#[test]
fn tests_of_tcp_open_with_what_each_device_carries() {
    let mut results = rich(1);
    let is_of_tcp = |finding: &Finding| {
        let found = finding.result.as_ref();
        matches!(found, Some(TestResult::ConnectionRate(_) | TestResult::ConcurrentConnections(_)))
    };
    results.cells.truncate(1);
    results.cells[0].findings.retain(is_of_tcp);
    let text = results_terminal(&results, 100, false);
    let sentence = "all succeed at 1.000 k/s connections (not at 2.000 k/s), 500 connections at a time (not at 1,000).";
    assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(sentence), "{text}");
    assert!(text.contains("Connections and requests that all succeed"), "{text}");
    // The load that succeeded and the one that did not, with what became of its packets.
    assert!(text.contains("120, in DUT, IPv4 input"), "{text}");
    let page = html(&results);
    for caption in ["Connections a second that all succeed", "Connections at a time that all succeed"] {
        assert!(page.contains(caption), "{caption}");
    }
    // Of many cells the best and the least.
    let cell = results.cells[0].clone();
    for number in 0..8 {
        results.cells.push(Cell { id: format!("more-{number}"), dut_name: format!("dut{number}"), ..cell.clone() });
    }
    let text = results_terminal(&results, 400, false);
    assert!(text.contains("All connections a second succeed: at most "), "{text}");
}

#[test]
fn echoes_are_drawn_by_connections_beside_the_published_ones() {
    let mut results = rich(1);
    results.cells.truncate(1);
    results.cells[0].findings.retain(|finding| matches!(finding.result, Some(TestResult::TcpEcho(_))));
    let published = |source: &str, connections: u64| PublishedRow {
        source: format!("somebody, 2018, {source}"),
        what: "echoes".to_owned(),
        value: Some(5e6 - connections as f64),
        per_ghz: None,
        text: "5 M".to_owned(),
    };
    let cell = results.cells[0].clone();
    let of = |cores: &'static str, ports: &'static str| {
        let cell = &cell;
        [1, 64, 10_000].map(move |connections| Cell {
            id: format!("{cores}-{ports}-{connections}"),
            flows: connections,
            cores: Some(cores.to_owned()),
            ports: Some(ports.to_owned()),
            published: vec![published(ports, connections)],
            ..cell.clone()
        })
    };
    results.cells = [of("shared", "pipe"), of("shared", "memif"), of("apart", "pipe")].concat();
    let page = html(&results);
    for words in ["Echoes a second by connections, cores shared", "Echoes a second by connections, cores apart"] {
        assert!(page.contains(words), "{words}");
    }
    // Lines are those of a path; of a source what the others do not have, or all of it where it is the only one.
    for words in ["plain, pipe</span>", "plain, memif</span>", ">memif</text>", "published: somebody, 2018, pipe<"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(results_terminal(&results, 400, false).contains("Echoes a second: at most "));
    results.cells.truncate(1);
    assert!(html(&results).contains("<figcaption>Echoes a second</figcaption>"));
}
