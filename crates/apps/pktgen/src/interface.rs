//! Interface names of `-i`: those of the original, mapped to Linerate's port names; and every port name of Linerate as it is.
//!
//! | `-i` | port |
//! |---|---|
//! | `ix0` | the interface: by netmap if this kernel has it, else by the fastest backend that works there |
//! | `netmap:NAME` | a port of netmap, if this kernel has it; else `netmap:ix0` is `ix0`, and `netmap:ix0-3` its queue 3: `ix0@3` |
//! | `null` | `null:` |
//! | `tap:X`, `tap0` | `tap:X`, `tap:tap0` |
//! | `vale0:a` | port a of the software switch vale0, which is started if it does not run |
//! | `pcap:X`, `file:F`, `xdp:X`, ... | as they are |
//!
//! What only netmap's kernel module has (host rings, pipes, monitors, the kernel's switch as `netmap:vale0:a`) is refused where the kernel
//! has none, with what to use instead.

use linerate_port::{FarSide, OpenError, PortSpec};
use linerate_switch::vale::ValeName;
use linerate_wire::MacAddress;

/// Where packets go or come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// As the user wrote it.
    pub text: String,
    /// The port that it means.
    pub spec: PortSpec,
}

/// What is wrong with a name, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceError {
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub cure: String,
}

impl Interface {
    /// Finds the port that a name means. Whether it exists shows when it is opened.
    pub fn parse(text: &str) -> Result<Interface, InterfaceError> {
        Interface::parse_for(text, linerate_ports::has_netmap())
    }

    /// As [`Interface::parse`], for a kernel that has netmap or not.
    fn parse_for(text: &str, has_netmap: bool) -> Result<Interface, InterfaceError> {
        let spec = port_name(text, has_netmap)?;
        let spec: PortSpec = spec.parse().map_err(|error: linerate_port::SpecError| InterfaceError {
            problem: error.to_string(),
            cure: "name an interface or a port, as eth1, packet:eth1 or null:".into(),
        })?;
        Ok(Interface { text: text.into(), spec })
    }

    /// A port of a software switch, which has to be attached before it can be opened.
    pub fn is_vale(&self) -> bool {
        ValeName::parse(&self.text).is_some()
    }

    /// The address of a port of a software switch, which has none of an interface: made of the names of both, so that two ports of a
    /// switch differ and a port's is the same each time. Locally administered (IEEE 802, clause 8.4).
    pub fn vale_mac(&self) -> Option<MacAddress> {
        let Some(Ok(ValeName { switch, port, .. })) = ValeName::parse(&self.text) else { return None };
        // FNV-1a; its upper half depends on every letter.
        let name = format!("{switch}:{port}");
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Some(MacAddress::from_u64(0x0200_0000_0000 | hash >> 24))
    }

    /// Attaches the port to its software switch, where the name is of that kind; once, right before it is opened.
    ///
    /// # Errors
    /// The switch cannot be had, or the port is in use.
    pub fn attach(&mut self) -> Result<(), OpenError> {
        if self.is_vale() {
            let spec = linerate_console::open::attached(&self.text)?;
            self.spec =
                spec.parse().map_err(|error: linerate_port::SpecError| OpenError::new(&spec, error.problem, ""))?;
        }
        Ok(())
    }

    /// False for ports that are ready at once, so that waiting for a link (`-w`) is of no use unless asked for.
    pub fn has_link(&self) -> bool {
        linerate_ports::far_side(&self.spec) == FarSide::Interface && !self.is_vale()
    }
}

fn port_name(text: &str, has_netmap: bool) -> Result<String, InterfaceError> {
    if text.is_empty() {
        return Err(error("the name is empty".into(), "name an interface, as -i eth1"));
    }
    match text.strip_prefix("netmap:") {
        Some(_) if has_netmap => return Ok(text.into()),
        Some(name) => return netmap_name(name),
        None if has_netmap && is_interface(text) => return Ok(format!("netmap:{text}")),
        None => {}
    }
    if let Some(Err(wrong)) = ValeName::parse(text) {
        return Err(error(format!("{text}: {}", wrong.cause), &wrong.hint));
    }
    Ok(match text {
        "null" => "null:".into(),
        _ if is_tap(text) => format!("tap:{text}"),
        _ => text.into(),
    })
}

/// True for the name of an interface that there is, without options.
fn is_interface(text: &str) -> bool {
    !text.contains([':', ',', '@']) && !is_tap(text) && linerate_sys::netdev::Netdev::open(text).is_ok()
}

