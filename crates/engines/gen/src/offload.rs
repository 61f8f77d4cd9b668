//! A stream reduced to what a small program in a kernel can make by itself ([`linerate_port::OffloadStream`]).
//!
//! All of the stream or nothing: what cannot be reduced is named, and the generator makes such streams itself.

use linerate_port::{ChecksumFix, FieldRule, FieldRuleKind, OffloadStream};

use crate::field::{Advance, FieldPlan, Values};
use crate::stream::{Stream, StreamPlan};

/// What a stream has that a program cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a program in the kernel cannot make this stream: {0}")]
pub struct OffloadError(String);

/// Reduces a stream that starts at number `first_sequence`; `rate_pps` of `None` is as fast as possible.
///
/// # Errors
/// What the stream has that a program cannot do.
pub fn offload(plan: &StreamPlan, first_sequence: u64, rate_pps: Option<f64>) -> Result<OffloadStream, OffloadError> {
    let [image] = plan.images.as_slice() else {
        return Err(OffloadError(format!("its packets have {} lengths", plan.images.len())));
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
    Ok(OffloadStream {
        checksums: checksums.collect::<Result<_, OffloadError>>()?,
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

fn rule(field: &FieldPlan) -> Result<FieldRule, OffloadError> {
    let at = field.offset;
    let refuse = |what: &str| OffloadError(format!("the field at byte {at} {what}"));
    if !matches!(field.width, 1 | 2 | 4) || field.shift != 0 || field.value_bits as usize != field.width * 8 {
        return Err(refuse("is no whole number of 1, 2 or 4 bytes"));
    }
    let (first, step, count, random) = match &field.values {
        Values::Range { first, step, count } => (*first, *step, *count, None),
        Values::Random { first, step, count, seed } => (*first, *step, *count, Some(*seed)),
        Values::List(_) => return Err(refuse("takes its values from a list")),
    };
    let kind = match (random, field.advance) {
        (Some(seed), _) => FieldRuleKind::Random { seed: (seed ^ (seed >> 32)) as u32 },
        (None, Advance::EachPacket) => FieldRuleKind::Each,
        (None, Advance::WhenPreviousWraps) => FieldRuleKind::Carry,
    };
    Ok(FieldRule {
        offset: narrow(at)?,
        width: field.width as u8,
        kind,
        first: u32::try_from(first).map_err(|_| refuse("has values of more than 32 bits"))?,
        count: u32::try_from(count).map_err(|_| refuse(&format!("has {count} values")))?,
        // Values are cut to the field's width, so a step back is a step modulo 2^32.
        step: step as u32,
    })
}

fn narrow(offset: usize) -> Result<u16, OffloadError> {
    u16::try_from(offset).map_err(|_| OffloadError(format!("byte {offset} is too far from the start of the packet")))
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
        let stream = offload(&spec(rules, Some(9)).plan().expect("plan"), 1000, Some(1e6)).expect("simple");
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
        let refused =
            |spec: &StreamSpec| offload(&spec.plan().expect("plan"), 0, None).expect_err("refused").to_string();
        let mut sized = spec(Vec::new(), None);
        (sized.lens, sized.sizes) = (vec![60, 61], Sizes::InTurn { count: 2 });
        assert!(refused(&sized).contains("2 lengths"));
        let list = rule("ipv4.ttl", Values::List(vec![1, 2]), Advance::EachPacket);
        assert!(refused(&spec(vec![list], None)).contains("byte 22 takes its values from a list"));
        let all = rule("42+4", Values::Range { first: 0, step: 1, count: 1 << 32 }, Advance::EachPacket);
        assert!(refused(&spec(vec![all], None)).contains("has 4294967296 values"));
        let bits = rule("ipv4.dscp", Values::Range { first: 0, step: 1, count: 4 }, Advance::EachPacket);
        assert!(refused(&spec(vec![bits], None)).contains("byte 15 is no whole number"));
    }
}
