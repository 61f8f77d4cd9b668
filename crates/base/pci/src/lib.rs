//! Network cards on the PCI bus, as sysfs shows them (Documentation/ABI/testing/sysfs-bus-pci): which there are, who drives each, and
//! giving one to vfio-pci for a time. No packet passes this crate, so it is compiled quickly (`profile.release.package` in the
//! workspace's Cargo.toml).
//!
//! ```text
//! lib.rs     what there is                  names.rs   names of vendors and devices, from pci.ids
//! bind.rs    taking a device, giving it back     usage.rs   whether the host needs an interface
//! ```
#![forbid(unsafe_code)]

mod bind;
mod names;
#[cfg(test)]
mod tests;
mod usage;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

pub use bind::{Binding, LeftBinding, Refusal, Taken};
pub use names::Names;

/// The kernel driver that hands a device to a process.
pub const VFIO: &str = "vfio-pci";
/// Longest file of sysfs that is read, in bytes.
const TEXT_LEN_MAX: u64 = 4096;
/// Entries of a folder that are looked at.
const ENTRIES_MAX: usize = 65_536;
/// Drivers take seconds to start or stop a card.
const STEP_LIMIT: Duration = Duration::from_secs(15);
/// Whether vfio takes devices without an IOMMU.
const NOIOMMU: &str = "module/vfio/parameters/enable_unsafe_noiommu_mode";
/// Class of network controllers: the first byte of the class code (PCI Code and ID Assignment Specification).
const CLASS_NETWORK: u8 = 0x02;
/// Class and subclass of bridges between PCI buses.
const CLASS_PCI_BRIDGE: u32 = 0x0604;

/// Where a device is: `0000:01:00.0`, which is domain, bus, device and function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    domain: u32,
    bus: u8,
    device: u8,
    function: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

/// A text that is not the address of a PCI device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a PCI address, such as 0000:01:00.0")]
pub struct NoAddress;

impl FromStr for Address {
    type Err = NoAddress;

    /// Reads `0000:01:00.0`, or `01:00.0`, which is in domain 0.
    fn from_str(text: &str) -> Result<Address, NoAddress> {
        let number = |text: &str, digits: usize, most: u32| {
            let fits = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = fits.then(|| u32::from_str_radix(text, 16).ok()).flatten();
            number.filter(|number| *number <= most).ok_or(NoAddress)
        };
        let (front, function) = text.rsplit_once('.').ok_or(NoAddress)?;
        let (front, device) = front.rsplit_once(':').ok_or(NoAddress)?;
        let (domain, bus) = front.rsplit_once(':').unwrap_or(("0", front));
        Ok(Address {
            domain: number(domain, 8, u32::MAX)?,
            bus: number(bus, 2, 0xff)? as u8,
            device: number(device, 2, 0x1f)? as u8,
            function: number(function, 1, 7)? as u8,
        })
    }
}

/// A network card on the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciDevice {
    /// Where it is.
    pub address: Address,
    /// Number of its vendor.
    pub vendor: u16,
    /// The vendor's number for this kind of device.
    pub device: u16,
    /// Class code: class, subclass, interface.
    pub class: u32,
    /// The kernel driver that has it.
    pub driver: Option<String>,
    /// The driver that alone may take it; empty if any may.
    pub driver_override: String,
    /// The interfaces that its driver made, as far as this sysfs shows them.
    pub interfaces: Vec<PciInterface>,
    /// Its driver made an interface that is in another network namespace than sysfs shows.
    pub hidden_interface: bool,
    /// Number of its IOMMU group; `None` without an IOMMU.
    pub iommu_group: Option<u32>,
    /// The group stands for no IOMMU (vfio's noiommu mode).
    pub noiommu: bool,
    /// The other devices of its IOMMU group.
    pub group_members: Vec<GroupMember>,
    /// Its NUMA node; `None` if the machine has only one, or the firmware does not tell.
    pub numa_node: Option<u32>,
    /// Virtual functions that it has now (SR-IOV).
    pub virtual_functions: u32,
}

/// An interface of a network card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PciInterface {
    /// Its name.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Set up by an administrator.
    pub up: bool,
    /// Has a carrier; `None` if the driver does not tell, as while it is down.
    pub link: Option<bool>,
    /// Interfaces that stand on it: a bridge or a bond that it belongs to, VLANs.
    pub uppers: Vec<String>,
}

/// Another device of an IOMMU group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Where it is.
    pub address: Address,
    /// The kernel driver that has it.
    pub driver: Option<String>,
    /// It is a bridge between PCI buses.
    pub bridge: bool,
}

/// What the kernel does that files alone do not.
pub(crate) trait Kernel: Send + Sync {
    /// Writes into a file of sysfs.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Why the host needs the interface of this name and index.
    fn use_of(&self, interface: &PciInterface) -> Option<String>;
    /// Longest time that a write into a file may take, and again its effect.
    fn limit(&self, _path: &Path) -> Duration {
        STEP_LIMIT
    }
}

/// The PCI bus, below a folder that is or looks like `/sys`.
#[derive(Clone)]
pub struct Bus {
    root: PathBuf,
    /// Folder of the notes.
    notes: PathBuf,
    kernel: Arc<dyn Kernel>,
}

impl Default for Bus {
    /// The bus of this machine.
    fn default() -> Bus {
        let (root, notes) = (PathBuf::from("/sys"), PathBuf::from(linerate_sys::note::FOLDER));
        Bus { root, notes, kernel: Arc::new(usage::ThisKernel) }
    }
}

