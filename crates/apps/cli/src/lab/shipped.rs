//! The experiments that come with the program.

/// Name and text of each, the quickest first.
pub const SHIPPED: [(&str, &str); 12] = [
    ("quick", include_str!("../../../../../experiments/quick.toml")),
    ("linux-router-2019", include_str!("../../../../../experiments/linux-router-2019.toml")),
    ("switch-compare", include_str!("../../../../../experiments/switch-compare.toml")),
    ("netmap-bpf-2013", include_str!("../../../../../experiments/netmap-bpf-2013.toml")),
    ("bpf-capture-2009", include_str!("../../../../../experiments/bpf-capture-2009.toml")),
    ("lagopus-2014", include_str!("../../../../../experiments/lagopus-2014.toml")),
    ("tcp-2018", include_str!("../../../../../experiments/tcp-2018.toml")),
    ("ledger-causes", include_str!("../../../../../experiments/ledger-causes.toml")),
    ("ledger-causes-ipv6", include_str!("../../../../../experiments/ledger-causes-ipv6.toml")),
    ("quick-dual", include_str!("../../../../../experiments/quick-dual.toml")),
    ("tcp-devices", include_str!("../../../../../experiments/tcp-devices.toml")),
    ("full-rfc2544", include_str!("../../../../../experiments/full-rfc2544.toml")),
];

/// The text of a shipped experiment.
pub fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
