//! No test is forgotten. A crate with many files of tests joins them in one program, `tests/all.rs`, because each program takes its own
//! compiling and linking; cargo then looks for no tests by itself (`autotests = false`). A crate without tests inside, or in its
//! documentation, says so (`test = false`, `doctest = false` of `[lib]`), so that nothing is built to find none. The body of each fuzz target is
//! part of a test, too, so that it runs, and is linted, where no fuzzer is.

use super::Complaint;
use super::tree::TextFile;

/// Words behind three backquotes that make what follows no test.
const NO_CODE: [&str; 3] = ["text", "toml", "json"];

/// Every test that cargo would not run.
pub fn check(files: &[TextFile]) -> Vec<Complaint> {
    let mut complaints = unused_bodies(files);
    for manifest in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let section =
            |name: &str| sections(&manifest.text).find(|section| section.first() == Some(&name)).unwrap_or_default();
        let crate_folder = manifest.path.trim_end_matches("Cargo.toml");
        if section("[package]").contains(&"autotests = false") {
            check_files(manifest, files, &mut complaints);
        }
        let library = section("[lib]");
        let sources = || {
            let folder = format!("{crate_folder}src/");
            files.iter().filter(move |file| file.path.starts_with(&folder) && file.path.ends_with(".rs"))
        };
        if library.contains(&"test = false") {
            let tested = sources().filter(|file| has_tests(file));
            complaints
                .extend(tested.map(|file| Complaint::new(&file.path, 0, "has tests, which `test = false` leaves out")));
        }
        if library.contains(&"doctest = false") {
            let shown = sources().filter_map(|file| Some((file, example(&file.text)?)));
            let what = "has an example, which `doctest = false` leaves out";
            complaints.extend(shown.map(|(file, line)| Complaint::new(&file.path, line, what)));
        }
    }
    complaints
}

/// Every body of a fuzz target that no file of a crate names.
fn unused_bodies(files: &[TextFile]) -> Vec<Complaint> {
    let is_used = |body: &str| files.iter().any(|file| file.path.starts_with("crates/") && file.text.contains(body));
    let bodies = files.iter().filter(|file| file.path.starts_with("fuzz/bodies/") && !is_used(&file.path));
    bodies.map(|body| Complaint::new(&body.path, 0, "is in no test of a crate: name it by `#[path]` in one")).collect()
}

/// The sections of a manifest, each with its heading as its first line.
fn sections(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with('[')).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([lines.len()]).collect();
    starts.into_iter().zip(ends).map(move |(start, end)| lines[start..end].to_vec())
}

fn has_tests(file: &TextFile) -> bool {
    file.source().code.iter().any(|line| line.trim_start().starts_with("#[test]"))
}

/// The line of the first example in documentation that is a test.
fn example(text: &str) -> Option<usize> {
    let mut is_open = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let Some(said) = line.strip_prefix("//!").or_else(|| line.strip_prefix("///")) else { continue };
        let Some(word) = said.trim().strip_prefix("```") else { continue };
        if !is_open && !NO_CODE.contains(&word) {
            return Some(number + 1);
        }
        is_open = !is_open;
    }
    None
}

/// Every file of tests that is in no program.
fn check_files(manifest: &TextFile, files: &[TextFile], complaints: &mut Vec<Complaint>) {
    let folder = format!("{}tests/", manifest.path.trim_end_matches("Cargo.toml"));
    let all = files.iter().find(|file| file.path == format!("{folder}all.rs")).map_or("", |file| file.text.as_str());
    let is_module = |name: &str| all.lines().any(|line| line == format!("mod {name};"));
    let is_program = |name: &str| manifest.text.lines().any(|line| line == format!("name = \"{name}\""));
    for file in files {
        let Some(name) = file.path.strip_prefix(&folder).and_then(|name| name.strip_suffix(".rs")) else { continue };
        let is_missing = match name.split_once('/') {
            None => !is_module(name) && !is_program(name),
            Some((folder, "main")) => !is_program(folder),
            Some(_) => false,
        };
        if is_missing {
            let what = "is in no program: `mod NAME;` in tests/all.rs, or `[[test]]` with this name in Cargo.toml where it \
                        needs a process of its own";
            complaints.push(Complaint::new(&file.path, 0, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_tests_that_is_in_no_program_is_found() {
        let file = |path: &str, text: &str| TextFile::new(path, text);
        let manifest = |auto: &str| {
            let text = format!("[package]\n{auto}\n[[test]]\nname = \"all\"\n\n[[test]]\nname = \"alone\"\n");
            file("crates/base/x/Cargo.toml", &text)
        };
        let mut files = vec![
            manifest("autotests = false"),
            file("crates/base/x/tests/all.rs", "//! Head.\n\nmod common;\nmod joined;\n"),
            file("crates/base/x/tests/joined.rs", ""),
            file("crates/base/x/tests/alone.rs", ""),
            file("crates/base/x/tests/common/mod.rs", ""),
            file("crates/base/x/tests/lost.rs", ""),
            file("crates/base/x/tests/folder/main.rs", ""),
            file("crates/base/xy/tests/of_another_crate.rs", ""),
        ];
        let places = |files: &[TextFile]| check(files).into_iter().map(|found| found.place).collect::<Vec<_>>();
        assert_eq!(places(&files), ["crates/base/x/tests/lost.rs", "crates/base/x/tests/folder/main.rs"]);
        // Where cargo looks for tests itself, none is lost.
        files[0] = manifest("");
        assert_eq!(places(&files), [""; 0]);
    }

    #[test]
    fn a_body_of_a_fuzz_target_that_no_test_runs_is_found() {
        let file = |path: &str, text: &str| TextFile::new(path, text);
        let mut files = vec![
            file("fuzz/bodies/a.rs", ""),
            file("fuzz/fuzz_targets/a.rs", "#[path = \"../bodies/a.rs\"]\nmod a; // fuzz/bodies/a.rs\n"),
        ];
        assert_eq!(check(&files).iter().map(|found| found.place.as_str()).collect::<Vec<_>>(), ["fuzz/bodies/a.rs"]);
        let test = "#[path = \"../../../../fuzz/bodies/a.rs\"]\nmod a;\n";
        files.push(file("crates/base/x/tests/a.rs", test));
        assert_eq!(check(&files), []);
    }

    #[test]
    fn tests_in_a_library_that_says_it_has_none_are_found() {
        let file = |path: &str, text: &str| TextFile::new(path, text);
        let manifest =
            |settings: &str| file("crates/base/x/Cargo.toml", &format!("[package]\n\n[lib]\n{settings}\n[features]\n"));
        let tested = file(
            "crates/base/x/src/a.rs",
            "//! ```text\n//! a\n//! ```\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {}\n}\n",
        );
        let shown = file("crates/base/x/src/b.rs", "/// ```\n/// assert!(true);\n/// ```\npub fn b() {}\n// #[test]\n");
        let places = |settings: &str| {
            let found = check(&[manifest(settings), tested.clone(), shown.clone()]);
            found.into_iter().map(|found| (found.place, found.line)).collect::<Vec<_>>()
        };
        assert_eq!(places("test = false"), [("crates/base/x/src/a.rs".to_owned(), 0)]);
        assert_eq!(places("doctest = false"), [("crates/base/x/src/b.rs".to_owned(), 1)]);
        assert_eq!(places(""), []);
    }
}
