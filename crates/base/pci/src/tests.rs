//! The bus on a made-up sysfs, whose kernel is a type that does what the kernel does with a write, or fails to.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Mutex;

use proptest::prelude::*;
use tempfile::TempDir;

use super::bind::{Before, note_of};
use super::*;
use linerate_sys::note::Note;

const CARD: &str = "0000:01:00.0";
const TWIN: &str = "0000:01:00.1";

/// How a write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The kernel says no.
    Refused,
    /// The kernel says yes, and does nothing.
    Ignored,
    /// The kernel does not come back in time, and has done nothing.
    Hangs,
    /// The kernel does it, but says no.
    DoneButRefused,
}

/// A kernel over a folder.
struct Made {
    root: PathBuf,
    /// By the end of the file's path: what goes wrong, and how often.
    faults: Mutex<HashMap<String, (Fault, u32)>>,
    used: Mutex<Option<String>>,
    log: Mutex<Vec<String>>,
}

impl Made {
    fn device(&self, address: &str) -> PathBuf {
        self.root.join("devices").join(address)
    }

    fn fault(&self, path: &Path) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let (_, (fault, left)) = faults.iter_mut().find(|(end, _)| path.to_str().unwrap().ends_with(end.as_str()))?;
        *left = left.checked_sub(1)?;
        Some(*fault)
    }

    fn carry_out(&self, path: &Path, text: &str) -> io::Result<()> {
        let no_device = || io::Error::from_raw_os_error(libc::ENODEV);
        let file = path.file_name().unwrap().to_str().unwrap();
        if !path.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        if file == "driver_override" {
            let text = text.trim_end_matches('\n');
            return fs::write(path, if text.is_empty() { "(null)\n".into() } else { format!("{text}\n") });
        }
        let driver = path.parent().unwrap();
        let (name, device) = (driver.file_name().unwrap().to_str().unwrap(), self.device(text));
        let link = device.join("driver");
        let bound =
            fs::read_link(&link).ok().and_then(|to| to.file_name().map(|name| name.to_str().unwrap().to_owned()));
        match file {
            "unbind" if bound.as_deref() == Some(name) => {
                let _ = fs::remove_dir_all(device.join("net"));
                fs::remove_file(link)
            }
            "bind" if bound.is_none() => {
                let only = fs::read_to_string(device.join("driver_override")).unwrap();
                let own = fs::read_to_string(device.join("made-for")).unwrap();
                // vfio-pci matches no device by itself.
                if only.trim() != name && !(only.trim() == "(null)" && own == name) {
                    return Err(no_device());
                }
                symlink(driver, link)?;
                if name != VFIO { interface(&device, "eth1", 0x1002) } else { Ok(()) }
            }
            _ => Err(no_device()),
        }
    }
}

impl Kernel for Made {
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.log.lock().unwrap().push(path.file_name().unwrap().to_str().unwrap().to_owned());
        match self.fault(path) {
            None => self.carry_out(path, text),
            Some(Fault::Ignored) => Ok(()),
            Some(Fault::Refused) => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Some(Fault::DoneButRefused) => {
                self.carry_out(path, text)?;
                Err(io::Error::from_raw_os_error(libc::EINVAL))
            }
            Some(Fault::Hangs) => {
                std::thread::sleep(Duration::from_millis(400));
                Ok(())
            }
        }
    }

    fn use_of(&self, _: &PciInterface) -> Option<String> {
        self.used.lock().unwrap().clone()
    }

    /// Short only where the time will be over, so that no other step fails on a busy machine.
    fn limit(&self, path: &Path) -> Duration {
        let faults = self.faults.lock().unwrap();
        let fault =
            faults.iter().find(|(end, _)| path.to_str().unwrap().ends_with(end.as_str())).map(|(_, fault)| fault);
        match fault {
            Some((Fault::Ignored | Fault::Hangs, 1..)) => Duration::from_millis(60),
            _ => Duration::from_secs(60),
        }
    }
}

