//! Names of vendors and devices, from the file `pci.ids` of the PCI ID Project where the machine has it (package `pci.ids` or `hwdata`).

use std::fs::File;
use std::io::Read;

/// Where distributions put the file.
const FILES: [&str; 3] = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids"];
/// Longest file that is read, in bytes; it has 1.5 MB.
const LEN_MAX: u64 = 16 << 20;
/// Longest name that is shown, in characters.
const NAME_LEN_MAX: usize = 80;

/// Names by number. Without the file, no number has one.
#[derive(Debug, Default)]
pub struct Names(String);

impl Names {
    /// The names that this machine knows.
    pub fn of_this_machine() -> Names {
        let mut text = Vec::new();
        let file = FILES.iter().find_map(|path| File::open(path).ok());
        let read = file.and_then(|file| file.take(LEN_MAX).read_to_end(&mut text).ok());
        Names(read.map(|_| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default())
    }

    /// The name of a vendor, and of one of its devices.
    pub fn find(&self, vendor: u16, device: u16) -> (Option<String>, Option<String>) {
        let mut lines = self.0.lines();
        let vendor = lines.find_map(|line| name_of(line, vendor));
        // Lines of the vendor begin with one tab, those of subsystems with two.
        let own = lines.take_while(|line| line.starts_with(['\t', '#']) || line.is_empty());
        let device = vendor
            .as_ref()
            .and_then(|_| own.filter_map(|line| line.strip_prefix('\t')).find_map(|line| name_of(line, device)));
        (vendor, device)
    }
}

/// The name on a line `NUMBER  NAME`, if the number is this one.
fn name_of(line: &str, number: u16) -> Option<String> {
    let (digits, name) = line.split_once("  ")?;
    let found = digits.len() == 4 && u16::from_str_radix(digits, 16).ok() == Some(number);
    let clean = |name: &str| name.trim().chars().filter(|c| !c.is_control()).take(NAME_LEN_MAX).collect();
    found.then(|| clean(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_vendor_and_device() {
        let text = "# comment\n1af4  Red Hat, Inc.\n\t1041  Virtio network device\n\t\t1af4 0001  Sub\n8086  Intel\x1b Corporation\n\t1af4  Not a vendor\n\n# more\n\t10d3  82574L\nC 02  Network\n\t1041  wrong\n";
        let names = Names(text.into());
        let found = |vendor, device| {
            let (vendor, device) = names.find(vendor, device);
            (vendor.unwrap_or_default(), device.unwrap_or_default())
        };
        assert_eq!(found(0x1af4, 0x1041), ("Red Hat, Inc.".into(), "Virtio network device".into()));
        assert_eq!(found(0x8086, 0x10d3), ("Intel Corporation".into(), "82574L".into()));
        assert_eq!(found(0x8086, 0x1041), ("Intel Corporation".into(), String::new()));
        assert_eq!(found(0x1041, 0x1041), (String::new(), String::new()));
        assert_eq!(Names::default().find(0x1af4, 0x1041), (None, None));
    }
}
