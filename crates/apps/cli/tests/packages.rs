//! The script that makes packages, with the program that these tests have: what is in the Debian package works.

use std::path::Path;
use std::process::Command;

#[test]
fn a_debian_package_is_made_and_what_is_in_it_works() {
    let root: &Path = &[env!("CARGO_MANIFEST_DIR"), "..", "..", ".."].iter().collect::<std::path::PathBuf>();
    let folder = tempfile::tempdir().expect("a folder");
    let made = Command::new(root.join("packaging/packages.sh"))
        .arg("deb")
        .env("PROFILE", "debug")
        .env("PROGRAM", env!("CARGO_BIN_EXE_linerate"))
        .env("OUT", folder.path())
        .output()
        .expect("the script");
    let said = String::from_utf8_lossy(&made.stdout).into_owned();
    if let Some(why) = said.strip_prefix("skipped: ") {
        return eprintln!("skipped: {why}");
    }
    assert!(made.status.success() && said.starts_with("deb: "), "{made:?}");
    let package = std::fs::metadata(said.trim_start_matches("deb: ").trim()).expect("a package");
    assert!(package.len() > 1_000_000, "{} bytes", package.len());
}