fn interface(device: &Path, name: &str, flags: u32) -> io::Result<()> {
    let folder = device.join("net").join(name);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("flags"), format!("{flags:#x}\n"))?;
    fs::write(folder.join("ifindex"), "7\n")
}

/// A machine with two cards of one IOMMU group, of which the second has no driver, and a disk.
struct Machine {
    folder: TempDir,
    made: Arc<Made>,
    bus: Bus,
}

fn machine() -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("sys");
    for driver in ["ixgbe", "mlx5_core", VFIO, "nvme"] {
        let own = root.join("bus/pci/drivers").join(driver);
        fs::create_dir_all(&own).unwrap();
        for file in ["bind", "unbind"] {
            fs::write(own.join(file), "").unwrap();
        }
    }
    fs::create_dir_all(root.join("bus/pci/devices")).unwrap();
    let made = Made { root, faults: Mutex::default(), used: Mutex::default(), log: Mutex::default() };
    let machine = Machine {
        bus: Bus { root: made.root.clone(), notes: folder.path().join("notes"), kernel: Arc::new(usage::ThisKernel) },
        made: Arc::new(made),
        folder,
    };
    machine.add(CARD, "0x020000", Some("ixgbe"));
    machine.add(TWIN, "0x020000", None);
    machine.add("0000:00:1f.2", "0x010802", Some("nvme"));
    machine.group("5", &[CARD, TWIN]);
    interface(&machine.made.device(CARD), "eth1", 0x1002).unwrap();
    Machine { bus: Bus { kernel: machine.made.clone(), ..machine.bus }, ..machine }
}

impl Machine {
    fn add(&self, address: &str, class: &str, driver: Option<&str>) {
        let device = self.made.device(address);
        fs::create_dir_all(&device).unwrap();
        for (file, text) in [("class", class), ("vendor", "0x8086"), ("device", "0x10fb"), ("numa_node", "1")] {
            fs::write(device.join(file), format!("{text}\n")).unwrap();
        }
        fs::write(device.join("driver_override"), "(null)\n").unwrap();
        fs::write(device.join("made-for"), driver.unwrap_or("ixgbe")).unwrap();
        symlink(&device, self.made.root.join("bus/pci/devices").join(address)).unwrap();
        driver.iter().for_each(|driver| self.drive(address, driver));
    }

    fn drive(&self, address: &str, driver: &str) {
        let link = self.made.device(address).join("driver");
        let _ = fs::remove_file(&link);
        symlink(self.made.root.join("bus/pci/drivers").join(driver), link).unwrap();
    }

    fn group(&self, number: &str, members: &[&str]) {
        let group = self.made.root.join("kernel/iommu_groups").join(number);
        fs::create_dir_all(group.join("devices")).unwrap();
        for address in members {
            symlink(self.made.device(address), group.join("devices").join(address)).unwrap();
            symlink(&group, self.made.device(address).join("iommu_group")).unwrap();
        }
    }

    fn fails(&self, file: &str, fault: Fault, times: u32) {
        self.made.faults.lock().unwrap().insert(file.into(), (fault, times));
    }

    fn take(&self) -> Result<Taken, Refusal> {
        self.bus.take(card(), false)
    }

    fn take_bound(&self) -> Binding {
        match self.take() {
            Ok(Taken::Bound(binding)) => binding,
            other => panic!("{other:?}"),
        }
    }

    /// Driver and override of the card, and the number of notes.
    fn state(&self) -> (Option<String>, String, usize) {
        (self.bus.driver(card()), self.bus.driver_override(card()), Note::names(&self.bus.notes, "").len())
    }

    fn is_as_before(&self) -> bool {
        self.state() == (Some("ixgbe".into()), String::new(), 0)
    }

    fn is_taken(&self) -> bool {
        self.state() == (Some(VFIO.into()), VFIO.into(), 1)
    }
}

fn card() -> Address {
    CARD.parse().unwrap()
}

