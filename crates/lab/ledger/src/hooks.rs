//! Which netfilter hooks of a namespace have nftables chains (linux/netfilter/nf_tables.h).
//!
//! A rule without a `counter` leaves no number when it drops a packet, and no MIB counter moves. Knowing which hooks are in
//! use is what lets the ledger name netfilter for packets that vanished between two points of the stack.

use std::io;

use linerate_experiment::IpVersion;
use linerate_sys::netlink::{Attributes, Body, DUMP, Netlink};
use linerate_sys::netns::NetNs;

const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_GETCHAIN: u16 = 4;
/// struct nfgenmsg: family, version, resource.
const NFGENMSG_LEN: usize = 4;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_NETDEV: u8 = 5;
const NFPROTO_IPV6: u8 = 10;
/// NF_INET_INGRESS, which the inet family has beside the five of IPv4.
const INET_INGRESS: u32 = 5;

/// A point of the path at which chains are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// On an interface, before IP.
    Ingress,
    /// Before routing.
    Prerouting,
    /// For packets to the host itself.
    Input,
    /// For packets that are forwarded.
    Forward,
    /// For packets of the host itself.
    Output,
    /// After routing.
    Postrouting,
    /// On an interface, after IP.
    Egress,
}

impl Hook {
    /// Every one of them.
    pub const ALL: [Hook; 7] =
        [Hook::Ingress, Hook::Prerouting, Hook::Input, Hook::Forward, Hook::Output, Hook::Postrouting, Hook::Egress];
}

/// A base chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Where it is called.
    pub hook: Hook,
    /// Its table and name: `filter forward`.
    pub name: String,
    /// The version of IP whose packets alone it is called for.
    pub only: Option<IpVersion>,
}

impl Chain {
    /// Whether packets of that version of IP meet it.
    pub fn meets(&self, version: IpVersion) -> bool {
        self.only.is_none_or(|only| only == version)
    }
}

/// The base chains that IP packets can meet.
#[derive(Debug)]
pub struct HookReader {
    netlink: Netlink,
}

impl HookReader {
    /// A reader for `namespace`.
    ///
    /// # Errors
    /// When the kernel has no nfnetlink.
    pub fn open(namespace: &NetNs) -> io::Result<Self> {
        Ok(Self { netlink: Netlink::open_in(namespace, libc::NETLINK_NETFILTER)? })
    }

    /// The chains there are now; none on a kernel without nftables.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN over the namespace.
    pub fn chains(&mut self) -> io::Result<Vec<Chain>> {
        let kind = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN;
        match self.netlink.exchange(kind, DUMP, &Body::new(&[0; NFGENMSG_LEN])) {
            Ok(answers) => Ok(answers.iter().filter_map(|answer| chain_of(answer)).collect()),
            // EINVAL, EOPNOTSUPP: nfnetlink without nftables.
            Err(error) if [Some(libc::EINVAL), Some(libc::EOPNOTSUPP)].contains(&error.raw_os_error()) => {
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }
}

fn chain_of(answer: &[u8]) -> Option<Chain> {
    let family = *answer.first()?;
    let attributes = Attributes::behind(NFGENMSG_LEN, answer);
    let number = attributes.nested(NFTA_CHAIN_HOOK)?.u32_be(NFTA_HOOK_HOOKNUM)?;
    let hook = match (family, number) {
        (NFPROTO_NETDEV, 0) | (NFPROTO_INET, INET_INGRESS) => Hook::Ingress,
        (NFPROTO_NETDEV, 1) => Hook::Egress,
        (NFPROTO_IPV4 | NFPROTO_IPV6 | NFPROTO_INET, 0) => Hook::Prerouting,
        (NFPROTO_IPV4 | NFPROTO_IPV6 | NFPROTO_INET, 1) => Hook::Input,
        (NFPROTO_IPV4 | NFPROTO_IPV6 | NFPROTO_INET, 2) => Hook::Forward,
        (NFPROTO_IPV4 | NFPROTO_IPV6 | NFPROTO_INET, 3) => Hook::Output,
        (NFPROTO_IPV4 | NFPROTO_IPV6 | NFPROTO_INET, 4) => Hook::Postrouting,
        _ => return None,
    };
    let only = match family {
        NFPROTO_IPV4 => Some(IpVersion::V4),
        NFPROTO_IPV6 => Some(IpVersion::V6),
        _ => None,
    };
    let name = format!("{} {}", attributes.text(NFTA_CHAIN_TABLE)?, attributes.text(NFTA_CHAIN_NAME)?);
    Some(Chain { hook, name, only })
}

#[cfg(test)]
mod tests {
    use super::*;
    fn answer(family: u8, hook: u32) -> Vec<u8> {
        let number = Body::default().with(NFTA_HOOK_HOOKNUM, &hook.to_be_bytes());
        let body = Body::new(&[family, 0, 0, 0]).with_text(NFTA_CHAIN_TABLE, "filter").with_text(NFTA_CHAIN_NAME, "f");
        body.with_body(NFTA_CHAIN_HOOK, number).bytes().to_vec()
    }

    #[test]
    fn a_hook_number_means_what_its_family_says() {
        let chain = chain_of(&answer(NFPROTO_IPV4, 2)).expect("a base chain");
        assert_eq!(chain, Chain { hook: Hook::Forward, name: "filter f".to_owned(), only: Some(IpVersion::V4) });
        assert_eq!(chain_of(&answer(NFPROTO_NETDEV, 0)).map(|chain| chain.hook), Some(Hook::Ingress));
        assert_eq!(chain_of(&answer(NFPROTO_INET, 5)).map(|chain| chain.hook), Some(Hook::Ingress));
        let versions = |family| {
            let chain = chain_of(&answer(family, 2)).expect("a base chain");
            [IpVersion::V4, IpVersion::V6].map(|version| chain.meets(version))
        };
        assert_eq!([NFPROTO_IPV4, NFPROTO_IPV6, NFPROTO_INET].map(versions), [[true, false], [false, true], [true; 2]]);
        assert_eq!(chain_of(&answer(NFPROTO_IPV4, 2)[..12]), None, "a chain without a hook is no base chain");
    }

    #[test]
    fn a_new_namespace_has_no_chains() {
        let namespace = match NetNs::anonymous() {
            Ok(namespace) => namespace,
            Err(error) => return eprintln!("skipped: no network namespace: {error}"),
        };
        match HookReader::open(&namespace).and_then(|mut reader| reader.chains()) {
            Ok(chains) => assert_eq!(chains, []),
            Err(error) => eprintln!("skipped: no nfnetlink: {error}"),
        }
    }
}
