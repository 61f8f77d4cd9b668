//! Body of the fuzz target `pkt_gen`: any text as a range, as an interface name and as a command line of `pkt-gen`. Also run by
//! the tests of `linerate`.

use linerate_pktgen::interface::Interface;
use linerate_pktgen::parse::{Request, parse};
use linerate_pktgen::ranges::{EndpointRange, Family};

/// Reads the bytes as each of them; what is taken means what it shows, what is refused says what to write instead.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for family in [Family::V4, Family::V6] {
        match EndpointRange::parse(text, family) {
            Ok(range) => {
                assert!(range.first_address() <= range.last_address());
                assert!((1..=1 << 32).contains(&range.address_count()) && (1..=1 << 16).contains(&range.port_count()));
                let shown = range.to_string().replace(" to ", "-");
                assert_eq!(EndpointRange::parse(&shown, family).as_ref(), Ok(&range));
            }
            Err(error) => assert!(!error.problem.is_empty() && !error.cure.is_empty()),
        }
    }
    if let Err(error) = Interface::parse(text) {
        assert!(!error.problem.is_empty() && !error.cure.is_empty());
    }
    let words: Vec<String> = text.split_whitespace().map(str::to_string).collect();
    match parse(&words) {
        Ok(Request::Run(options)) => assert!(options.threads > 0 && options.burst > 0 && options.fragments > 0),
        Ok(Request::Help) => {}
        Err(error) => assert!(!error.problem.is_empty() && !error.cure.is_empty()),
    }
}