/// As after kill -9: the lock is gone with the process, and nothing else.
fn kill(binding: Binding) {
    let mut binding = std::mem::ManuallyDrop::new(binding);
    drop(binding.take_note());
}

#[test]
fn addresses_are_read_as_they_are_written() {
    for (text, whole) in
        [(CARD, CARD), ("01:00.0", CARD), ("10000:ff:1f.7", "10000:ff:1f.7"), ("0:1:2.3", "0000:01:02.3")]
    {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), whole);
    }
    for wrong in [
        "",
        "01:00",
        "0000:01:00.8",
        "0000:01:20.0",
        "0000:001:00.0",
        "+1:00.0",
        "net_null0",
        "a:b:c:d.0",
        "0000:01:00.0/x",
        ":1:0.0",
    ] {
        assert_eq!(wrong.parse::<Address>(), Err(NoAddress), "{wrong}");
    }
}

#[test]
fn network_cards_are_listed_with_what_sysfs_says_of_them() {
    let machine = machine();
    let found = machine.bus.network_devices();
    assert_eq!(found.len(), 2, "not the disk: {found:?}");
    let first = &found[0];
    assert_eq!((first.address, first.vendor, first.device, first.class), (card(), 0x8086, 0x10fb, 0x020000));
    assert_eq!(
        (first.driver.as_deref(), first.iommu_group, first.numa_node, first.noiommu),
        (Some("ixgbe"), Some(5), Some(1), false)
    );
    let interface = &first.interfaces[0];
    assert_eq!((interface.name.as_str(), interface.index, interface.up, interface.link), ("eth1", 7, false, None));
    assert_eq!(first.group_members, [GroupMember { address: TWIN.parse().unwrap(), driver: None, bridge: false }]);
    assert_eq!((found[1].driver.as_deref(), found[1].interfaces.len()), (None, 0));
    // Interfaces of virtio are one folder further down.
    let device = machine.made.device(TWIN);
    super::tests::interface(&device.join("virtio3"), "eth5", 0x1003).unwrap();
    fs::write(device.join("virtio3/net/eth5/carrier"), "1\n").unwrap();
    let twin = machine.bus.device(TWIN.parse().unwrap()).unwrap();
    assert_eq!(
        (twin.interfaces[0].name.as_str(), twin.interfaces[0].up, twin.interfaces[0].link),
        ("eth5", true, Some(true))
    );
}

#[test]
fn a_machine_without_a_bus_has_no_cards() {
    let folder = tempfile::tempdir().unwrap();
    let bus = Bus { root: folder.path().join("none"), ..Bus::default() };
    assert_eq!(bus.network_devices(), []);
    assert!(bus.take(card(), true).unwrap_err().cause.contains("no PCI device"));
}

#[test]
fn this_machine_can_be_listed() {
    for device in Bus::default().network_devices() {
        assert_eq!(device.class >> 16, 2);
        assert!(Bus::default().device(device.address).is_some());
    }
}

#[test]
fn hostile_files_are_no_cards() {
    let machine = machine();
    let device = machine.made.device(CARD);
    for (file, text) in [
        ("class", b"\xff\xfe\x00".to_vec()),
        ("class", vec![b'0'; 1 << 20]),
        ("class", b"0xffffffffffffffff".to_vec()),
        ("class", b"-0x20000".to_vec()),
        ("vendor", b"".to_vec()),
    ] {
        let before = fs::read(device.join(file)).unwrap();
        fs::write(device.join(file), text).unwrap();
        assert!(machine.bus.network_devices().iter().all(|found| found.address != card()));
        fs::write(device.join(file), before).unwrap();
    }
    // Words that would disturb a terminal are left out; numbers that are none are not known.
    fs::write(device.join("numa_node"), "-1\n").unwrap();
    fs::create_dir(device.join("net").join("e\u{1b}[2J")).unwrap();
    fs::write(device.join("net/eth1/flags"), "0xzz").unwrap();
    fs::remove_file(device.join("iommu_group")).unwrap();
    symlink("../..", device.join("iommu_group")).unwrap();
    let found = machine.bus.device(card()).unwrap();
    assert_eq!((found.numa_node, found.iommu_group, found.interfaces.len()), (None, None, 1));
    assert!(!found.interfaces[0].up && found.group_members.is_empty());
}

