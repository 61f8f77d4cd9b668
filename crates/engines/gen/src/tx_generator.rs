//! A stream reduced to what a small program in a kernel can make by itself ([`linerate_port::GeneratorStream`]).
//!
//! All of the stream or nothing: what cannot be reduced is named, and the generator makes such streams itself.

use linerate_port::{ChecksumFix, FieldRule, FieldRuleKind, GeneratorStream};

use crate::field::{Advance, FieldPlan, Values};
use crate::stream::{Stream, StreamPlan};

/// What a stream has that a program cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a program in the kernel cannot make this stream: {0}")]
pub struct TxGeneratorError(String);

/// Reduces a stream that starts at number `first_sequence`; `rate_pps` of `None` is as fast as possible.
///
/// # Errors
/// What the stream has that a program cannot do.
pub fn reduce_for_tx_generator(
    plan: &StreamPlan,
    first_sequence: u64,
    rate_pps: Option<f64>,
) -> Result<GeneratorStream, TxGeneratorError> {
    let [image] = plan.images.as_slice() else {
        return Err(TxGeneratorError(format!("its packets have {} lengths", plan.images.len())));
    };
    let rules = plan.fields.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
    let covering = |sum: usize| {
        let is_covered = |(_, field): &(usize, &FieldPlan)| field.sums.iter().any(|term| term.sum == sum);
        plan.fields.iter().enumerate().filter(is_covered).map(|(number, _)| number).collect::<Vec<_>>()
    };
    let checksums = image.sums.iter().enumerate().map(|(number, sum)| {
        Ok(ChecksumFix {
            offset: narrow(sum.offset)?,
            rules: covering(number),
            covers_signature: sum.signature.is_some(),
            zero_as_ones: sum.zero_as_ones,
        })
    });
    Ok(GeneratorStream {
        checksums: checksums.collect::<Result<_, TxGeneratorError>>()?,
        template: first_packet(plan, image.bytes.len()),
        rules,
        signature: plan.signature,
        first_sequence,
        gap_ns_fixed: rate_pps.map_or(0, |rate| (1e9 / rate.max(1e-9) * 4_294_967_296.0) as u64),
    })
}

fn first_packet(plan: &StreamPlan, len: usize) -> Vec<u8> {
    let mut packet = vec![0; len];
    Stream::new(plan).write(0, &mut packet, 0);
    packet
}

fn rule(field: &FieldPlan) -> Result<FieldRule, TxGeneratorError> {
    let refuse = |what: &str| TxGeneratorError(format!("the field at byte {} {what}", field.offset));
    let (steps, seed) = match &field.values {
        Values::Range { first, step, count } => (Steps { first: *first, step: *step, count: *count }, None),
        Values::Random { first, step, count, seed } => {
            (Steps { first: *first, step: *step, count: *count }, Some(*seed))
        }
        Values::List(list) => {
            (Steps::of(list).ok_or_else(|| refuse("takes its values from a list without a rule"))?, None)
        }
    };
    let kind = match (seed, field.advance) {
        (Some(seed), _) => FieldRuleKind::Random { seed: (seed ^ (seed >> 32)) as u32 },
        (None, Advance::EachPacket) => FieldRuleKind::Each,
        (None, Advance::WhenPreviousWraps) => FieldRuleKind::Carry,
    };
    let count = u32::try_from(steps.count).map_err(|_| refuse(&format!("has {} values", steps.count)))?;
    let (offset, width) =
        varying_bytes(field, &steps).ok_or_else(|| refuse("varies in more than 4 bytes, or beyond its bits"))?;
    Ok(FieldRule {
        offset: narrow(offset)?,
        width,
        kind,
        first: (steps.first << field.shift | field.constant) as u32 & u32::MAX >> (32 - 8 * u32::from(width)),
        count,
        // Values are cut to the field's width, so a step back is a step modulo 2^32.
        step: (steps.step << field.shift) as u32,
    })
}

/// Values at equal distances.
struct Steps {
    first: u64,
    step: i64,
    count: u64,
}

