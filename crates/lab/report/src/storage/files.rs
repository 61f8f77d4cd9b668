//! Files that are whole or absent, whenever a process is killed or a disk is full.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use linerate_sys::owner::Owner;

const NAME_CHARACTERS_MAX: usize = 64;
const FILE_CHARACTERS_MAX: usize = 200;
/// So many runs of one name in one second have a folder each.
const SAME_NAME_MAX: u32 = 1_000;

/// A folder under construction. It is removed unless it was put in its place.
pub(super) struct Unfinished(pub(super) PathBuf);

impl Unfinished {
    pub(super) fn create(dir: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(dir).map_err(|error| at(dir, error))?;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!(".unfinished-{}-{number}", Owner::this()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(at(&path, error)),
            }
        }
    }

    /// Gives it the name `name` in `dir`, or `name-2` and so on where that is taken.
    pub(super) fn put(self, dir: &Path, name: &str) -> io::Result<PathBuf> {
        for number in 1..=SAME_NAME_MAX {
            let folder = if number == 1 { dir.join(name) } else { dir.join(format!("{name}-{number}")) };
            match fs::rename(&self.0, &folder) {
                Ok(()) => {
                    sync_folder(dir)?;
                    return Ok(folder);
                }
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(at(&folder, error)),
            }
        }
        Err(at(&dir.join(name), ErrorKind::AlreadyExists.into()))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing under this name, and the error says so.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder of that name exists (the system calls a folder with files in it "not empty"), or a file does.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory)
}

/// Writes a file that does not exist yet, to the disk.
pub(super) fn write_synced(path: &Path, text: &str) -> io::Result<()> {
    let write = || -> io::Result<()> {
        let mut file = File::create_new(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|error| at(path, error))
}

/// Replaces a file: a reader finds the old text or the new one, whole. If it fails, the old one stays.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(at(path, ErrorKind::InvalidInput.into()));
    };
    let temporary = folder.join(format!(".{}.unfinished", name.to_string_lossy()));
    let _ = fs::remove_file(&temporary); // left by a process that was killed; if not, there is none
    let written = write_synced(&temporary, text).and_then(|()| fs::rename(&temporary, path).map_err(|e| at(path, e)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // gives the space back; the first error is the one to tell
    }
    written.and_then(|()| sync_folder(folder))
}

/// Names in a folder are on the disk only after this.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| at(folder, error))
}

/// The error with the path in its message.
pub(super) fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The name of a run with everything but letters, digits, dots, dashes and underscores replaced.
pub(super) fn folder_name(name: &str) -> String {
    let name: String = file_name(name).chars().take(NAME_CHARACTERS_MAX).collect();
    if name.is_empty() { "run".to_owned() } else { name }
}

/// The words of a name, joined by dashes: letters, digits, dots and underscores stay. At most 200 bytes, as file systems take names of
/// 255.
pub(super) fn file_name(name: &str) -> String {
    let keep = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    name.chars().take(FILE_CHARACTERS_MAX).map(|letter| if keep(letter) { letter } else { '-' }).collect()
}