#[test]
fn a_card_is_taken_and_given_back() {
    let machine = machine();
    let binding = machine.take_bound();
    assert!(machine.is_taken(), "{:?}", machine.state());
    assert_eq!(binding.driver_before(), Some("ixgbe"));
    // Another process finds it taken, and leaves it alone.
    assert!(machine.take().unwrap_err().cause.contains("another process"));
    machine.bus.restore_left().unwrap();
    assert_eq!(machine.bus.left(), []);
    assert!(machine.is_taken());
    drop(binding);
    assert!(machine.is_as_before(), "{:?}", machine.state());
    let log = machine.made.log.lock().unwrap().join(" ");
    assert_eq!(log, "driver_override unbind bind unbind driver_override bind");
    assert!(machine.made.device(CARD).join("net/eth1").is_dir());
}

#[test]
fn a_card_without_a_driver_gets_none_back() {
    let machine = machine();
    let twin: Address = TWIN.parse().unwrap();
    machine.bus.put_override(twin, "other");
    // The card of the same group is in use.
    let refusal = machine.bus.take(twin, true).unwrap_err();
    assert!(refusal.cause.contains(CARD) && refusal.cause.contains("ixgbe"), "{refusal}");
    machine.drive(CARD, VFIO);
    let taken = machine.bus.take(twin, false).unwrap();
    assert_eq!(machine.bus.driver(twin).as_deref(), Some(VFIO));
    drop(taken);
    assert_eq!((machine.bus.driver(twin), machine.bus.driver_override(twin)), (None, "other".into()));
}

#[test]
fn each_failure_in_the_middle_is_undone() {
    for file in ["driver_override", "ixgbe/unbind", "vfio-pci/bind"] {
        for fault in [Fault::Refused, Fault::Ignored, Fault::Hangs] {
            let machine = machine();
            machine.fails(file, fault, 1);
            let refusal = machine.take().unwrap_err();
            assert!(refusal.cause.contains(file) && refusal.hint.contains("as it was"), "{file} {fault:?}: {refusal}");
            assert!(machine.is_as_before(), "{file} {fault:?}: {:?}", machine.state());
            // And it can be had after all.
            drop(machine.take_bound());
            assert!(machine.is_as_before());
        }
        let machine = machine();
        machine.fails(file, Fault::DoneButRefused, 1);
        drop(machine.take_bound());
        assert!(machine.is_as_before(), "{file}");
    }
}

#[test]
fn a_card_that_cannot_be_given_back_is_by_the_next_start() {
    for file in ["driver_override", "vfio-pci/unbind", "ixgbe/bind"] {
        for fault in [Fault::Refused, Fault::Ignored, Fault::Hangs] {
            let machine = machine();
            let binding = machine.take_bound();
            machine.fails(file, fault, 2);
            let error = binding.give_back().unwrap_err();
            assert!(error.contains(file), "{error}");
            assert_eq!(machine.state().2, 1, "the note stays");
            // The next start fails as well, and the one after it succeeds.
            let refusal = machine.take().unwrap_err();
            assert!(refusal.hint.contains("next start"), "{refusal}");
            assert_eq!(machine.state().2, 1);
            machine.bus.restore_left().unwrap();
            assert!(machine.is_as_before(), "{file} {fault:?}: {:?}", machine.state());
        }
    }
    // Both ways fail.
    let machine = machine();
    machine.fails("vfio-pci/bind", Fault::Refused, 1);
    machine.fails("ixgbe/bind", Fault::Refused, 1);
    let refusal = machine.take().unwrap_err();
    assert!(refusal.cause.contains("vfio-pci/bind") && refusal.hint.contains("ixgbe/bind"), "{refusal}");
    let left = machine.bus.left();
    assert_eq!((left[0].address, left[0].driver.as_deref()), (card(), Some("ixgbe")));
    machine.bus.restore_left().unwrap();
    assert!(machine.is_as_before() && machine.bus.left().is_empty());
}

