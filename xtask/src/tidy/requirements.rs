//! The table of requirements of the TCP standards: each row names tests that exist, or says why there is none.

use std::collections::BTreeSet;

use super::Complaint;
use super::lexer::Source;
use super::tree::TextFile;

/// The table.
const TABLE: &str = "docs/tcp-requirements.md";
/// Where tests of it may be.
const TESTS: [&str; 3] = ["crates/engines/tcp/", "crates/engines/ip/", "crates/engines/tcpscript/"];
/// Where scenarios lie.
const SCRIPTS: &str = "crates/engines/tcp/tests/scripts/";
/// Words that stand for a test where none is possible; the reason follows.
const EXCUSES: [&str; 2] = ["*Not met*", "*Not ours*"];
/// Numbers of appendix B of RFC 9293, from 1 to these.
const NUMBERS: [(&str, usize); 4] = [("MUST", 69), ("SHLD", 31), ("MAY", 18), ("REC", 1)];

/// Every breach in the table, given all files of the repository.
pub fn check(files: &[TextFile]) -> Vec<Complaint> {
    match files.iter().find(|file| file.path == TABLE) {
        Some(table) => check_table(&table.text, &names_of_tests(files)),
        None => vec![Complaint::new(TABLE, 0, "the table of requirements is missing")],
    }
}

fn check_table(table: &str, tests: &BTreeSet<String>) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut numbers = BTreeSet::new();
    for (line, row) in table.lines().enumerate() {
        let Some([number, _, shown]) = cells(row) else { continue };
        let mut complain = |text: String| complaints.push(Complaint::new(TABLE, line + 1, text));
        if is_number(number) && !numbers.insert(number.to_string()) {
            complain(format!("a second row of {number}"));
        }
        let named: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        let excused = EXCUSES.iter().any(|excuse| shown.contains(excuse));
        if named.is_empty() && !excused {
            complain(format!("{number} has no test; name one, or say why there is none ({})", EXCUSES.join(", ")));
        }
        for name in named.iter().filter(|name| looks_like_a_test(name) && !tests.contains(**name)) {
            complain(format!("{number}: there is no test and no scenario {name}"));
        }
    }
    let all = NUMBERS.iter().flat_map(|(kind, last)| (1..=*last).map(move |number| format!("{kind}-{number}")));
    let missing = all.filter(|number| !numbers.contains(number));
    complaints.extend(missing.map(|number| Complaint::new(TABLE, 0, format!("{number} of RFC 9293 has no row"))));
    complaints
}

/// The three cells of a row that is no heading.
fn cells(row: &str) -> Option<[&str; 3]> {
    let inner = row.trim().strip_prefix('|')?.strip_suffix('|')?;
    let cells: Vec<&str> = inner.split('|').map(str::trim).collect();
    let cells: [&str; 3] = cells.try_into().ok()?;
    (!cells[0].starts_with("---") && cells[2] != "shown by").then_some(cells)
}

fn is_number(text: &str) -> bool {
    let kind = text.split('-').next().unwrap_or_default();
    NUMBERS.iter().any(|(known, _)| *known == kind)
}

/// Names of tests have blanks' worth of underscores; words like `abort` are none.
fn looks_like_a_test(name: &str) -> bool {
    name.contains('_')
}

/// Names of scenarios, and of functions behind `#[test]`.
fn names_of_tests(files: &[TextFile]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in files {
        if file.path.starts_with(SCRIPTS) {
            names.extend(
                file.text.lines().filter_map(|line| line.strip_prefix("scenario ")).map(|name| name.trim().to_string()),
            );
        } else if file.path.ends_with(".rs") && TESTS.iter().any(|folder| file.path.starts_with(folder)) {
            names.extend(functions(file.source()));
        }
    }
    names
}

fn functions(source: &Source) -> Vec<String> {
    let marks = source.code.iter().enumerate().filter(|(_, code)| code.trim() == "#[test]");
    let behind = marks.filter_map(|(line, _)| {
        let function = source.code[line + 1..].iter().find(|code| !code.trim_start().starts_with('#'))?;
        let (_, name) = function.split_once("fn ")?;
        Some(name.split('(').next()?.trim().to_string())
    });
    behind.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(shown: &str) -> Vec<String> {
        let mut table =
            format!("| number | requirement | shown by |\n|---|---|---|\n| MUST-1 | It works | {shown} |\n");
        for (kind, last) in NUMBERS {
            for number in 1..=last {
                if (kind, number) != ("MUST", 1) {
                    table += &format!("| {kind}-{number} | It works | `a_test` |\n");
                }
            }
        }
        let tests = BTreeSet::from(["a_test".to_string()]);
        check_table(&table, &tests).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn rows_need_tests_that_exist_or_a_reason() {
        assert_eq!(complaints("`a_test`"), [""; 0]);
        assert_eq!(complaints("*Not met*: because"), [""; 0]);
        assert_eq!(complaints("`a_test`, and `abort` too"), [""; 0]);
        for (shown, words) in [
            ("", "has no test"),
            ("by reading", "has no test"),
            ("`no_test`", "no scenario no_test"),
            ("`a_test`, `no_test`", "no scenario no_test"),
            ("*Not met*: see `no_test`", "no scenario no_test"),
        ] {
            let found = complaints(shown);
            assert!(found.len() == 1 && found[0].contains(words) && found[0].contains(":3:"), "{shown}: {found:?}");
        }
    }

    #[test]
    fn every_number_has_one_row() {
        let tests = BTreeSet::from(["a_test".to_string()]);
        let found = check_table("| MUST-1 | It works | `a_test` |\n| MUST-1 | It works | `a_test` |\n", &tests);
        assert_eq!(found.iter().filter(|complaint| complaint.text.contains("second row")).count(), 1);
        assert_eq!(found.iter().filter(|complaint| complaint.text.contains("has no row")).count(), 69 + 31 + 18);
    }

    #[test]
    fn tests_and_scenarios_are_found() {
        let file = |path: &str, text: &str| TextFile::new(path, text);
        let files = [
            file(
                "crates/engines/tcp/tests/a.rs",
                "#[test]\n#[should_panic]\nfn one_test() {}\nfn no_test() {}\n// #[test]\nfn other() {}",
            ),
            file("crates/engines/tcp/tests/scripts/a.txt", "scenario a_scenario\n# scenario b\n"),
            file("crates/apps/cli/src/a.rs", "#[test]\nfn elsewhere_it_is() {}"),
        ];
        let names: Vec<String> = names_of_tests(&files).into_iter().collect();
        assert_eq!(names, ["a_scenario", "one_test"]);
    }
}
