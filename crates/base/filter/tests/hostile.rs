//! Filters and programs that were tampered with: the body of the fuzz target, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/filter.rs"]
mod filter;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

use linerate_filter::{Tags, compile};

const TEXTS: [&str; 6] = [
    "tcp port 80 or 443 and not host 10.0.0.1",
    "vlan 5 and (udp dst portrange 1000-2000 or ip6 net 2001:db8::/32)",
    "ether host 02:00:00:00:00:01 && !arp",
    "src and dst net 10.0.0.0 mask 255.0.0.0 || ip proto \\udp",
    "greater 100 and less 0x200 or ether multicast",
    "port (80 or not 81) and ether proto 0x88cc",
];

/// The texts, and their programs.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = TEXTS.iter().map(|text| text.as_bytes().to_vec()).collect();
    for text in TEXTS {
        let program = compile(text, Tags::InPacket, 96).unwrap();
        let bytes = program.instructions().iter().flat_map(|instruction| {
            let [a, b] = instruction.code.to_le_bytes();
            let [c, d, e, f] = instruction.k.to_le_bytes();
            [a, b, instruction.jt, instruction.jf, c, d, e, f]
        });
        seeds.push(bytes.collect());
    }
    seeds
}

#[test]
fn no_text_and_no_program_breaks_the_filter() {
    mutate::check_seeds("filter", &seeds());
    mutate::each(&seeds(), 20_000, filter::run);
}