impl Bus {
    /// The network cards, in the order of their addresses; none on a machine without a PCI bus. Reads only.
    pub fn network_devices(&self) -> Vec<PciDevice> {
        let addresses = names_in(&self.root.join("bus/pci/devices")).into_iter();
        let mut addresses: Vec<Address> = addresses.filter_map(|name| name.parse().ok()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let found = addresses.into_iter().filter_map(|address| self.device(address));
        found.filter(PciDevice::is_network_card).collect()
    }

    /// Whether vfio works without an IOMMU here: there is none, and the mode is switched on.
    pub fn is_noiommu(&self) -> bool {
        self.noiommu_allowed() && names_in(&self.root.join("class/iommu")).is_empty()
    }

    fn noiommu_allowed(&self) -> bool {
        text(&self.root.join(NOIOMMU)).is_some_and(|value| value == "Y" || value == "1")
    }

    /// The device at an address; `None` if there is none.
    pub fn device(&self, address: Address) -> Option<PciDevice> {
        let folder = self.folder(address);
        let class = hexadecimal(&folder.join("class"))?;
        let (interfaces, hidden_interface) = interfaces(&folder);
        let group = folder.join("iommu_group");
        let number = link_name(&group).and_then(|name| name.parse().ok());
        Some(PciDevice {
            address,
            vendor: hexadecimal(&folder.join("vendor"))? as u16,
            device: hexadecimal(&folder.join("device"))? as u16,
            class,
            driver: self.driver(address),
            driver_override: self.driver_override(address),
            interfaces,
            hidden_interface,
            iommu_group: number,
            noiommu: text(&group.join("name")).is_some_and(|name| name == "vfio-noiommu"),
            group_members: if number.is_some() { self.group_members(address, &group) } else { Vec::new() },
            // -1 stands for none.
            numa_node: text(&folder.join("numa_node")).and_then(|node| node.parse().ok()),
            virtual_functions: text(&folder.join("sriov_numvfs")).and_then(|count| count.parse().ok()).unwrap_or(0),
        })
    }

    fn folder(&self, address: Address) -> PathBuf {
        self.root.join("bus/pci/devices").join(address.to_string())
    }

    fn driver(&self, address: Address) -> Option<String> {
        link_name(&self.folder(address).join("driver"))
    }

    fn driver_override(&self, address: Address) -> String {
        let text = text(&self.folder(address).join("driver_override")).unwrap_or_default();
        // The kernel prints a null pointer so.
        if text == "(null)" { String::new() } else { text }
    }

    fn group_members(&self, address: Address, group: &Path) -> Vec<GroupMember> {
        let others = names_in(&group.join("devices")).into_iter().filter_map(|name| name.parse().ok());
        let mut others: Vec<Address> = others.filter(|other| *other != address).collect();
        others.sort_unstable();
        let class = |address| hexadecimal(&self.folder(address).join("class")).unwrap_or(0);
        let member = |address| GroupMember {
            address,
            driver: self.driver(address),
            bridge: class(address) >> 8 == CLASS_PCI_BRIDGE,
        };
        others.into_iter().map(member).collect()
    }
}

impl PciDevice {
    fn is_network_card(&self) -> bool {
        (self.class >> 16) as u8 == CLASS_NETWORK
    }
}

/// The interfaces below a device's folder, and whether there are others that are not shown. Those of virtio are one folder further down.
fn interfaces(folder: &Path) -> (Vec<PciInterface>, bool) {
    let below = names_in(folder).into_iter().filter(|name| name.starts_with("virtio"));
    let folders = std::iter::once(folder.join("net")).chain(below.map(|name| folder.join(name).join("net")));
    let (mut found, mut hidden) = (Vec::new(), false);
    for folder in folders.filter(|folder| folder.is_dir()) {
        let names = names_in(&folder);
        // The kernel removes the folder with the last interface, and shows only those of one namespace.
        hidden |= names.is_empty();
        found.extend(names.into_iter().map(|name| interface(&folder.join(&name), name)));
    }
    (found, hidden)
}

fn interface(folder: &Path, name: String) -> PciInterface {
    let flags = hexadecimal(&folder.join("flags")).unwrap_or(0);
    let above = |entry: String| entry.strip_prefix("upper_").map(str::to_owned);
    PciInterface {
        name,
        index: text(&folder.join("ifindex")).and_then(|index| index.parse().ok()).unwrap_or(0),
        up: flags & libc::IFF_UP as u32 != 0,
        link: text(&folder.join("carrier")).map(|carrier| carrier == "1"),
        uppers: names_in(folder).into_iter().filter_map(above).collect(),
    }
}

/// The names in a folder, sorted, without those that cannot be names of the kernel's. A folder that cannot be read has none.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_clean(name)).collect();
    names.sort_unstable();
    names
}

/// The last part of a link's target.
fn link_name(path: &Path) -> Option<String> {
    let target = std::fs::read_link(path).ok()?;
    target.file_name()?.to_str().filter(|name| is_clean(name)).map(str::to_owned)
}

/// A file's text without white space around it; `None` if it cannot be read, is long, or would disturb a terminal.
fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(TEXT_LEN_MAX).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?.trim().to_owned();
    is_clean(&text).then_some(text)
}

fn is_clean(text: &str) -> bool {
    text.len() < 256 && !text.chars().any(char::is_control)
}

fn hexadecimal(path: &Path) -> Option<u32> {
    u32::from_str_radix(text(path)?.strip_prefix("0x")?, 16).ok()
}
