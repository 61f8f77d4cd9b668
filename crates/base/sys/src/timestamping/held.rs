//! A NIC's timestamps turned on for as long as somebody holds them, and what it did before noted where the next start finds it.
//!
//! The setting is the NIC's, not a process's: nobody takes it back when a process is killed. So each holder has a note in a folder,
//! locked (flock(2)) as long as it lives. The last one to go puts back what was before the first; a note that nobody has locked is
//! of a process that was killed, and [`restore_left_behind`] does it instead.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::{
    Config, FILTER_ALL, FILTER_NONE, FILTER_PTP_V2_EVENT, FILTER_PTP_V2_L2_EVENT, FILTER_PTP_V2_L2_SYNC,
    FILTER_PTP_V2_L4_EVENT, FILTER_PTP_V2_L4_SYNC, FILTER_PTP_V2_SYNC, SENT_OFF, SENT_ON,
};
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

/// What a holder needs a NIC to timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Every packet that it receives.
    AllReceived,
    /// Packets that it sends, as their sender asks, and those that it receives that are Sync messages of PTP version 2 over Ethernet
    /// (EtherType 0x88F7).
    PtpOverEthernet,
    /// The same of Sync messages over UDP (port 319).
    PtpOverUdp,
}

impl Needs {
    /// Filters that will do, the widest first.
    fn filters(self) -> &'static [i32] {
        match self {
            Needs::AllReceived => &[FILTER_ALL],
            Needs::PtpOverEthernet => {
                &[FILTER_ALL, FILTER_PTP_V2_EVENT, FILTER_PTP_V2_L2_EVENT, FILTER_PTP_V2_SYNC, FILTER_PTP_V2_L2_SYNC]
            }
            Needs::PtpOverUdp => {
                &[FILTER_ALL, FILTER_PTP_V2_EVENT, FILTER_PTP_V2_L4_EVENT, FILTER_PTP_V2_SYNC, FILTER_PTP_V2_L4_SYNC]
            }
        }
    }

    fn sent(self) -> bool {
        self != Needs::AllReceived
    }

    fn are_met_by(self, config: Config) -> bool {
        self.filters().contains(&config.received) && (!self.sent() || config.sent == SENT_ON)
    }

    /// The settings to try, in this order, that take nothing from whoever asked for what is set now.
    fn settings(self, now: Config) -> impl Iterator<Item = Config> {
        let sent = if self.sent() { SENT_ON } else { now.sent };
        let keeps_sent = sent == now.sent || now.sent == SENT_OFF;
        let filters = self.filters().contains(&now.received).then_some(now.received).into_iter();
        let keeps = move |filter: &i32| keeps_sent && is_within(now.received, *filter);
        filters.chain(self.filters().iter().copied()).filter(keeps).map(move |received| Config {
            sent,
            received,
            ..now
        })
    }
}

/// Whether a filter timestamps all that another one does, as far as that is needed here.
fn is_within(filter: i32, wider: i32) -> bool {
    let of_ptp_v2 = FILTER_PTP_V2_L4_EVENT..=FILTER_PTP_V2_EVENT + 2;
    filter == FILTER_NONE
        || filter == wider
        || wider == FILTER_ALL
        || wider == FILTER_PTP_V2_EVENT && of_ptp_v2.contains(&filter)
}

/// A NIC that timestamps what is needed, until this and all others like it are dropped; then it does what it did before.
/// Of a process that was killed, [`restore_left_behind`] puts it back.
#[derive(Debug)]
pub struct TimestampsHeld {
    _held: Held<Netdev>,
}

impl TimestampsHeld {
    /// Turns timestamps on.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` or `ERANGE` from a driver that cannot, `ResourceBusy` where another program has asked
    /// for timestamps that these would end; where it cannot be noted in /run/linerate/timestamps, nothing is turned on.
    pub fn hold(device: Netdev, needs: Needs) -> io::Result<TimestampsHeld> {
        Held::hold(Path::new(FOLDER), device, needs).map(|held| TimestampsHeld { _held: held })
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
    fn hold(folder: &Path, device: D, needs: Needs) -> io::Result<Held<D>> {
        let now = device.config()?;
        let notes = Notes::at(folder)?;
        let locked = notes.lock()?;
        // If it is as one of us set it, who noted what was before.
        let others = notes.of(device.interface());
        // Somebody has since set something else than a process that was killed.
        let outdated = others.iter().filter(|other| !other.is_held && !other.set.is_like(now));
        outdated.for_each(|other| drop(fs::remove_file(&other.path)));
        let before = others.iter().find(|other| other.set.is_like(now)).map_or(now, |other| other.before);
        let (note, file) = notes.add(device.interface(), before, now)?;
        let mut held = Held { device, notes, note, file };
        let result = if needs.are_met_by(now) { Ok(()) } else { held.turn_on(needs, now) };
        // Before a drop of `held`, which wants it.
        drop(locked);
        result.map(|()| held)
    }

    fn turn_on(&mut self, needs: Needs, now: Config) -> io::Result<()> {
        let busy = "another program has asked for other timestamps, which these would end";
        let mut refused = io::Error::new(io::ErrorKind::ResourceBusy, busy);
        for mut config in needs.settings(now) {
            // Noted before it is set: a process that is killed in between leaves a note of what is not set, which puts back nothing.
            self.note_set(config)?;
            match self.device.set_config(&mut config) {
                Ok(()) if needs.are_met_by(config) => return self.note_set(config),
                Ok(()) => {
                    self.device.set_config(&mut { now })?;
                    refused = io::Error::new(io::ErrorKind::Unsupported, "the driver timestamps some packets only");
                }
                // It cannot do what is asked for and what is on now.
                Err(error) if is_range(&error) && needs.sent() && now.received != FILTER_NONE => {}
                Err(error) => refused = error,
            }
        }
        self.note_set(now)?;
        Err(refused)
    }

    /// In this note and those of all other holders.
    fn note_set(&mut self, set: Config) -> io::Result<()> {
        self.note.set = set;
        for note in self.notes.of(self.device.interface()) {
            let text = text_of(&note.interface, note.before, set);
            let mut file = File::options().write(true).open(&note.path)?;
            // It is whole at any time: what is left of a longer text stands behind the end of its line.
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)?;
        }
        Ok(())
    }
}

