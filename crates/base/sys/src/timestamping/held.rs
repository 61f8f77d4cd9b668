//! A NIC's timestamps turned on for as long as somebody holds them, and what it did before noted where the next start finds it.
//!
//! The setting is the NIC's, not a process's: nobody takes it back when a process is killed. So each holder has a note in a folder,
//! locked (flock(2)) as long as it lives. The last one to go puts back what was before the first; a note that nobody has locked is
//! of a process that was killed, and [`restore_left_behind`] does it instead.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{Config, FILTER_ALL};
use crate::netdev::Netdev;
use crate::netns::NetNs;

/// Where the notes are: gone with the next boot, as the setting is. (Its parent is root's folder of a switch's sockets, too: mode 0700.)
const FOLDER: &str = "/run/linerate/timestamps";

/// What has timestamps.
pub(super) trait Device {
    /// Its interface.
    fn interface(&self) -> &str;
    /// What it timestamps.
    fn config(&self) -> io::Result<Config>;
    /// Sets that; the driver may choose to timestamp more, and says so.
    fn set_config(&self, config: &mut Config) -> io::Result<()>;
}

/// A NIC that timestamps all packets that it receives, until this and all others like it are dropped; then it does what it did before.
/// Of a process that was killed, [`restore_left_behind`] puts it back.
#[derive(Debug)]
pub struct TimestampsHeld {
    _held: Held<Netdev>,
}

impl TimestampsHeld {
    /// Turns timestamps on.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` or `ERANGE` from a driver that cannot; where it cannot be noted in
    /// /run/linerate/timestamps, nothing is turned on.
    pub fn hold(device: Netdev) -> io::Result<TimestampsHeld> {
        Held::hold(Path::new(FOLDER), device).map(|held| TimestampsHeld { _held: held })
    }
}

/// Puts back the timestamps that killed processes left on; returns the interfaces. Those of other network namespaces keep their notes.
pub fn restore_left_behind() -> Vec<String> {
    restore(Path::new(FOLDER), Netdev::open)
}

#[derive(Debug)]
struct Held<D: Device> {
    device: D,
    notes: Notes,
    note: Note,
    /// Locked while this lives.
    file: File,
}

impl<D: Device> Held<D> {
    fn hold(folder: &Path, device: D) -> io::Result<Held<D>> {
        let now = device.config()?;
        let notes = Notes::at(folder)?;
        let locked = notes.lock()?;
        // If it is on now, because of another of us perhaps, who knows what was before.
        let others = if now.received == FILTER_ALL { notes.of(device.interface()) } else { Vec::new() };
        let before = others.first().map_or(now, |other| other.before);
        let (note, file) = notes.add(device.interface(), before)?;
        let held = Held { device, notes, note, file };
        let result = if now.received == FILTER_ALL { Ok(()) } else { held.turn_on(now) };
        // Before a drop of `held`, which wants it.
        drop(locked);
        result.map(|()| held)
    }

    fn turn_on(&self, now: Config) -> io::Result<()> {
        let mut wanted = Config { received: FILTER_ALL, ..now };
        self.device.set_config(&mut wanted)?;
        if wanted.received == FILTER_ALL {
            return Ok(());
        }
        self.device.set_config(&mut { now })?;
        Err(io::Error::new(io::ErrorKind::Unsupported, "the driver timestamps some packets only"))
    }
}

impl<D: Device> Drop for Held<D> {
    fn drop(&mut self) {
        // Without the lock two that go at once could each leave it to the other.
        let Ok(_locked) = self.notes.lock() else { return };
        let _ = self.file.unlock();
        let _ = fs::remove_file(&self.note.path);
        let others = self.notes.of(self.device.interface());
        if others.iter().any(|other| other.is_held) {
            return;
        }
        free_back(&self.device, self.note.before);
        others.iter().for_each(|other| drop(fs::remove_file(&other.path)));
    }
}

/// Unless somebody has since asked for something else. The interface may be gone.
fn free_back(device: &impl Device, mut before: Config) {
    if device.config().is_ok_and(|now| now.received != before.received && now.received == FILTER_ALL) {
        let _ = device.set_config(&mut before);
    }
}

fn restore<D: Device>(folder: &Path, open: impl Fn(&str) -> io::Result<D>) -> Vec<String> {
    if !folder.exists() {
        return Vec::new();
    }
    let Ok(notes) = Notes::at(folder) else { return Vec::new() };
    let Ok(_locked) = notes.lock() else { return Vec::new() };
    let all = notes.all();
    let mut restored = Vec::new();
    for note in all.iter().filter(|note| !note.is_held) {
        let is_held = all.iter().any(|other| other.is_held && other.interface == note.interface);
        // Who holds it took over what was before.
        if !is_held && let Ok(device) = open(&note.interface) {
            free_back(&device, note.before);
            restored.push(note.interface.clone());
        }
        let _ = fs::remove_file(&note.path);
    }
    restored.dedup();
    restored
}

/// The notes of one network namespace in a folder.
#[derive(Debug)]
struct Notes {
    folder: PathBuf,
    namespace: u64,
}

/// What an interface did before it was told to timestamp everything.
#[derive(Debug)]
struct Note {
    path: PathBuf,
    interface: String,
    before: Config,
    is_held: bool,
}