impl Steps {
    /// The rule behind a list, if it has one.
    fn of(list: &[u64]) -> Option<Steps> {
        let first = *list.first()?;
        let step = list.get(1).map_or(0, |second| second.wrapping_sub(first) as i64);
        let is_even = list.windows(2).all(|pair| pair[0].checked_add_signed(step) == Some(pair[1]));
        is_even.then_some(Steps { first, step, count: list.len() as u64 })
    }

    /// Lowest and highest value; `None` when values wrap.
    fn range(&self, bits: u32) -> Option<(u64, u64)> {
        let last = i128::from(self.first) + i128::from(self.step) * i128::from(self.count.saturating_sub(1));
        let last = u64::try_from(last).ok().filter(|last| bits >= 64 || last >> bits == 0)?;
        Some((self.first.min(last), self.first.max(last)))
    }
}

/// The 1, 2 or 4 bytes of the field that hold all that varies: the place of the first one, and how many.
///
/// Bits beside the value (a priority beside a VLAN id) and the upper bytes of a long field (a MAC address) stay as they are
/// as long as no value reaches into them.
fn varying_bytes(field: &FieldPlan, steps: &Steps) -> Option<(usize, u8)> {
    let whole = field.shift == 0 && field.value_bits as usize == field.width * 8 && matches!(field.width, 1 | 2 | 4);
    if whole {
        return Some((field.offset, field.width as u8));
    }
    let (low, high) = steps.range(field.value_bits)?;
    let varying = (low << field.shift) ^ (high << field.shift);
    let width = [1, 2, 4].into_iter().find(|width| *width <= field.width && varying >> (8 * width) == 0)?;
    // The bits beside the value are written, too, so the bytes taken must hold all of those that share a byte with it.
    let width = if matches!(field.width, 1 | 2 | 4) { field.width } else { width };
    Some((field.offset + field.width - width, width as u8))
}

