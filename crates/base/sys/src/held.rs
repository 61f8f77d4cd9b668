//! A setting of an interface that is changed for a time.
//!
//! An interface keeps its settings when the process that changed one is killed. So what it was is noted in a file before the change, which is
//! locked while the process lives: whoever opens the interface next and can lock the file finds an interface that was left with the other
//! setting, and gives it its own back.

use std::io;
use std::path::Path;

use crate::netns::NetNs;
use crate::note::{FOLDER, Note};

/// A setting of one interface.
pub trait Setting {
    /// What it is, as a word in the name of a file.
    const NAME: &'static str;

    /// The interface's name in the namespace of the thread.
    fn interface(&self) -> &str;

    /// What it is now, at most 500 bytes.
    ///
    /// # Errors
    /// What the kernel says.
    fn read(&self) -> io::Result<Vec<u8>>;

    /// Changes it.
    ///
    /// # Errors
    /// What the kernel says.
    fn write(&self, value: &[u8]) -> io::Result<()>;
}

/// A setting that is another than it was. Dropping it puts back what was, unless somebody chose something else meanwhile.
#[derive(Debug)]
pub struct Held<S: Setting> {
    setting: S,
    before: Vec<u8>,
    wanted: Vec<u8>,
    /// `None` where there is no folder to note it in.
    note: Option<Note>,
}

impl<S: Setting> Held<S> {
    /// Changes it, unless it is `wanted` already.
    ///
    /// # Errors
    /// `ResourceBusy` if another process has changed it for a time; what the kernel says.
    pub fn hold(setting: S, wanted: &[u8]) -> io::Result<Option<Held<S>>> {
        Held::hold_in(Path::new(FOLDER), setting, wanted)
    }

    fn hold_in(folder: &Path, setting: S, wanted: &[u8]) -> io::Result<Option<Held<S>>> {
        restore_in(folder, &setting)?;
        let before = setting.read()?;
        if before == wanted {
            return Ok(None);
        }
        let note = match note_name(&setting).and_then(|name| Note::make(folder, &name)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let what = format!("another process has changed the {} of {}", S::NAME, setting.interface());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            // Without a note it is changed all the same, and stays so if the process is killed.
            note => note.ok().filter(|note| note.write(&noted(&before, wanted)).is_ok()),
        };
        if let Err(error) = setting.write(wanted) {
            note.iter().for_each(Note::remove);
            return Err(error);
        }
        Ok(Some(Held { setting, before, wanted: wanted.into(), note }))
    }

    /// Changes it once more; false if somebody chose something else meanwhile, which stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn change(&mut self, wanted: &[u8]) -> io::Result<bool> {
        if self.setting.read()? != self.wanted {
            return Ok(false);
        }
        // The note names one value beside its own. Its own is set while the note changes, so that whenever the process is killed, the
        // setting is one that the note knows.
        self.setting.write(&self.before)?;
        self.wanted = wanted.into();
        if let Some(note) = &self.note {
            note.write(&noted(&self.before, wanted))?;
        }
        self.setting.write(wanted)?;
        Ok(true)
    }
}

impl<S: Setting> Drop for Held<S> {
    fn drop(&mut self) {
        // An interface that is gone needs nothing.
        if self.setting.read().is_ok_and(|now| now == self.wanted) {
            let _ = self.setting.write(&self.before);
        }
        self.note.iter().for_each(Note::remove);
    }
}

/// Puts back what a killed process left changed, unless somebody chose something else meanwhile. Where a process holds it, it is
/// that process's.
///
/// # Errors
/// What the kernel says.
pub fn restore(setting: &impl Setting) -> io::Result<()> {
    restore_in(Path::new(FOLDER), setting)
}

fn restore_in<S: Setting>(folder: &Path, setting: &S) -> io::Result<()> {
    let Ok(note) = note_name(setting).and_then(|name| Note::find(folder, &name)) else { return Ok(()) };
    let bytes = note.read().unwrap_or_default();
    if let Some((before, wanted)) = parts(&bytes)
        && setting.read()? == wanted
    {
        setting.write(before)?;
    }
    note.remove();
    Ok(())
}

/// Interfaces of other namespaces have the same names.
fn note_name<S: Setting>(setting: &S) -> io::Result<String> {
    Ok(format!("{}-{}-{}", S::NAME, NetNs::current()?.inode()?, setting.interface()))
}

/// What was and what is set, behind the length of the first.
fn noted(before: &[u8], wanted: &[u8]) -> Vec<u8> {
    [&(before.len() as u16).to_le_bytes()[..], before, wanted].concat()
}