impl Notes {
    fn at(folder: &Path) -> io::Result<Notes> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named)?;
        let namespace = NetNs::current()?.inode()?;
        Ok(Notes { folder: folder.to_path_buf(), namespace })
    }

    /// Nobody else reads or writes notes as long as this is held.
    fn lock(&self) -> io::Result<File> {
        let file = File::create(self.folder.join("lock"))?;
        file.lock()?;
        Ok(file)
    }

    fn add(&self, interface: &str, before: Config) -> io::Result<(Note, File)> {
        let free = |number: &u32| !self.path(*number).exists();
        let path = self.path((0..).find(free).unwrap_or(0));
        let mut file = File::create(&path)?;
        file.lock()?;
        file.write_all(format!("{interface} {} {} {}\n", before.flags, before.sent, before.received).as_bytes())?;
        Ok((Note { path, interface: interface.to_string(), before, is_held: true }, file))
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{}-{}-{number}", self.namespace, std::process::id()))
    }

    /// In no order; what is no note is passed over.
    fn all(&self) -> Vec<Note> {
        let prefix = format!("{}-", self.namespace);
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)));
        ours.filter_map(|entry| read(entry.path())).collect()
    }

    fn of(&self, interface: &str) -> Vec<Note> {
        self.all().into_iter().filter(|note| note.interface == interface).collect()
    }
}

fn read(path: PathBuf) -> Option<Note> {
    let file = File::open(&path).ok()?;
    let text = io::read_to_string(io::Read::take(&file, 4096)).ok()?;
    let mut words = text.split_whitespace();
    let interface = words.next()?.to_string();
    let mut number = || words.next()?.parse::<i32>().ok();
    let before = Config { flags: number()?, sent: number()?, received: number()? };
    Some(Note { path, interface, before, is_held: file.try_lock_shared().is_err() })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    const BEFORE: Config = Config { flags: 0, sent: 1, received: 12 };

    /// A NIC that a test can look at.
    #[derive(Clone, Debug)]
    struct Nic {
        config: Rc<Cell<Config>>,
        can: bool,
    }

    impl Nic {
        fn new() -> Nic {
            Nic { config: Rc::new(Cell::new(BEFORE)), can: true }
        }
    }

    impl Device for Nic {
        fn interface(&self) -> &str {
            "nic0"
        }
        fn config(&self) -> io::Result<Config> {
            Ok(self.config.get())
        }
        fn set_config(&self, config: &mut Config) -> io::Result<()> {
            if !self.can && config.received == FILTER_ALL {
                config.received = 1000;
            }
            self.config.set(*config);
            Ok(())
        }
    }

    /// As a process that is killed: its lock is gone, its note stays.
    fn kill<D: Device>(held: Held<D>) {
        let held = std::mem::ManuallyDrop::new(held);
        held.file.unlock().unwrap();
    }

    fn notes(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.file_name() != "lock").count()
    }

    fn folder() -> PathBuf {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("linerate-timestamps-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn the_last_one_puts_back_what_was_before_the_first() {
        let (folder, nic) = (folder(), Nic::new());
        let first = Held::hold(&folder, nic.clone()).unwrap();
        let all = nic.config.get();
        assert_eq!(all, Config { received: FILTER_ALL, ..BEFORE });
        let second = Held::hold(&folder, nic.clone()).unwrap();
        drop(first);
        assert_eq!(nic.config.get(), all);
        drop(second);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        // On before: left on.
        nic.config.set(all);
        drop(Held::hold(&folder, nic.clone()).unwrap());
        assert_eq!(nic.config.get(), all);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_on_is_put_back() {
        let (folder, nic) = (folder(), Nic::new());
        let open = |_: &str| Ok(nic.clone());
        assert!(restore(&folder, open).is_empty() && !folder.exists());
        kill(Held::hold(&folder, nic.clone()).unwrap());
        assert_eq!((nic.config.get().received, notes(&folder)), (FILTER_ALL, 1));
        assert_eq!(restore(&folder, open), ["nic0"]);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        // Held by another, who knows what was before; and asked for something else since.
        kill(Held::hold(&folder, nic.clone()).unwrap());
        let living = Held::hold(&folder, nic.clone()).unwrap();
        assert!(restore(&folder, open).is_empty() && nic.config.get().received == FILTER_ALL);
        drop(living);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        kill(Held::hold(&folder, nic.clone()).unwrap());
        nic.config.set(Config { received: 7, ..BEFORE });
        restore(&folder, open);
        assert_eq!((nic.config.get().received, notes(&folder)), (7, 0));
        // The same, and the next one holds it before anybody looked: what was asked for stays, not what the note says.
        kill(Held::hold(&folder, nic.clone()).unwrap());
        nic.config.set(Config { received: 7, ..BEFORE });
        drop(Held::hold(&folder, nic.clone()).unwrap());
        assert_eq!((nic.config.get().received, notes(&folder)), (7, 0));
        // Its interface is gone, or the note is none.
        kill(Held::hold(&folder, nic.clone()).unwrap());
        fs::write(Notes::at(&folder).unwrap().path(77), "nic0 1\n").unwrap();
        assert!(restore(&folder, |_| Err::<Nic, _>(io::ErrorKind::NotFound.into())).is_empty());
        assert_eq!(notes(&folder), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_driver_that_cannot_is_left_as_it_was() {
        let (folder, nic) = (folder(), Nic { can: false, ..Nic::new() });
        assert_eq!(Held::hold(&folder, nic.clone()).unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        // Where nothing can be noted, nothing is turned on.
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "a file").unwrap();
        assert!(Held::hold(&folder, nic.clone()).is_err() && nic.config.get() == BEFORE);
        fs::remove_file(folder).unwrap();
    }
}
