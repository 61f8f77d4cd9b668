//! A note of what this process has to put back, kept in a file for the case that the process is killed before it does.
//!
//! The file is locked while the process lives (flock(2)). Whoever can lock a note that is there finds what a killed process left.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Where notes are: only root writes them, and none outlives the host's uptime, as the settings of its devices do not.
pub const FOLDER: &str = "/run/linerate";
/// Longest note that is read, in bytes.
const BYTES_MAX: u64 = 1024;

/// A file that is locked by this process.
#[derive(Debug)]
pub struct Note {
    file: File,
    path: PathBuf,
}

impl Note {
    /// Locks the note `name` in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// `WouldBlock` if another process has the note, or whatever keeps the file from being made.
    pub fn make(folder: &Path, name: &str) -> io::Result<Note> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        Note::lock(folder, name, true)
    }

    /// Locks the note `name` in `folder`, which must be there.
    ///
    /// # Errors
    /// `NotFound` if there is none, `WouldBlock` if another process has it.
    pub fn find(folder: &Path, name: &str) -> io::Result<Note> {
        Note::lock(folder, name, false)
    }

    /// The names of the notes in `folder` that begin with `prefix`; none if the folder cannot be read.
    pub fn names(folder: &Path, prefix: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    fn lock(folder: &Path, name: &str, make: bool) -> io::Result<Note> {
        let path = folder.join(name);
        let file = OpenOptions::new().read(true).write(true).create(make).truncate(false).mode(0o600).open(&path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::from(io::ErrorKind::WouldBlock),
            TryLockError::Error(error) => error,
        })?;
        let note = Note { file, path };
        // A process that held the note may have removed it between the two calls.
        if note.is_there() { Ok(note) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn is_there(&self) -> bool {
        let known = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let here = self.file.metadata().map(known);
        here.is_ok_and(|here| std::fs::metadata(&self.path).map(known).is_ok_and(|there| there == here))
    }

    /// What is noted, its first 1,024 bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&self.file).take(BYTES_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Replaces what is noted.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.set_len(0)?;
        io::Seek::rewind(&mut &self.file)?;
        (&self.file).write_all(bytes)
    }

    /// Removes the file. Nothing is left to be put back.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Drop for Note {
    /// Closing the file would not unlock it as long as a process that was forked meanwhile, and has not begun its own program, has it, too.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_was_let_go_can_be_had_although_a_copy_of_its_file_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let note = Note::make(folder.path(), "one").unwrap();
        assert_eq!(Note::find(folder.path(), "one").unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // As a forked process has one.
        let copy = note.file.try_clone().unwrap();
        drop(note);
        assert!(Note::find(folder.path(), "one").is_ok());
        drop(copy);
    }
}
