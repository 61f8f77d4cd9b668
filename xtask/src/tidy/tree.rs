//! What any file of the repository may say: nothing about the machine that it was written on, no notes to oneself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};

use super::Complaint;
use super::lexer::Source;

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// From the workspace's root, with `/`.
    pub path: String,
    /// What it says.
    pub text: String,
    /// Taken apart, once for all rules.
    source: OnceLock<Source>,
}

impl TextFile {
    /// A file with this text.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> TextFile {
        TextFile { path: path.into(), text: text.into(), source: OnceLock::new() }
    }

    /// Its text as the rules for Rust see it.
    pub fn source(&self) -> &Source {
        self.source.get_or_init(|| Source::new(&self.text))
    }
}

/// Starts of paths that are of one machine. Put together here, so that this file does not contain them.
const MACHINE_PATHS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];
/// Marks of what was left undone.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
/// Folders that are never a part of the repository, for copies of it without git.
const NOT_OURS: [&str; 4] = ["target", ".git", "results", "corpus"];

/// The files of the repository that are texts: those that git tracks or would track, or all where there is no git.
pub fn read(root: &Path) -> Result<Vec<TextFile>> {
    let mut paths = match tracked(root) {
        Some(paths) => paths,
        None => {
            let mut found = Vec::new();
            walk(root, root, &mut found)?;
            found
        }
    };
    paths.sort();
    paths.dedup();
    let mut files = Vec::new();
    for path in paths {
        // A file that git knows may have been deleted since.
        let Ok(bytes) = fs::read(root.join(&path)) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            files.push(TextFile::new(path, text));
        }
    }
    Ok(files)
}

/// What git says; `None` when it is not there or this is no clone.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = command.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).ok()?;
    Some(names.split('\0').filter(|name| !name.is_empty()).map(str::to_string).collect())
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        if kind.is_dir() && !NOT_OURS.iter().any(|name| entry.file_name() == *name) {
            walk(root, &path, found)?;
        } else if kind.is_file() {
            let path = path.strip_prefix(root).unwrap_or(&path);
            found.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

/// Every breach in one file.
pub fn check(file: &TextFile) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (number, line) in file.text.lines().enumerate() {
        let mut complain = |text: String| complaints.push(Complaint::new(&file.path, number + 1, text));
        for path in MACHINE_PATHS.iter().filter(|path| names_path(line, path)) {
            complain(format!("a path of one machine: {path}..."));
        }
        for note in NOTES.iter().filter(|note| line.contains(**note)) {
            complain(format!("a note to oneself: {note}; do it, or open an issue"));
        }
        if line.ends_with(' ') && file.path.ends_with(".rs") {
            complain("blanks at the end of the line".into());
        }
    }
    complaints
}

/// True when an absolute path begins here, not a part of a relative one or of an address.
fn names_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '.' | '_' | '-' | '}' | '/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> usize {
        check(&TextFile::new("docs/a.rs", text)).len()
    }

    #[test]
    fn machine_paths_and_notes_are_found() {
        for path in MACHINE_PATHS {
            assert_eq!(complaints(&format!("see {path}main\nand \"{path}x\"\n")), 2);
            assert_eq!(complaints(&format!("see target{path}main, https://host{path}x\n")), 0);
        }
        for note in NOTES {
            assert_eq!(complaints(&format!("// {note} later\n")), 1);
        }
        assert_eq!(complaints("fn a() {} \n"), 1);
        assert_eq!(complaints("/tmp/a.pcap is no machine's own\n"), 0);
    }

    #[test]
    fn the_files_of_this_repository_are_found_with_and_without_git() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let files = read(root).unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy/tree.rs"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/")));
        let mut found = Vec::new();
        walk(root, &root.join("xtask"), &mut found).unwrap();
        assert!(found.iter().any(|path| path == "xtask/src/tidy/tree.rs"));
    }
}