impl<D: Device> Drop for Held<D> {
    fn drop(&mut self) {
        // Without the lock two that go at once could each leave it to the other.
        let Ok(_locked) = self.notes.lock() else { return };
        // Another holder may have set something else since, and noted it here.
        let set = read(self.note.path.clone()).map_or(self.note.set, |note| note.set);
        let _ = self.file.unlock();
        let _ = fs::remove_file(&self.note.path);
        let others = self.notes.of(self.device.interface());
        if others.iter().any(|other| other.is_held) {
            return;
        }
        free_back(&self.device, self.note.before, set);
        others.iter().for_each(|other| drop(fs::remove_file(&other.path)));
    }
}

fn is_range(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ERANGE | libc::EINVAL | libc::EOPNOTSUPP))
}

/// Unless somebody has since asked for something else. The interface may be gone.
fn free_back(device: &impl Device, mut before: Config, set: Config) {
    if device.config().is_ok_and(|now| !now.is_like(before) && now.is_like(set)) {
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
            free_back(&device, note.before, note.set);
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

/// What an interface did before one of us told it to timestamp.
#[derive(Debug)]
struct Note {
    path: PathBuf,
    interface: String,
    before: Config,
    /// What it was told.
    set: Config,
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

    fn add(&self, interface: &str, before: Config, set: Config) -> io::Result<(Note, File)> {
        let free = |number: &u32| !self.path(*number).exists();
        let path = self.path((0..).find(free).unwrap_or(0));
        let mut file = File::create(&path)?;
        file.lock()?;
        file.write_all(text_of(interface, before, set).as_bytes())?;
        Ok((Note { path, interface: interface.to_string(), before, set, is_held: true }, file))
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

fn text_of(interface: &str, before: Config, set: Config) -> String {
    let numbers = [before.flags, before.sent, before.received, set.flags, set.sent, set.received];
    format!("{interface} {}\n", numbers.map(|number| number.to_string()).join(" "))
}

fn read(path: PathBuf) -> Option<Note> {
    let file = File::open(&path).ok()?;
    let text = io::read_to_string(io::Read::take(&file, 4096)).ok()?;
    let mut words = text.split_whitespace();
    let interface = words.next()?.to_string();
    let mut number = || words.next()?.parse::<i32>().ok();
    let mut config = || Some(Config { flags: number()?, sent: number()?, received: number()? });
    let (before, set) = (config()?, config()?);
    Some(Note { path, interface, before, set, is_held: file.try_lock_shared().is_err() })
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
        let first = Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap();
        let all = nic.config.get();
        assert_eq!(all, Config { received: FILTER_ALL, ..BEFORE });
        let second = Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap();
        drop(first);
        assert_eq!(nic.config.get(), all);
        drop(second);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        // On before: left on.
        nic.config.set(all);
        drop(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        assert_eq!(nic.config.get(), all);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_on_is_put_back() {
        let (folder, nic) = (folder(), Nic::new());
        let open = |_: &str| Ok(nic.clone());
        assert!(restore(&folder, open).is_empty() && !folder.exists());
        kill(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        assert_eq!((nic.config.get().received, notes(&folder)), (FILTER_ALL, 1));
        assert_eq!(restore(&folder, open), ["nic0"]);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        // Held by another, who knows what was before; and asked for something else since.
        kill(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        let living = Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap();
        assert!(restore(&folder, open).is_empty() && nic.config.get().received == FILTER_ALL);
        drop(living);
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        kill(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        nic.config.set(Config { received: 7, ..BEFORE });
        restore(&folder, open);
        assert_eq!((nic.config.get().received, notes(&folder)), (7, 0));
        // The same, and the next one holds it before anybody looked: what was asked for stays, not what the note says.
        kill(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        nic.config.set(Config { received: 7, ..BEFORE });
        drop(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        assert_eq!((nic.config.get().received, notes(&folder)), (7, 0));
        // Its interface is gone, or the note is none.
        kill(Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap());
        fs::write(Notes::at(&folder).unwrap().path(77), "nic0 1\n").unwrap();
        assert!(restore(&folder, |_| Err::<Nic, _>(io::ErrorKind::NotFound.into())).is_empty());
        assert_eq!(notes(&folder), 1);
        fs::remove_dir_all(folder).unwrap();
    }

    /// As an Intel 82576: of received packets it timestamps PTP's events only, and widens narrower filters to them.
    #[derive(Clone, Debug)]
    struct PtpOnly(Nic);

    impl Device for PtpOnly {
        fn interface(&self) -> &str {
            "nic0"
        }
        fn config(&self) -> io::Result<Config> {
            self.0.config()
        }
        fn set_config(&self, config: &mut Config) -> io::Result<()> {
            match config.received {
                FILTER_NONE => {}
                FILTER_PTP_V2_L4_EVENT..=14 => config.received = FILTER_PTP_V2_EVENT,
                _ => return Err(io::Error::from_raw_os_error(libc::ERANGE)),
            }
            self.0.set_config(config)
        }
    }

    #[test]
    fn a_card_that_timestamps_ptp_only_is_set_to_that_and_back() {
        const OFF: Config = Config { flags: 0, sent: SENT_OFF, received: FILTER_NONE };
        const ON: Config = Config { flags: 0, sent: SENT_ON, received: FILTER_PTP_V2_EVENT };
        let (folder, nic) = (folder(), PtpOnly(Nic::new()));
        for needs in [Needs::PtpOverEthernet, Needs::PtpOverUdp] {
            nic.0.config.set(OFF);
            let held = Held::hold(&folder, nic.clone(), needs).unwrap();
            assert_eq!(nic.0.config.get(), ON);
            drop(held);
            assert_eq!((nic.0.config.get(), notes(&folder)), (OFF, 0));
        }
        assert!(Held::hold(&folder, nic.clone(), Needs::AllReceived).is_err());
        assert_eq!((nic.0.config.get(), notes(&folder)), (OFF, 0));
        // On for a PTP daemon: left on. In a way that a Sync message would disturb: left alone.
        nic.0.config.set(ON);
        drop(Held::hold(&folder, nic.clone(), Needs::PtpOverUdp).unwrap());
        assert_eq!(nic.0.config.get(), ON);
        for others in [Config { sent: 2, ..ON }, Config { received: 3, ..OFF }] {
            nic.0.config.set(others);
            let error = Held::hold(&folder, nic.clone(), Needs::PtpOverEthernet).unwrap_err();
            assert_eq!((error.kind(), nic.0.config.get()), (io::ErrorKind::ResourceBusy, others));
        }
        // Killed.
        nic.0.config.set(OFF);
        kill(Held::hold(&folder, nic.clone(), Needs::PtpOverEthernet).unwrap());
        assert_eq!(nic.0.config.get(), ON);
        assert_eq!(restore(&folder, |_| Ok(nic.clone())), ["nic0"]);
        assert_eq!((nic.0.config.get(), notes(&folder)), (OFF, 0));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn holders_with_different_needs_leave_in_any_order() {
        const OFF: Config = Config { flags: 0, sent: SENT_OFF, received: FILTER_NONE };
        for first_leaves_first in [true, false] {
            for both in [[Needs::AllReceived, Needs::PtpOverUdp], [Needs::PtpOverUdp, Needs::AllReceived]] {
                let (folder, nic) = (folder(), Nic::new());
                nic.config.set(OFF);
                let [one, other] = both.map(|needs| Held::hold(&folder, nic.clone(), needs).unwrap());
                let (first, second) = if first_leaves_first { (one, other) } else { (other, one) };
                drop(first);
                assert_eq!(nic.config.get(), Config { sent: SENT_ON, received: FILTER_ALL, ..OFF });
                drop(second);
                assert_eq!((nic.config.get(), notes(&folder)), (OFF, 0));
                fs::remove_dir_all(folder).unwrap();
            }
        }
    }

    #[test]
    fn a_driver_that_cannot_is_left_as_it_was() {
        let (folder, nic) = (folder(), Nic { can: false, ..Nic::new() });
        assert_eq!(
            Held::hold(&folder, nic.clone(), Needs::AllReceived).unwrap_err().kind(),
            io::ErrorKind::Unsupported
        );
        assert_eq!((nic.config.get(), notes(&folder)), (BEFORE, 0));
        // Where nothing can be noted, nothing is turned on.
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "a file").unwrap();
        assert!(Held::hold(&folder, nic.clone(), Needs::AllReceived).is_err() && nic.config.get() == BEFORE);
        fs::remove_file(folder).unwrap();
    }
}
