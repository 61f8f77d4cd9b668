//! An experiment's results in every format: complete, marked, escaped, and valid by the formats' own rules.

#[path = "common/experiment.rs"]
#[allow(dead_code)]
mod experiment;
#[path = "common/hostile.rs"]
mod hostile;

use experiment::{rich, sizes, small};
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
