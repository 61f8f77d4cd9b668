//! Taking a device from its kernel driver for vfio-pci, and giving it back.
//!
//! ```text
//! take        driver_override <- vfio-pci     drivers/OLD/unbind <- ADDRESS      drivers/vfio-pci/bind <- ADDRESS
//! give back   drivers/vfio-pci/unbind <- ADDRESS     driver_override <- as it was       drivers/OLD/bind <- ADDRESS
//! ```
//! Each write is followed by a look at what it has done, for a limited time. If one fails, the device is given back at once. The override is
//! taken away before the old driver gets the device, because the kernel lets no other driver have it.
//!
//! A device stays with vfio-pci when the process is killed. So the driver that it had is noted in a file ([`linerate_sys::note`]) before the
//! first change: the next start finds the note, and gives the device back.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use super::{Address, Bus, GroupMember, NOIOMMU, PciDevice, PciInterface, VFIO, is_clean};
use linerate_sys::note::Note;

/// Drivers that keep their device while DPDK uses it (bifurcated drivers).
const BIFURCATED: [&str; 2] = ["mlx4_core", "mlx5_core"];
/// Drivers that have given the device to a process already.
const GIVEN: [&str; 3] = [VFIO, "uio_pci_generic", "igb_uio"];
/// Drivers of the other devices of a group that vfio puts up with, because they do no DMA (`driver_managed_dma` in the kernel).
const HARMLESS: [&str; 3] = [VFIO, "pci-stub", "pcieport"];
/// How the names of notes begin.
const NOTE: &str = "pci-driver-";
/// How often the state is looked at after a write.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why a device is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}: {hint}")]
pub struct Refusal {
    /// What is in the way.
    pub cause: String,
    /// What to do.
    pub hint: String,
}

impl Refusal {
    fn new(cause: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { cause: cause.into(), hint: hint.into() }
    }
}

/// What became of a device that was to be taken.
#[derive(Debug)]
pub enum Taken {
    /// vfio-pci has it, until the binding is dropped.
    Bound(Binding),
    /// It was left alone, because DPDK can use it as it is: why.
    Kept(String),
}

/// A device that a killed process left with vfio-pci.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBinding {
    /// Where it is.
    pub address: Address,
    /// The kernel driver that it had.
    pub driver: Option<String>,
}

/// A device that vfio-pci has for now. Dropping it gives the device back to the driver that it had.
pub struct Binding {
    bus: Bus,
    address: Address,
    before: Before,
    note: Option<Note>,
}

impl std::fmt::Debug for Binding {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Binding({}, {:?})", self.address, self.before)
    }
}

impl Binding {
    /// The kernel driver that the device had.
    pub fn driver_before(&self) -> Option<&str> {
        self.before.driver.as_deref()
    }

    /// Gives the device back. Nobody may use it any more: vfio-pci waits until it is closed.
    ///
    /// # Errors
    /// Which step failed. The note stays, so that the next start tries again.
    pub fn give_back(mut self) -> Result<(), String> {
        self.give_back_once()
    }

    fn give_back_once(&mut self) -> Result<(), String> {
        let Some(note) = self.note.take() else { return Ok(()) };
        self.bus.put_back(self.address, &self.before)?;
        note.remove();
        Ok(())
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // The note stays if it fails.
        let _ = self.give_back_once();
    }
}

/// What a device had before it was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    pub driver: Option<String>,
    pub driver_override: String,
}

impl Before {
    fn to_text(&self) -> String {
        format!("driver {}\noverride {}\n", self.driver.as_deref().unwrap_or_default(), self.driver_override)
    }

    /// What a note says; `None` if this module did not write it so.
    pub(super) fn of_note(text: &[u8]) -> Option<Before> {
        let text = std::str::from_utf8(text).ok()?;
        let (driver, driver_override) = text.strip_suffix('\n')?.split_once('\n')?;
        let driver = driver.strip_prefix("driver ")?;
        let driver_override = driver_override.strip_prefix("override ")?;
        let good = |name: &str| name.is_empty() || is_driver_name(name);
        let driver_known = Some(driver).filter(|name| !name.is_empty()).map(str::to_owned);
        let before = Before { driver: driver_known, driver_override: driver_override.into() };
        (good(driver) && good(driver_override)).then_some(before)
    }
}