fn narrow(offset: usize) -> Result<u16, TxGeneratorError> {
    u16::try_from(offset)
        .map_err(|_| TxGeneratorError(format!("byte {offset} is too far from the start of the packet")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rule, Sizes, StreamSpec};
    use linerate_wire::{Stack, ethernet, ipv4, udp, verify_checksums};

    fn spec(rules: Vec<Rule>, signature: Option<u16>) -> StreamSpec {
        let stack = Stack::new()
            .with(ethernet::Header::default())
            .with(ipv4::Header { src: [192, 0, 2, 1].into(), dst: [192, 0, 2, 101].into(), ..Default::default() })
            .with(udp::Header::default());
        StreamSpec { rules, ..StreamSpec::fixed(stack, 60, signature) }
    }

    fn rule(field: &str, values: Values, advance: Advance) -> Rule {
        Rule { field: field.into(), values, advance }
    }

    #[test]
    fn fields_checksums_and_pace_come_over() {
        let sources = Values::Range { first: 0xc000_0201, step: -1, count: 100 };
        let ports = Values::Range { first: 7, step: 2, count: 3 };
        let random = Values::Random { first: 5, step: 1, count: 9, seed: 1 << 32 | 4 };
        let rules = vec![
            rule("ipv4.source", sources, Advance::EachPacket),
            rule("udp.destination", ports, Advance::WhenPreviousWraps),
            rule("ipv4.ttl", random, Advance::EachPacket),
        ];
        let stream =
            reduce_for_tx_generator(&spec(rules, Some(9)).plan().expect("plan"), 1000, Some(1e6)).expect("simple");
        let field = |offset, width, kind, first, count, step| FieldRule { offset, width, kind, first, count, step };
        assert_eq!(
            stream.rules,
            [
                field(26, 4, FieldRuleKind::Each, 0xc000_0201, 100, u32::MAX),
                field(36, 2, FieldRuleKind::Carry, 7, 3, 2),
                field(22, 1, FieldRuleKind::Random { seed: 5 }, 5, 9, 1),
            ]
        );
        let fix = |offset, rules: &[usize], signed| ChecksumFix {
            offset,
            rules: rules.to_vec(),
            covers_signature: signed,
            zero_as_ones: signed,
        };
        assert_eq!(stream.checksums, [fix(24, &[0, 2], false), fix(40, &[0, 1], true)]);
        assert_eq!((stream.signature, stream.first_sequence, stream.gap_ns_fixed), (Some(9), 1000, 1000 << 32));
        verify_checksums(&stream.template).expect("a right packet");
        assert_eq!(stream.template[36..38], [0, 7]);
    }

    #[test]
    fn what_a_program_cannot_do_is_named() {
        let refused = |spec: &StreamSpec| {
            reduce_for_tx_generator(&spec.plan().expect("plan"), 0, None).expect_err("refused").to_string()
        };
        let mut sized = spec(Vec::new(), None);
        (sized.lens, sized.sizes) = (vec![60, 61], Sizes::InTurn { count: 2 });
        assert!(refused(&sized).contains("2 lengths"));
        let list = rule("ipv4.ttl", Values::List(vec![1, 2, 4]), Advance::EachPacket);
        assert!(refused(&spec(vec![list], None)).contains("byte 22 takes its values from a list"));
        let all = rule("42+4", Values::Range { first: 0, step: 1, count: 1 << 32 }, Advance::EachPacket);
        assert!(refused(&spec(vec![all], None)).contains("has 4294967296 values"));
        let wide =
            rule("ethernet.source", Values::Range { first: 0xffff_ffff, step: 1, count: 2 }, Advance::EachPacket);
        assert!(refused(&spec(vec![wide], None)).contains("byte 6 varies in more than 4 bytes"));
    }

    #[test]
    fn parts_of_bytes_and_long_fields_are_reduced_to_what_varies() {
        let reduced = |field: &str, values: Values| {
            let plan = spec(vec![rule(field, values, Advance::EachPacket)], None).plan().expect("plan");
            let stream = reduce_for_tx_generator(&plan, 0, None).expect("simple");
            let FieldRule { offset, width, first, count, step, .. } = stream.rules[0];
            (offset, width, first, count, step)
        };
        // DSCP 10, 12, 14 above two bits of ECN.
        assert_eq!(reduced("ipv4.dscp", Values::List(vec![10, 12, 14])), (15, 1, 40, 3, 8));
        let range = Values::Range { first: 0x0200_0001_00fe, step: 1, count: 4 };
        assert_eq!(reduced("ethernet.source", range), (10, 2, 0xfe, 4, 1));
        let range = Values::Range { first: 0x0200_1234_5678, step: -0x1_0000, count: 0x1000 };
        assert_eq!(reduced("ethernet.source", range), (8, 4, 0x1234_5678, 0x1000, 0xffff_0000));
        assert_eq!(reduced("udp.source", Values::List(vec![7])), (34, 2, 7, 1, 0));
    }

    /// What a program would make by the rules is what the generator makes.
    #[test]
    fn rules_mean_what_the_generator_does() {
        let rules = vec![
            rule(
                "ethernet.destination",
                Values::Range { first: 0x0200_0000_00fe, step: 1, count: 5 },
                Advance::EachPacket,
            ),
            rule("ipv4.dscp", Values::List(vec![1, 3, 5]), Advance::EachPacket),
            rule("udp.source", Values::Range { first: 9, step: -4, count: 3 }, Advance::EachPacket),
        ];
        let plan = spec(rules, None).plan().expect("plan");
        let stream = reduce_for_tx_generator(&plan, 0, None).expect("simple");
        let mut generator = Stream::new(&plan);
        for number in 0..40u32 {
            let mut packet = vec![0; 60];
            generator.write(0, &mut packet, 0);
            for rule in &stream.rules {
                let value = rule.first.wrapping_add(rule.step.wrapping_mul(number % rule.count)).to_be_bytes();
                let (at, width) = (usize::from(rule.offset), usize::from(rule.width));
                assert_eq!(packet[at..at + width], value[4 - width..], "packet {number}, byte {at}");
            }
            assert_eq!(packet[..4], stream.template[..4]);
        }
    }
}
