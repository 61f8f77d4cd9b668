//! A folder for the sockets of a device's processes. It goes with the device; one of a killed run is found by its name.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_sys::owner::Owner;

use super::DutError;

const PREFIX: &str = "linerate-";
const ROLE: &str = "-dut-";

pub(super) struct Folder(PathBuf);

impl Folder {
    /// `linerate-OWNER-dut-N` (linerate_sys::owner) where temporary files go, for its owner only.
    pub(super) fn make() -> Result<Self, DutError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let name = format!("{PREFIX}{}{ROLE}{}", Owner::this(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            // A socket's name has at most 107 bytes (unix(7)).
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // A killed run left it whose process had the number that is this one's now: the next one, then.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(DutError::system(format!("make the folder {}", path.display()))(error)),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub(super) fn text(&self, file: &str) -> String {
        self.0.join(file).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders whose process is gone; each name with the error that kept it, if one did.
pub(super) fn remove_folders_left_behind() -> Vec<(String, Option<std::io::Error>)> {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    let removed = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        owner(&name)?.is_gone().then(|| (name, fs::remove_dir_all(entry.path()).err()))
    };
    entries.filter_map(removed).collect()
}

fn owner(name: &str) -> Option<Owner> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once(ROLE)?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value_and_names_tell_their_process() {
        let folder = Folder::make().expect("a folder");
        let path = folder.path().to_owned();
        let name = path.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
        assert_eq!(owner(&name), Some(Owner::this()));
        fs::write(folder.text("file"), "x").expect("it can be written to");
        assert!(remove_folders_left_behind().iter().all(|(removed, _)| *removed != name), "its process lives");
        drop(folder);
        assert!(!path.exists());
        assert_eq!([owner("linerate-1-dut-x"), owner("linerate-x-dut-1"), owner("other-1-dut-1")], [None; 3]);
    }

    #[test]
    fn a_folder_of_an_earlier_process_of_this_number_is_nobodys_and_in_nobodys_way() {
        let first = Folder::make().expect("a folder");
        let name = first.path().file_name().and_then(|name| name.to_str()).expect("text");
        let (_, number) = name.split_once(ROLE).expect("a number");
        let number: u64 = number.parse().expect("a number");
        // Tests beside this one take numbers, too, so it leaves several.
        let left: Vec<PathBuf> = (number + 1..number + 20)
            .map(|number| std::env::temp_dir().join(format!("{PREFIX}{}{ROLE}{number}", Owner::this())))
            .filter(|path| fs::create_dir(path).is_ok())
            .collect();
        let second = Folder::make().expect("another folder");
        assert!(!left.contains(&second.0) && left.iter().all(|path| path.exists()));
        left.iter().for_each(|path| fs::remove_dir(path).expect("it was left"));
    }

    #[test]
    fn a_folder_of_a_process_that_is_gone_is_removed() {
        // No system has a process of such a number (PID_MAX_LIMIT, include/linux/threads.h).
        let here = Owner::this().to_string();
        let here = here.split_once('.').map_or(String::new(), |(_, namespace)| format!(".{namespace}"));
        let number = (4 << 20) + std::process::id();
        let of = |namespace: &str| std::env::temp_dir().join(format!("{PREFIX}{number}{namespace}{ROLE}0"));
        // Of a process of another PID namespace nobody here knows anything.
        let (gone, elsewhere) = (of(&here), of(".12"));
        [&gone, &elsewhere].into_iter().for_each(|path| fs::create_dir(path).expect("a folder"));
        remove_folders_left_behind();
        assert!(!gone.exists() && elsewhere.exists());
        fs::remove_dir(elsewhere).expect("it was left");
    }
}