#[test]
fn the_next_start_gives_back_what_a_killed_process_took() {
    let machine = machine();
    kill(machine.take_bound());
    assert!(machine.is_taken());
    assert_eq!(machine.bus.left().len(), 1);
    machine.bus.restore_left().unwrap();
    assert!(machine.is_as_before());
    // One that wants it again knows whose it was.
    kill(machine.take_bound());
    drop(machine.take_bound());
    assert!(machine.is_as_before());
    // Killed after each number of steps.
    let before = Before { driver: Some("ixgbe".into()), driver_override: String::new() };
    for done in 0..=3 {
        let (name, text) = note_of(card(), &before);
        Note::make(&machine.bus.notes, &name).unwrap().write(text.as_bytes()).unwrap();
        for step in machine.bus.steps_to_take(card(), &before).iter().take(done) {
            machine.bus.run(card(), step).unwrap();
        }
        machine.bus.restore_left().unwrap();
        assert!(machine.is_as_before(), "after {done} steps: {:?}", machine.state());
    }
    // A driver that somebody chose meanwhile stays, and so does a card that was pulled out.
    kill(machine.take_bound());
    machine.drive(CARD, "mlx5_core");
    machine.bus.restore_left().unwrap();
    assert_eq!(machine.bus.driver(card()).as_deref(), Some("mlx5_core"));
    machine.drive(CARD, "ixgbe");
    kill(machine.take_bound());
    fs::remove_file(machine.made.root.join("bus/pci/devices").join(CARD)).unwrap();
    machine.bus.restore_left().unwrap();
    assert_eq!(Note::names(&machine.bus.notes, ""), [""; 0]);
}

#[test]
fn what_the_host_needs_is_not_taken() {
    let machine = machine();
    let device = machine.made.device(CARD);
    let refused = |words: &str, forced: bool| {
        let refusal = machine.take().unwrap_err();
        assert!(refusal.cause.contains(words) && !refusal.hint.is_empty(), "{refusal}");
        assert!(machine.is_as_before() && machine.made.log.lock().unwrap().is_empty(), "nothing was written");
        assert_eq!(machine.bus.refusal(&machine.bus.device(card()).unwrap(), true).is_none(), forced, "{refusal}");
        refusal.hint
    };
    *machine.made.used.lock().unwrap() = Some("eth1 has address 192.0.2.1".into());
    // While it is down, its addresses are of no use.
    assert_eq!(machine.bus.refusal(&machine.bus.device(card()).unwrap(), false), None);
    interface(&device, "eth1", 0x1003).unwrap();
    refused("192.0.2.1", true);
    *machine.made.used.lock().unwrap() = None;
    fs::create_dir(device.join("net/eth1/upper_br0")).unwrap();
    refused("br0", true);
    fs::remove_dir(device.join("net/eth1/upper_br0")).unwrap();
    fs::write(device.join("sriov_numvfs"), "4\n").unwrap();
    refused("virtual functions (4)", true);
    fs::remove_file(device.join("sriov_numvfs")).unwrap();
    fs::remove_dir_all(device.join("net/eth1")).unwrap();
    refused("another network namespace", true);
    fs::remove_dir(device.join("net")).unwrap();
    machine.drive(TWIN, "ixgbe");
    refused(TWIN, false);
    // Bridges between buses and what vfio has are no users.
    machine.drive(TWIN, VFIO);
    fs::remove_file(device.join("iommu_group")).unwrap();
    let hint = refused("no IOMMU", false);
    assert!(hint.contains("CONFIG_VFIO_NOIOMMU") && !hint.contains("echo Y"), "{hint}");
    let setting = machine.made.root.join("module/vfio/parameters");
    fs::create_dir_all(&setting).unwrap();
    fs::write(setting.join("enable_unsafe_noiommu_mode"), "N\n").unwrap();
    let hint = refused("no IOMMU", false);
    assert!(hint.contains("echo Y > ") && !hint.contains("CONFIG_VFIO_NOIOMMU"), "{hint}");
    fs::write(setting.join("enable_unsafe_noiommu_mode"), "Y\n").unwrap();
    assert!(machine.bus.is_noiommu());
    fs::create_dir_all(machine.made.root.join("class/iommu/dmar0")).unwrap();
    assert!(!machine.bus.is_noiommu());
    fs::rename(machine.made.root.join("bus/pci/drivers/vfio-pci"), machine.folder.path().join("gone")).unwrap();
    refused("vfio-pci is not loaded", false);
    fs::rename(machine.folder.path().join("gone"), machine.made.root.join("bus/pci/drivers/vfio-pci")).unwrap();
    // With all of it told so, it is.
    interface(&device, "eth1", 0x1003).unwrap();
    *machine.made.used.lock().unwrap() = Some("eth1 has address 192.0.2.1".into());
    assert!(matches!(machine.bus.take(card(), true), Ok(Taken::Bound(_))));
    assert!(machine.is_as_before());
    let disk = machine.bus.take("0000:00:1f.2".parse().unwrap(), true).unwrap_err();
    assert!(disk.cause.contains("no network card"), "{disk}");
}

