//! `a_next_hop` and `b_next_hop` in `[topology]`: to whom frames are addressed where the path is not of the lab's making.

use std::net::IpAddr;

use toml::de::DeValue;

use crate::NextHop;
use crate::section::{self, Section};

const EXPECTED: &str =
    "expected an Ethernet address as \"02:00:00:00:00:01\", or { gateway = \"198.18.0.1\", own = \"198.18.0.2\" }";

pub(crate) fn read(table: &Section<'_>, key: &'static str) -> NextHop {
    let Some(value) = table.value(key) else { return NextHop::OtherEnd };
    let found = match value.get_ref() {
        DeValue::String(text) => match mac(text) {
            Some(mac) if mac[0] & 1 == 0 && mac != [0; 6] => Some(NextHop::Mac(mac)),
            Some(_) => table
                .log
                .refuse(value.span(), format!("`{key}` is {text:?}, which is no single station's address; {EXPECTED}")),
            None => table.log.refuse(value.span(), format!("`{key}` is {text:?}; {EXPECTED}")),
        },
        DeValue::Table(_) => Section::of(value, key, table.log).and_then(|gateway| of_gateway(&gateway)),
        _ => table.log.refuse(value.span(), format!("`{key}` is {}; {EXPECTED}", section::kind(value))),
    };
    found.unwrap_or(NextHop::OtherEnd)
}

fn of_gateway(table: &Section<'_>) -> Option<NextHop> {
    let (gateway, own) = (address(table, "gateway", "\"198.18.0.1\""), address(table, "own", "\"198.18.0.2\""));
    table.finish();
    let (gateway, own) = (gateway?, own?);
    if gateway.is_ipv4() != own.is_ipv4() {
        table.error("own", "`gateway` and `own` are of two families; expected two IPv4 or two IPv6 addresses");
        return None;
    }
    if gateway == own {
        table.error("own", format!("`own` and `gateway` are both {own}; expected our own address on this link"));
        return None;
    }
    Some(NextHop::Gateway { own, gateway })
}

fn address(table: &Section<'_>, key: &'static str, example: &str) -> Option<IpAddr> {
    let text = table.needed(key, example).and_then(|value| section::text(value, key, table.log))?;
    let is_station = |address: &IpAddr| !address.is_unspecified() && !address.is_multicast() && !address.is_loopback();
    let address = text.parse().ok().filter(is_station);
    if address.is_none() {
        table.error(key, format!("`{key}` is {text:?}; expected the address of a station, as {example}"));
    }
    address
}

/// Six pairs of hex digits between colons.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part =
            parts.next().filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}