/// A name that can be a folder below `drivers`, and nothing else.
fn is_driver_name(name: &str) -> bool {
    is_clean(name) && !name.is_empty() && !name.starts_with('.') && !name.contains(['/', ' '])
}

/// One write, and what has to be so after it.
pub(super) struct Step {
    file: PathBuf,
    text: String,
    after: State,
}

enum State {
    Driver(Option<String>),
    Override(String),
}

impl Bus {
    /// Takes a device from its kernel driver, for vfio-pci. `force`: also if the host uses its interface, which then goes away with
    /// its addresses and routes. A device that a killed process left with vfio-pci is given back first.
    ///
    /// # Errors
    /// What is in the way, with what to do; the device is as it was. Where giving it back failed, too, the cause says so.
    pub fn take(&self, address: Address, force: bool) -> Result<Taken, Refusal> {
        let note = match Note::make(&self.notes, &note_name(address)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(Refusal::new(
                    format!("another process has taken {address}"),
                    "end it, or take another device",
                ));
            }
            made => made,
        };
        if let Ok(note) = &note {
            self.settle(address, note).map_err(|cause| Refusal::new(cause, "the next start tries again"))?;
        }
        let unchanged = || note.iter().for_each(Note::remove);
        let Some(device) = self.device(address) else {
            unchanged();
            return Err(Refusal::new(
                format!("there is no PCI device {address}"),
                "`linerate ports` lists network cards",
            ));
        };
        if let Some(why) = device.kept() {
            unchanged();
            return Ok(Taken::Kept(why));
        }
        if let Some(refusal) = self.refusal(&device, force) {
            unchanged();
            return Err(refusal);
        }
        let before = Before { driver: device.driver, driver_override: device.driver_override };
        let noted = note.and_then(|note| note.write(before.to_text().as_bytes()).map(|()| note));
        let note = noted.map_err(|error| {
            let cause = format!("its driver cannot be noted in {}: {error}", self.notes.display());
            Refusal::new(cause, "run it as root, with a folder that can be written")
        })?;
        let binding = Binding { bus: self.clone(), address, before, note: Some(note) };
        let steps = self.steps_to_take(address, &binding.before);
        let Err(cause) = steps.iter().try_for_each(|step| self.run(address, step)) else {
            return Ok(Taken::Bound(binding));
        };
        let hint = match binding.give_back() {
            Ok(()) => "the device is as it was; docs/dpdk.md says what vfio-pci needs".to_owned(),
            Err(again) => format!("giving it back failed, too ({again}); the next start tries again"),
        };
        Err(Refusal::new(cause, hint))
    }

    /// Gives back all devices that killed processes left with vfio-pci.
    ///
    /// # Errors
    /// The first that could not be given back. Its note stays.
    pub fn restore_left(&self) -> Result<(), String> {
        let mut result = Ok(());
        for (address, note) in self.left_notes() {
            let settled = self.settle(address, &note).map(|()| note.remove());
            result = result.and(settled);
        }
        result
    }

    /// The devices that killed processes left with vfio-pci, as far as this user may know. Changes nothing.
    pub fn left(&self) -> Vec<LeftBinding> {
        let notes = self.left_notes().into_iter();
        let left = notes.filter(|(address, _)| self.driver(*address).is_none_or(|driver| driver == VFIO));
        let driver =
            |note: &Note| note.read().ok().and_then(|text| Before::of_note(&text)).and_then(|before| before.driver);
        left.map(|(address, note)| LeftBinding { address, driver: driver(&note) }).collect()
    }

    /// The notes that no process has.
    fn left_notes(&self) -> Vec<(Address, Note)> {
        let names = Note::names(&self.notes, NOTE).into_iter();
        let note = |name: String| Some((name.strip_prefix(NOTE)?.parse().ok()?, Note::find(&self.notes, &name).ok()?));
        names.filter_map(note).collect()
    }

    /// Gives a device back as a note says. A note that says nothing was written before the first change.
    fn settle(&self, address: Address, note: &Note) -> Result<(), String> {
        let text = note.read().map_err(|error| format!("the note about {address} cannot be read: {error}"))?;
        match Before::of_note(&text) {
            Some(before) => self.put_back(address, &before),
            None => Ok(()),
        }
    }

    /// Why [`Bus::take`] would not take a device now; `None` if nothing is known to be in the way. Reads only.
    pub fn refusal(&self, device: &PciDevice, force: bool) -> Option<Refusal> {
        if !device.is_network_card() {
            let cause = format!("{} is no network card (class {:06x})", device.address, device.class);
            return Some(Refusal::new(cause, "`linerate ports` lists network cards"));
        }
        let used = if force { None } else { self.host_use(device) };
        used.or_else(|| self.vfio_missing(device)).or_else(|| group_use(device))
    }

    /// Why the host needs the device.
    fn host_use(&self, device: &PciDevice) -> Option<Refusal> {
        let force = "bind=force takes it away from the host, with its addresses and routes";
        let above = |one: &PciInterface| {
            let upper = one.uppers.first()?;
            let hint = format!("take {} out of {upper} first; {force}", one.name);
            Some(Refusal::new(format!("its interface {} is part of {upper}", one.name), hint))
        };
        let in_use = |one: &PciInterface| {
            let cause = if one.up { self.kernel.use_of(one) } else { None }?;
            Some(Refusal::new(
                cause,
                format!("if the host can do without it, `ip link set {} down`; {force}", one.name),
            ))
        };
        let found = device.interfaces.iter().find_map(|one| above(one).or_else(|| in_use(one)));
        found
            .or_else(|| {
                let cause = "it has an interface in another network namespace";
                device.hidden_interface.then(|| Refusal::new(cause, format!("if nobody needs it there, {force}")))
            })
            .or_else(|| {
                let count = device.virtual_functions;
                let cause = format!("it has virtual functions ({count}), which go away with its driver");
                let hint = format!("echo 0 > {}/sriov_numvfs; {force}", self.folder(device.address).display());
                (count > 0).then(|| Refusal::new(cause, hint))
            })
    }

    fn vfio_missing(&self, device: &PciDevice) -> Option<Refusal> {
        if !self.root.join("bus/pci/drivers").join(VFIO).is_dir() {
            return Some(Refusal::new("vfio-pci is not loaded", "modprobe vfio-pci"));
        }
        let setting = self.root.join(NOIOMMU);
        (device.iommu_group.is_none() && !self.noiommu_allowed()).then(|| {
            let without = if setting.exists() {
                format!(": echo Y > {}, after which the card can write into any memory", setting.display())
            } else {
                ", give it one (QEMU: -device intel-iommu), because this kernel's vfio does not work without \
                 (CONFIG_VFIO_NOIOMMU is off, as in Debian's kernels)"
                    .into()
            };
            let hint = format!(
                "switch it on by intel_iommu=on iommu=pt on the kernel's command line (Intel) or in the firmware; where there is \
                 none, as in most virtual machines{without}"
            );
            Refusal::new("the machine has no IOMMU, or it is off", hint)
        })
    }

    /// The writes that take a device.
    pub(super) fn steps_to_take(&self, address: Address, before: &Before) -> Vec<Step> {
        let unbind = before.driver.as_ref().map(|driver| self.step_of_driver(address, driver, "unbind", None));
        let mut steps = vec![self.step_of_override(address, VFIO)];
        steps.extend(unbind);
        steps.push(self.step_of_driver(address, VFIO, "bind", Some(VFIO)));
        steps
    }

    /// Gives a device back, wherever taking it stopped. A driver that somebody else chose meanwhile keeps it.
    fn put_back(&self, address: Address, before: &Before) -> Result<(), String> {
        if self.device(address).is_none() {
            return Ok(());
        }
        if self.driver(address).as_deref() == Some(VFIO) && before.driver.as_deref() != Some(VFIO) {
            self.run(address, &self.step_of_driver(address, VFIO, "unbind", None))?;
        }
        if self.driver_override(address) == VFIO {
            self.run(address, &self.step_of_override(address, &before.driver_override))?;
        }
        match &before.driver {
            Some(driver) if self.driver(address).is_none() => {
                self.run(address, &self.step_of_driver(address, driver, "bind", Some(driver)))
            }
            _ => Ok(()),
        }
    }

    fn step_of_override(&self, address: Address, driver: &str) -> Step {
        let file = self.folder(address).join("driver_override");
        // An empty line takes the override away.
        let text = if driver.is_empty() { "\n".into() } else { driver.to_owned() };
        Step { file, text, after: State::Override(driver.into()) }
    }

    fn step_of_driver(&self, address: Address, driver: &str, file: &str, after: Option<&str>) -> Step {
        let file = self.root.join("bus/pci/drivers").join(driver).join(file);
        Step { file, text: address.to_string(), after: State::Driver(after.map(str::to_owned)) }
    }

    /// Writes, and looks until it is so.
    pub(super) fn run(&self, address: Address, step: &Step) -> Result<(), String> {
        let limit = self.kernel.limit(&step.file);
        let written = self.write(step, limit);
        let deadline = Instant::now() + limit;
        while !self.is_so(address, &step.after) {
            let what = format!("writing `{}` into {}", step.text.trim(), step.file.display());
            if let Err(error) = written {
                return Err(format!("{what}: {error}"));
            }
            if Instant::now() >= deadline {
                return Err(format!("{what} had no effect within {} s", limit.as_secs_f64()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn is_so(&self, address: Address, state: &State) -> bool {
        match state {
            State::Driver(driver) => self.driver(address) == *driver,
            State::Override(driver) => self.driver_override(address) == *driver,
        }
    }

    /// Writes on a thread of its own, because the kernel waits without end in some writes: for a driver that hangs, or for a
    /// process that has the device open.
    fn write(&self, step: &Step, limit: Duration) -> io::Result<()> {
        let (kernel, file, text) = (Arc::clone(&self.kernel), step.file.clone(), step.text.clone());
        let (tell, told) = mpsc::sync_channel(1);
        let work = move || drop(tell.send(kernel.write(&file, &text)));
        std::thread::Builder::new().name("pci-bind".into()).spawn(work)?;
        told.recv_timeout(limit).unwrap_or_else(|_| {
            let text = format!("the kernel did not finish within {} s", limit.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }
}

impl PciDevice {
    /// Why DPDK uses the device with the driver that it has; `None` if a kernel driver, or none, has it.
    pub fn kept(&self) -> Option<String> {
        let driver = self.driver.as_deref()?;
        if BIFURCATED.contains(&driver) {
            return Some(format!("{} stays with {driver}, beside which DPDK uses it", self.address));
        }
        GIVEN.contains(&driver).then(|| format!("{} was with {driver} before, and stays there", self.address))
    }
}

/// Another device of the group that would stand in vfio's way.
fn group_use(device: &PciDevice) -> Option<Refusal> {
    let in_use = |member: &&GroupMember| {
        !member.bridge && member.driver.as_deref().is_some_and(|driver| !HARMLESS.contains(&driver))
    };
    let member = device.group_members.iter().find(in_use)?;
    let driver = member.driver.as_deref().unwrap_or_default();
    let cause = format!("{} of the same IOMMU group is in use by {driver}", member.address);
    let hint = "devices of a group go together: give that one to vfio-pci, too (driverctl set-override), or move the card to another slot";
    Some(Refusal::new(cause, hint))
}

fn note_name(address: Address) -> String {
    format!("{NOTE}{address}")
}

/// The name of the note about a device, and what it says, for tests that play a killed process.
#[cfg(test)]
pub(super) fn note_of(address: Address, before: &Before) -> (String, String) {
    (note_name(address), before.to_text())
}

#[cfg(test)]
impl Binding {
    /// The note, without which dropping the binding does nothing.
    pub(super) fn take_note(&mut self) -> Option<Note> {
        self.note.take()
    }
}

#[cfg(test)]
impl Bus {
    /// Sets a device's override.
    pub(super) fn put_override(&self, address: Address, driver: &str) {
        self.run(address, &self.step_of_override(address, driver)).unwrap();
    }
}
