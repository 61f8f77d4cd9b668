//! The bits of the field IPV6_EXTHDR (section 7.2.3.7, `ofp_ipv6exthdr_flags`).

use linerate_wire::Protocol;

/// "No next header".
const NO_NEXT: u16 = 1 << 0;
/// Encapsulating security payload.
const ESP: u16 = 1 << 1;
/// Authentication.
const AUTH: u16 = 1 << 2;
/// Destination options.
const DEST: u16 = 1 << 3;
/// Fragment.
const FRAG: u16 = 1 << 4;
/// Routing.
const ROUTER: u16 = 1 << 5;
/// Hop-by-hop options, which come first.
const HOP: u16 = 1 << 6;
/// A header came more often than expected: destination options more than twice, another more than once.
const REPEATED: u16 = 1 << 7;
/// Headers came in another order than the one of RFC 8200 section 4.1.
const OUT_OF_ORDER: u16 = 1 << 8;

/// The extension headers that were seen so far.
#[derive(Default)]
pub struct Seen {
    bits: u16,
    /// The kinds so far; other than `bits` they have hop-by-hop options that were not the first header.
    kinds: u16,
    /// Destination options so far.
    destinations: u32,
    /// Place of the last header in the order of RFC 8200.
    reached: u32,
}

impl Seen {
    /// Notes the next header; one of an upper layer changes nothing.
    pub fn note(&mut self, header: Protocol) {
        let (bit, place) = match header {
            Protocol::HOP_BY_HOP => (HOP, 0),
            // Destination options come before a routing header, or last.
            Protocol::DESTINATION_OPTIONS if self.destinations == 0 && self.reached <= 1 => (DEST, 1),
            Protocol::DESTINATION_OPTIONS => (DEST, 6),
            Protocol::ROUTING => (ROUTER, 2),
            Protocol::FRAGMENT => (FRAG, 3),
            Protocol::AUTHENTICATION => (AUTH, 4),
            Protocol::ESP => (ESP, 5),
            Protocol::NO_NEXT_HEADER => (NO_NEXT, 7),
            _ => return,
        };
        let is_repeated = if bit == DEST { self.destinations >= 2 } else { self.kinds & bit != 0 };
        // Hop-by-hop options that are not the first header do not count as such: they are out of order.
        let is_out_of_order = place < self.reached || bit == HOP && self.kinds != 0;
        let counts = bit != HOP || self.kinds == 0;
        self.bits |= if counts { bit } else { 0 };
        self.bits |= if is_repeated { REPEATED } else { 0 };
        self.bits |= if is_out_of_order { OUT_OF_ORDER } else { 0 };
        self.kinds |= bit;
        self.destinations += u32::from(bit == DEST);
        self.reached = self.reached.max(place);
    }

    /// The field.
    pub fn bits(&self) -> u16 {
        self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(headers: &[u8]) -> u16 {
        let mut seen = Seen::default();
        headers.iter().for_each(|header| seen.note(Protocol(*header)));
        seen.bits()
    }

    #[test]
    fn order_and_repeats_are_judged_as_the_specification_says() {
        // Hop-by-hop, destination, routing, fragment, authentication, ESP: the preferred order.
        assert_eq!(bits(&[0, 60, 43, 44, 51, 50]), HOP | DEST | ROUTER | FRAG | AUTH | ESP);
        assert_eq!(bits(&[0, 51, 6]), 68, "the conformance suite's hop-by-hop and authentication");
        assert_eq!(bits(&[60, 43, 60, 17]), DEST | ROUTER);
        assert_eq!(bits(&[44, 60, 59]), FRAG | DEST | NO_NEXT);
        assert_eq!(bits(&[60, 0, 6]), DEST | OUT_OF_ORDER, "hop-by-hop options count only if they come first");
        assert_eq!(bits(&[0, 0, 6]), HOP | REPEATED | OUT_OF_ORDER);
        assert_eq!(bits(&[60, 0, 0]), DEST | REPEATED | OUT_OF_ORDER);
        assert_eq!(bits(&[43, 43]), ROUTER | REPEATED);
        assert_eq!(bits(&[51, 44]), AUTH | FRAG | OUT_OF_ORDER);
        assert_eq!(bits(&[60, 60, 60]), DEST | REPEATED);
        assert_eq!(bits(&[60, 60, 43]), DEST | ROUTER | OUT_OF_ORDER);
        assert_eq!((bits(&[]), bits(&[6]), bits(&[59])), (0, 0, NO_NEXT));
    }
}
