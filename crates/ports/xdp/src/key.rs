//! A card's RSS key by which both directions of a flow get the same queue, for a time.
//!
//! A card keeps its key when the process that changed it is killed. So the key that it had is noted in a file before the change, which is locked
//! while the process lives: whoever opens the interface next and can lock the file finds a card that was left with the other key, and gives it
//! its own back.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use linerate_sys::netdev::Netdev;
use linerate_sys::note::{FOLDER, Note};
use linerate_sys::rss::Rss;

/// A card with another key than it had. Dropping it gives the card its key back.
pub(crate) struct SymmetricKey<C: Card = Netdev> {
    card: C,
    before: Vec<u8>,
    /// `None` where there is no folder to note it in.
    note: Option<Note>,
}

/// What has an RSS key.
pub(crate) trait Card {
    /// Its name in the namespace of the thread.
    fn name(&self) -> &str;
    /// As [`Netdev::rss`].
    fn rss(&self) -> io::Result<Option<Rss>>;
    /// As [`Netdev::set_rss_key`].
    fn set_key(&self, key: &[u8]) -> io::Result<()>;
}

impl Card for Netdev {
    fn name(&self) -> &str {
        Netdev::name(self)
    }

    fn rss(&self) -> io::Result<Option<Rss>> {
        Netdev::rss(self)
    }

    fn set_key(&self, key: &[u8]) -> io::Result<()> {
        self.set_rss_key(key)
    }
}

impl SymmetricKey {
    /// Changes the key, unless the card spreads flows that way already.
    ///
    /// # Errors
    /// `Unsupported` where the driver has no RSS or takes no key, `EPERM` without CAP_NET_ADMIN.
    pub(crate) fn hold(card: Netdev) -> io::Result<Option<SymmetricKey>> {
        SymmetricKey::hold_in(Path::new(FOLDER), card)
    }

    /// Gives a card its key back that a killed process left with another one.
    ///
    /// # Errors
    /// As [`SymmetricKey::hold`].
    pub(crate) fn restore(card: &Netdev) -> io::Result<()> {
        restore_in(Path::new(FOLDER), card)
    }
}

impl<C: Card> SymmetricKey<C> {
    fn hold_in(folder: &Path, card: C) -> io::Result<Option<SymmetricKey<C>>> {
        restore_in(folder, &card)?;
        let now = card.rss()?;
        if now.as_ref().is_some_and(Rss::is_symmetric) {
            return Ok(None);
        }
        let before = now.map(|rss| rss.key).unwrap_or_default();
        // Without a note the card is changed all the same; it keeps the key if the process is killed.
        let note = note_name(card.name()).and_then(|name| Note::make(folder, &name)).ok();
        let note = note.filter(|note| note.write(&before).is_ok());
        let key = Rss::symmetric_key(before.len());
        if let Err(error) = card.set_key(&key) {
            note.iter().for_each(Note::remove);
            return Err(error);
        }
        Ok(Some(SymmetricKey { card, before, note }))
    }
}

impl<C: Card> Drop for SymmetricKey<C> {
    fn drop(&mut self) {
        // A card that is gone needs none.
        let _ = self.card.set_key(&self.before);
        self.note.iter().for_each(Note::remove);
    }
}

/// Gives the card the key that is noted, unless somebody chose another one meanwhile, and forgets it. Where a process
/// holds the note, the card is that process's.
fn restore_in(folder: &Path, card: &impl Card) -> io::Result<()> {
    let Ok(note) = note_name(card.name()).and_then(|name| Note::find(folder, &name)) else { return Ok(()) };
    let before = note.read().unwrap_or_default();
    let now = card.rss()?.unwrap_or_default();
    if !before.is_empty() && now.key.len() == before.len() && now.key == Rss::symmetric_key(before.len()) {
        card.set_key(&before)?;
    }
    note.remove();
    Ok(())
}

