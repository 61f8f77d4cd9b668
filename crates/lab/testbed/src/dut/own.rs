//! This program itself, which some devices are other subcommands of.

use std::path::{Path, PathBuf};

const PROGRAM: &str = "linerate";
/// The name of a switch, in a folder of its own.
pub(super) const SWITCH: &str = "dut";

/// The executable with the subcommands: this one, whatever it is called, or where this one is a test or a bench the one beside it,
/// or that in PATH.
pub(super) fn program() -> String {
    let found = std::env::current_exe().ok().and_then(|own| program_of(&own));
    found.map_or_else(|| PROGRAM.into(), |path| path.to_string_lossy().into_owned())
}

fn program_of(own: &Path) -> Option<PathBuf> {
    let name = own.file_name()?.to_str()?;
    // `linerate`, and names that packages give it, as `linerate-static`.
    let has_its_name = name.strip_prefix(PROGRAM).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    // Where cargo puts tests and examples.
    let is_of_cargo = own.parent()?.file_name().is_some_and(|folder| folder == "deps" || folder == "examples");
    let itself = [own.to_owned()].into_iter();
    let beside = own.ancestors().skip(1).take(2).map(|folder| folder.join(PROGRAM));
    let candidates = itself.clone().filter(|_| has_its_name).chain(beside).chain(itself.filter(|_| !is_of_cargo));
    candidates.into_iter().find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_another_name_is_itself_and_a_test_takes_the_one_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(&path, "").expect("a file");
            path
        };
        let [packaged, renamed] = ["packages/linerate-static", "packages/lr"].map(file);
        assert_eq!(program_of(&packaged), Some(packaged.clone()));
        assert_eq!(program_of(&renamed), Some(renamed));
        let [test, bench] = ["release/deps/linerate_tester-0123", "release/peers"].map(file);
        assert_eq!(program_of(&test), None, "a test is not the program");
        let program = file("release/linerate");
        assert_eq!(program_of(&program), Some(program.clone()));
        assert_eq!(program_of(&test), Some(program.clone()));
        assert_eq!(program_of(&bench), Some(program));
    }
}