/// `tap`, `tap0`, `tap17`: the names that the original opens as TAP devices.
fn is_tap(text: &str) -> bool {
    text.strip_prefix("tap").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A netmap port name: an interface, then possibly `-N` for one ring, or marks for what only netmap has.
fn netmap_name(name: &str) -> Result<String, InterfaceError> {
    let end = name.find(['-', '*', '^', '{', '}', '/', '@']).unwrap_or(name.len());
    let (interface, rest) = name.split_at(end);
    if interface.contains(':') {
        let what = format!("netmap:{name}: the kernel's switches are part of netmap's module, which is not loaded");
        return Err(error(
            what,
            &format!("write {name} for a port of Linerate's own switch, or load the module (docs/netmap.md)"),
        ));
    }
    if interface.is_empty() {
        return Err(error("netmap: names no interface".into(), "name one, as -i netmap:eth1"));
    }
    match rest.strip_prefix('-').map(str::parse::<u32>) {
        Some(Ok(queue)) => return Ok(format!("{interface}@{queue}")),
        None if rest.is_empty() => return Ok(interface.into()),
        _ => {}
    }
    let what = match rest.chars().next() {
        Some('-') => "a ring is a number",
        Some('*' | '^') => "host rings exist only in netmap's kernel module, which is not loaded",
        Some('{' | '}') => "pipes of netmap exist only in its kernel module, which is not loaded",
        Some('@') => "memory allocators exist only in netmap's kernel module, which is not loaded",
        _ => "flags behind / exist only in netmap's kernel module, which is not loaded",
    };
    let cure = format!("write netmap:{interface}, or netmap:{interface}-0 for one queue");
    Err(error(format!("netmap:{name}: {what}"), &cure))
}

fn error(problem: String, cure: &str) -> InterfaceError {
    InterfaceError { problem, cure: cure.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_the_original_become_ports() {
        for (text, backend, target, queue) in [
            ("ix1", None, "ix1", None),
            ("netmap:ix1", None, "ix1", None),
            ("netmap:ix1-3", None, "ix1", Some(3)),
            ("ix1@3", None, "ix1", Some(3)),
            ("veth-a", None, "veth-a", None),
            ("valentine", None, "valentine", None),
            ("null", Some("null"), "", None),
            ("null:", Some("null"), "", None),
            ("tap:x", Some("tap"), "x", None),
            ("tap0", Some("tap"), "tap0", None),
            ("tapestry", None, "tapestry", None),
            ("pcap:eth1", Some("pcap"), "eth1", None),
            ("file:a.pcap", Some("file"), "a.pcap", None),
            ("xdplive:eth1", Some("xdplive"), "eth1", None),
            ("pipe:a", Some("pipe"), "a", None),
            ("vale0:a", Some("vale0"), "a", None),
        ] {
            let interface = Interface::parse_for(text, false).expect(text);
            assert_eq!(
                (interface.spec.backend.as_deref(), interface.spec.target.as_str(), interface.spec.options.first_queue),
                (backend, target, queue)
            );
            assert_eq!(interface.text, text);
        }
    }

    #[test]
    fn where_the_kernel_has_netmap_its_names_are_its_own() {
        for (text, name) in [
            ("netmap:ix1", "netmap:ix1"),
            ("netmap:ix1-3", "netmap:ix1-3"),
            ("netmap:ix1^", "netmap:ix1^"),
            ("netmap:vale0:a{2", "netmap:vale0:a{2"),
            ("lo", "netmap:lo"),
            ("no-such-if", "no-such-if"),
            ("lo@0", "lo@0"),
            ("vale0:a", "vale0:a"),
            ("tap0", "tap:tap0"),
        ] {
            let interface = Interface::parse_for(text, true).expect(text);
            assert_eq!((interface.spec.to_string(), interface.text.as_str()), (name.into(), text));
        }
        assert_eq!(Interface::parse_for("lo", false).expect("lo").spec.to_string(), "lo");
    }

    #[test]
    fn what_only_netmap_has_is_refused() {
        for text in [
            "",
            "vale0:",
            "valeS:P{1",
            "vale0:eth0^",
            "netmap:",
            "netmap:-1",
            "netmap:ix0^",
            "netmap:ix0*",
            "netmap:ix0-x",
            "netmap:vale0:a",
        ] {
            assert!(!Interface::parse_for(text, false).expect_err(text).cure.is_empty());
        }
        for text in ["netmap:ix0{3", "netmap:ix0/T", "netmap:ix0@2", "xdp:ix0@a", "eth0,,"] {
            assert!(!Interface::parse_for(text, false).expect_err(text).cure.is_empty());
        }
    }

    #[test]
    fn only_what_has_a_link_waits_for_one() {
        assert!(Interface::parse("ix0").expect("ix0").has_link());
        assert!(!Interface::parse("null").expect("null").has_link());
        assert!(!Interface::parse("vale0:a").expect("vale").has_link());
    }

    #[test]
    fn ports_of_a_switch_have_addresses_of_their_own() {
        let mac = |text: &str| Interface::parse(text).expect(text).vale_mac();
        let names: Vec<String> = (0..1000).map(|number| format!("vale0:p{number}")).collect();
        let mut macs: Vec<_> = names.iter().filter_map(|name| mac(name)).collect();
        assert!(macs.len() == 1000 && macs.iter().all(|mac| mac.0[0] == 2));
        macs.sort();
        macs.dedup();
        assert_eq!(macs.len(), 1000);
        assert_eq!(mac("vale0:a"), mac("vale0:a,slots=256"));
        assert!(mac("vale0:a") != mac("vale1:a") && mac("eth1").is_none() && mac("memif:/x").is_none());
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,40}") {
            let _ = Interface::parse(&text);
        }
    }
}