/// The name of the note about an interface. Interfaces of other namespaces have the same names.
fn note_name(interface: &str) -> io::Result<String> {
    Ok(format!("rss-key-{}-{interface}", std::fs::metadata("/proc/thread-self/ns/net")?.ino()))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    /// A card whose key several can see.
    #[derive(Clone)]
    struct Made(Rc<RefCell<Vec<u8>>>);

    impl Card for Made {
        fn name(&self) -> &str {
            "eth7"
        }

        fn rss(&self) -> io::Result<Option<Rss>> {
            Ok(Some(Rss { functions: 1, key: self.0.borrow().clone(), table: vec![0, 1], ..Rss::default() }))
        }

        fn set_key(&self, key: &[u8]) -> io::Result<()> {
            *self.0.borrow_mut() = key.to_vec();
            Ok(())
        }
    }

    /// A key that is no repetition.
    const OWN: [u8; 40] = {
        let mut key = [0; 40];
        let mut at = 0;
        while at < 40 {
            key[at] = at as u8;
            at += 1;
        }
        key
    };

    fn card() -> Made {
        Made(Rc::new(RefCell::new(OWN.to_vec())))
    }

    fn key(card: &Made) -> Vec<u8> {
        card.0.borrow().clone()
    }

    fn notes(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    /// As after kill -9: the lock is gone with the process, and nothing else.
    fn kill(held: SymmetricKey<Made>) {
        let mut held = std::mem::ManuallyDrop::new(held);
        drop(held.note.take());
    }

    #[test]
    fn the_key_comes_back_with_the_end() {
        let (folder, card) = (tempfile::tempdir().unwrap(), card());
        let held = SymmetricKey::hold_in(folder.path(), card.clone()).unwrap().unwrap();
        assert_eq!((key(&card), notes(folder.path())), (Rss::symmetric_key(40), 1));
        // Another process finds it held, and leaves it alone.
        restore_in(folder.path(), &card).unwrap();
        assert!(SymmetricKey::hold_in(folder.path(), card.clone()).unwrap().is_none());
        assert_eq!((key(&card), notes(folder.path())), (Rss::symmetric_key(40), 1));
        drop(held);
        assert_eq!((key(&card), notes(folder.path())), (OWN.to_vec(), 0));
    }

    #[test]
    fn the_next_start_restores_the_key_of_a_killed_process() {
        let (folder, card) = (tempfile::tempdir().unwrap(), card());
        kill(SymmetricKey::hold_in(folder.path(), card.clone()).unwrap().unwrap());
        assert_eq!(key(&card), Rss::symmetric_key(40));
        restore_in(folder.path(), &card).unwrap();
        assert_eq!((key(&card), notes(folder.path())), (OWN.to_vec(), 0));
        // One that wants the symmetric key again knows which one was the card's own.
        kill(SymmetricKey::hold_in(folder.path(), card.clone()).unwrap().unwrap());
        let held = SymmetricKey::hold_in(folder.path(), card.clone()).unwrap().unwrap();
        assert_eq!(key(&card), Rss::symmetric_key(40));
        drop(held);
        assert_eq!((key(&card), notes(folder.path())), (OWN.to_vec(), 0));
    }

    #[test]
    fn a_key_that_somebody_chose_meanwhile_stays() {
        let (folder, card) = (tempfile::tempdir().unwrap(), card());
        kill(SymmetricKey::hold_in(folder.path(), card.clone()).unwrap().unwrap());
        card.set_key(&[9; 40]).unwrap();
        restore_in(folder.path(), &card).unwrap();
        assert_eq!((key(&card), notes(folder.path())), (vec![9; 40], 0));
    }

    #[test]
    fn without_a_folder_the_key_changes_all_the_same() {
        let card = card();
        let held = SymmetricKey::hold_in(Path::new("/proc/no-folder"), card.clone()).unwrap().unwrap();
        assert_eq!(key(&card), Rss::symmetric_key(40));
        drop(held);
        assert_eq!(key(&card), OWN);
    }
}
