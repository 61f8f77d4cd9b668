//! Takes away what killed runs left: named namespaces, temporary folders of devices, results folders that were never finished.

use std::path::{Path, PathBuf};

use linerate_sys::owner::Owner;
use linerate_testbed::cleanup;

/// What was found: each thing, with the error that kept it if one did.
pub type Removed = Vec<(String, Option<std::io::Error>)>;

/// Removes everything whose process is gone.
pub fn all(results: &Path) -> Removed {
    let mut removed = cleanup::remove_left_behind();
    for path in abandoned(results, ".unfinished-") {
        let error = std::fs::remove_dir_all(&path).err();
        removed.push((path.display().to_string(), error));
    }
    removed
}

/// Folders in `dir` named `PREFIX OWNER - ...` whose process is gone.
fn abandoned(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_abandoned = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let owner = name.strip_prefix(prefix).and_then(|rest| rest.split('-').next()?.parse::<Owner>().ok());
        // symlink_metadata: a link is not followed.
        owner.is_some_and(|owner| owner.is_gone()) && path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
    };
    entries.map(|entry| entry.path()).filter(is_abandoned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_dead_processes_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let here = Owner::this().to_string();
        let namespace = here.split_once('.').map_or(String::new(), |(_, namespace)| format!(".{namespace}"));
        let gone = format!(".unfinished-4194999{namespace}-0");
        // No system has so many processes.
        for name in [
            gone.clone(),
            ".unfinished-4194999.12-0".into(),
            format!(".unfinished-{here}-0"),
            ".unfinished-x".into(),
            "other".into(),
        ] {
            std::fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        std::fs::write(dir.path().join(format!(".unfinished-4194998{namespace}-0")), "a file").expect("a file");
        assert_eq!(abandoned(dir.path(), ".unfinished-"), [dir.path().join(gone)]);
        assert!(abandoned(&dir.path().join("nowhere"), "").is_empty());
    }
}