fn parts(note: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = note.split_first_chunk()?;
    rest.split_at_checked(u16::from_le_bytes(*len).into())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// A setting that several can see.
    #[derive(Clone, Debug)]
    struct Made(Rc<RefCell<Vec<u8>>>);

    impl Setting for Made {
        const NAME: &'static str = "word";

        fn interface(&self) -> &str {
            "eth7"
        }

        fn read(&self) -> io::Result<Vec<u8>> {
            Ok(self.0.borrow().clone())
        }

        fn write(&self, value: &[u8]) -> io::Result<()> {
            *self.0.borrow_mut() = value.to_vec();
            Ok(())
        }
    }

    const OWN: &[u8] = b"its own";
    const WANTED: &[u8] = b"wanted";

    fn made() -> Made {
        Made(Rc::new(RefCell::new(OWN.to_vec())))
    }

    fn hold(folder: &Path, made: &Made) -> Option<Held<Made>> {
        Held::hold_in(folder, made.clone(), WANTED).unwrap()
    }

    fn notes(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    /// As after kill -9: the lock is gone with the process, and nothing else.
    fn kill(held: Option<Held<Made>>) {
        let mut held = std::mem::ManuallyDrop::new(held.unwrap());
        drop(held.note.take());
    }

    #[test]
    fn it_comes_back_with_the_end() {
        let (folder, made) = (tempfile::tempdir().unwrap(), made());
        let held = hold(folder.path(), &made).unwrap();
        assert_eq!((made.read().unwrap(), notes(folder.path())), (WANTED.to_vec(), 1));
        // Another process finds it held, and leaves it alone.
        restore_in(folder.path(), &made).unwrap();
        assert!(hold(folder.path(), &made).is_none());
        let busy = Held::hold_in(folder.path(), made.clone(), b"other").unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!((made.read().unwrap(), notes(folder.path())), (WANTED.to_vec(), 1));
        drop(held);
        assert_eq!((made.read().unwrap(), notes(folder.path())), (OWN.to_vec(), 0));
    }

    #[test]
    fn the_next_start_restores_what_a_killed_process_changed() {
        let (folder, made) = (tempfile::tempdir().unwrap(), made());
        kill(hold(folder.path(), &made));
        assert_eq!(made.read().unwrap(), WANTED);
        restore_in(folder.path(), &made).unwrap();
        assert_eq!((made.read().unwrap(), notes(folder.path())), (OWN.to_vec(), 0));
        // One that wants the same again knows which one was the interface's own.
        kill(hold(folder.path(), &made));
        let held = hold(folder.path(), &made);
        assert_eq!(made.read().unwrap(), WANTED);
        drop(held);
        assert_eq!((made.read().unwrap(), notes(folder.path())), (OWN.to_vec(), 0));
    }

    #[test]
    fn what_somebody_chose_meanwhile_stays_and_a_broken_note_changes_nothing() {
        let (folder, made) = (tempfile::tempdir().unwrap(), made());
        kill(hold(folder.path(), &made));
        made.write(b"chosen").unwrap();
        restore_in(folder.path(), &made).unwrap();
        assert_eq!((made.read().unwrap(), notes(folder.path())), (b"chosen".to_vec(), 0));
        made.write(OWN).unwrap();
        let held = hold(folder.path(), &made);
        made.write(b"chosen").unwrap();
        drop(held);
        assert_eq!((made.read().unwrap(), notes(folder.path())), (b"chosen".to_vec(), 0));
        for broken in [&[][..], &[7], &[200, 0, 1], &[0, 0]] {
            std::fs::write(folder.path().join(note_name(&made).unwrap()), broken).unwrap();
            restore_in(folder.path(), &made).unwrap();
            assert_eq!((made.read().unwrap(), notes(folder.path())), (b"chosen".to_vec(), 0));
        }
    }

    #[test]
    fn it_changes_again_and_again_and_comes_back_even_so() {
        let (folder, made) = (tempfile::tempdir().unwrap(), made());
        let mut held = hold(folder.path(), &made).unwrap();
        assert!(held.change(b"more").unwrap() && held.change(b"less").unwrap());
        assert_eq!(made.read().unwrap(), b"less");
        drop(held);
        assert_eq!((made.read().unwrap(), notes(folder.path())), (OWN.to_vec(), 0));
        // Also after kill -9.
        let mut held = hold(folder.path(), &made).unwrap();
        assert!(held.change(b"more").unwrap());
        kill(Some(held));
        restore_in(folder.path(), &made).unwrap();
        assert_eq!((made.read().unwrap(), notes(folder.path())), (OWN.to_vec(), 0));
        // What somebody chose meanwhile stays.
        let mut held = hold(folder.path(), &made).unwrap();
        made.write(b"chosen").unwrap();
        assert!(!held.change(b"more").unwrap());
        drop(held);
        assert_eq!(made.read().unwrap(), b"chosen");
    }

    #[test]
    fn without_a_folder_it_changes_all_the_same() {
        let made = made();
        let held = hold(Path::new("/proc/no-folder"), &made);
        assert_eq!(made.read().unwrap(), WANTED);
        drop(held);
        assert_eq!(made.read().unwrap(), OWN);
    }
}
