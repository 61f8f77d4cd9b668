//! Which capabilities this process has, and what each lets Linerate do (capabilities(7)).
//!
//! Read from `CapEff` in `/proc/thread-self/status` (proc(5)). A capability held in a user namespace
//! counts only for what that namespace owns, so [`Capabilities::in_initial_user_namespace`] is part
//! of the answer.

use std::fmt;
use std::fs;
use std::io;

/// A capability that some part of Linerate needs. The value is its bit (linux/capability.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// Interfaces, addresses, routes, offloads, attaching XDP programs.
    NetAdmin = 12,
    /// AF_PACKET and AF_XDP sockets.
    NetRaw = 13,
    /// Locking memory beyond RLIMIT_MEMLOCK.
    IpcLock = 14,
    /// Making namespaces, mounting.
    SysAdmin = 21,
    /// Pinning kernel threads, real-time priorities.
    SysNice = 23,
    /// Raising hard resource limits.
    SysResource = 24,
    /// Performance counters and tracepoints of the whole machine.
    Perfmon = 38,
    /// Loading BPF programs.
    Bpf = 39,
}

impl Capability {
    /// Every capability that Linerate asks about.
    pub const ALL: [Self; 8] = [
        Self::NetAdmin,
        Self::NetRaw,
        Self::IpcLock,
        Self::SysAdmin,
        Self::SysNice,
        Self::SysResource,
        Self::Perfmon,
        Self::Bpf,
    ];

    /// The kernel's name, `CAP_NET_RAW` for one.
    pub fn name(self) -> &'static str {
        match self {
            Self::NetAdmin => "CAP_NET_ADMIN",
            Self::NetRaw => "CAP_NET_RAW",
            Self::IpcLock => "CAP_IPC_LOCK",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::SysNice => "CAP_SYS_NICE",
            Self::SysResource => "CAP_SYS_RESOURCE",
            Self::Perfmon => "CAP_PERFMON",
            Self::Bpf => "CAP_BPF",
        }
    }

    /// What it is needed for here, in words.
    pub fn needed_for(self) -> &'static str {
        match self {
            Self::NetAdmin => "configuring interfaces, routes and offloads, attaching XDP programs",
            Self::NetRaw => "opening AF_PACKET and AF_XDP sockets",
            Self::IpcLock => "locking packet memory beyond RLIMIT_MEMLOCK",
            Self::SysAdmin => "making network namespaces",
            Self::SysNice => "pinning a DUT's kernel thread to a core",
            Self::SysResource => "raising hard resource limits",
            Self::Perfmon => "hardware counters and drop tracepoints of the whole machine",
            Self::Bpf => "loading BPF programs",
        }
    }
}

/// The effective capabilities of the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    effective: u64,
    initial_user_namespace: bool,
}

impl Capabilities {
    /// Reads those of the calling thread.
    ///
    /// # Errors
    /// When `/proc` is not mounted or not of the known form.
    pub fn read() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/thread-self/status")?;
        let effective = parse_effective(&status)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no CapEff in /proc/self/status"))?;
        let uid_map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Ok(Self { effective, initial_user_namespace: is_identity_map(&uid_map) })
    }

    /// Whether `capability` is effective, in whichever user namespace this process is.
    pub fn has(&self, capability: Capability) -> bool {
        self.effective & (1 << capability as u8) != 0
    }

    /// Whether `capability` counts for the machine and not only inside a user namespace.
    pub fn has_for_host(&self, capability: Capability) -> bool {
        self.initial_user_namespace && self.has(capability)
    }

    /// Whether this process is in the initial user namespace (judged by its identity uid map).
    pub fn in_initial_user_namespace(&self) -> bool {
        self.initial_user_namespace
    }

    /// The capabilities of [`Capability::ALL`] that are missing.
    pub fn missing(&self) -> Vec<Capability> {
        let missing = |capability: &Capability| !self.has(*capability);
        Capability::ALL.into_iter().filter(missing).collect()
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held: Vec<&str> =
            Capability::ALL.into_iter().filter(|capability| self.has(*capability)).map(Capability::name).collect();
        match held.as_slice() {
            [] => f.write_str("no capabilities")?,
            held => f.write_str(&held.join(" "))?,
        }
        if !self.initial_user_namespace {
            f.write_str(" (inside a user namespace)")?;
        }
        Ok(())
    }
}

fn parse_effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn is_identity_map(uid_map: &str) -> bool {
    let mut fields = uid_map.split_whitespace();
    fields.next() == Some("0") && fields.next() == Some("0") && fields.next() == Some("4294967295")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_line_is_read() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000003000\n";
        let effective = parse_effective(status).expect("CapEff");
        let mut capabilities = Capabilities { effective, initial_user_namespace: true };
        assert!(capabilities.has(Capability::NetAdmin) && capabilities.has(Capability::NetRaw));
        assert!(!capabilities.has(Capability::Bpf));
        assert_eq!(capabilities.missing().len(), 6);
        assert_eq!(capabilities.to_string(), "CAP_NET_ADMIN CAP_NET_RAW");
        capabilities.initial_user_namespace = false;
        assert!(!capabilities.has_for_host(Capability::NetAdmin));
        assert_eq!(parse_effective("Name:\tx\n"), None);
    }

    #[test]
    fn only_the_whole_identity_map_is_the_initial_namespace() {
        assert!(is_identity_map("         0          0 4294967295\n"));
        assert!(!is_identity_map("         0       1000          1\n"));
        assert!(!is_identity_map(""));
    }

    #[test]
    fn this_process_can_be_read() {
        assert!(Capabilities::read().is_ok());
    }
}
