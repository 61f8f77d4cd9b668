//! This program itself, which some devices are other subcommands of.

use std::path::PathBuf;

const PROGRAM: &str = "linerate";
/// The name of a switch, in a folder of its own.
pub(super) const SWITCH: &str = "dut";

/// The executable with the subcommands: this one, or where this one is a test the one beside it, or that in PATH.
pub(super) fn program() -> String {
    let own = std::env::current_exe().ok();
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name == PROGRAM) && path.is_file();
    let beside = own.iter().flat_map(|own| own.ancestors().skip(1).take(2)).map(|folder| folder.join(PROGRAM));
    let found = own.clone().into_iter().chain(beside).find(named);
    found.map_or_else(|| PROGRAM.into(), |path| path.to_string_lossy().into_owned())
}