#[test]
fn what_dpdk_uses_as_it_is_stays_so() {
    let machine = machine();
    for driver in ["mlx5_core", VFIO] {
        machine.drive(CARD, driver);
        match machine.take().unwrap() {
            Taken::Kept(why) => assert!(why.contains(driver), "{why}"),
            Taken::Bound(binding) => panic!("{binding:?}"),
        }
        assert_eq!((machine.bus.driver(card()).as_deref(), machine.state().2), (Some(driver), 0));
    }
    assert!(machine.made.log.lock().unwrap().is_empty());
}

#[test]
fn without_a_note_nothing_is_taken() {
    let machine = machine();
    let bus = Bus { notes: "/proc/no-folder".into(), ..machine.bus.clone() };
    let refusal = bus.take(card(), false).unwrap_err();
    assert!(refusal.cause.contains("/proc/no-folder"), "{refusal}");
    assert!(machine.is_as_before() && machine.made.log.lock().unwrap().is_empty());
}

#[test]
fn hostile_notes_name_no_file_elsewhere() {
    let machine = machine();
    let name = note_of(card(), &Before::default()).0;
    for text in [
        "driver ../../x\noverride \n",
        "driver .\noverride \n",
        "driver a/b\noverride \n",
        "driver ixgbe\n",
        "driver ixgbe\noverride a b\n",
        "driver ixgbe\noverride x\ny\n",
        "",
        "\u{0}",
        "driver \noverride /\n",
    ] {
        let binding = machine.take_bound();
        kill(binding);
        machine.made.log.lock().unwrap().clear();
        Note::make(&machine.bus.notes, &name).unwrap().write(text.as_bytes()).unwrap();
        machine.bus.restore_left().unwrap();
        assert!(machine.made.log.lock().unwrap().is_empty(), "{text:?}");
        let (_, good) = note_of(card(), &Before { driver: Some("ixgbe".into()), driver_override: String::new() });
        Note::make(&machine.bus.notes, &name).unwrap().write(good.as_bytes()).unwrap();
        machine.bus.restore_left().unwrap();
        assert!(machine.is_as_before(), "{text:?}");
    }
    fs::create_dir_all(&machine.bus.notes).unwrap();
    fs::write(machine.bus.notes.join("pci-driver-../../x"), "").unwrap_err();
    fs::write(machine.bus.notes.join("pci-driver-nonsense"), "x").unwrap();
    machine.bus.restore_left().unwrap();
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in ".{0,24}", note in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(address) = text.parse::<Address>() {
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }
        if let Some(before) = Before::of_note(&note) {
            prop_assert!(!before.driver.unwrap_or_default().contains('/'));
        }
    }
}
