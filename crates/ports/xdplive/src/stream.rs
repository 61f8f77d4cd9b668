//! From a stream, as the generator reduces it, to the program that makes its packets.
//!
//! What a program cannot do is refused in words; nothing is left out.

use linerate_bpf::programs::live_tx::checksum::Checksum;
use linerate_bpf::programs::live_tx::field::{FieldKind, FieldRule};
use linerate_bpf::programs::live_tx::{Exit, LiveTxSpec, Pacing, SignatureSpec};
use linerate_bpf::programs::signature::SIGNATURE_BYTES;
use linerate_port::{ChecksumFix, FieldRule as StreamRule, FieldRuleKind, GeneratorStream};

/// Unpaced packets that share one reading of the clock in their signatures; the kernel hands this many to a device at once.
const CLOCK_EVERY: u32 = 16;

/// Bytes from the front that are written for each packet even where nothing varies: devices and hosts on the way change
/// addresses, TTLs and checksums in the page that comes back, under tags and tunnels, too.
const REWRITE_BYTES_MIN: usize = 128;

/// The parts of a [`LiveTxSpec`] that it only borrows.
pub(crate) struct Translated {
    rules: Vec<FieldRule>,
    checksums: Vec<Checksum>,
    seed: u64,
}

impl Translated {
    /// Translates rules and checksums.
    pub(crate) fn of(stream: &GeneratorStream) -> Result<Translated, String> {
        Ok(Translated { rules: rules(&stream.rules)?, checksums: checksums(stream)?, seed: seed(&stream.rules) })
    }

    /// The program's specification.
    pub(crate) fn spec<'a>(&'a self, stream: &'a GeneratorStream) -> LiveTxSpec<'a> {
        let signature = stream.signature.map(|stream| SignatureSpec { stream, clock_every: CLOCK_EVERY });
        LiveTxSpec {
            template: &stream.template,
            rewrite_bytes: self.rewrite_bytes(stream),
            rules: &self.rules,
            checksums: self.checksums.clone(),
            signature,
            pacing: if stream.gap_ns_fixed == 0 { Pacing::None } else { Pacing::Wait },
            // The way out is the port's own map; see `LiveTx::load_to`.
            exit: Exit::Redirect(0),
            seed: self.seed,
        }
    }

    /// Up to the end of what varies, and of what others may change, but not the signature, which is written anyway.
    fn rewrite_bytes(&self, stream: &GeneratorStream) -> usize {
        let signed = if stream.signature.is_some() { SIGNATURE_BYTES } else { 0 };
        let ends = self.rules.iter().map(|rule| rule.offset + rule.width);
        let ends = ends.chain(self.checksums.iter().map(|checksum| checksum.at + 2));
        ends.fold(REWRITE_BYTES_MIN, usize::max).min(stream.template.len().saturating_sub(signed))
    }
}

/// The stream's wheels (`Carry` after `Each` or another `Carry`) are the program's odometer, of which it has one.
fn rules(rules: &[StreamRule]) -> Result<Vec<FieldRule>, String> {
    let is_carry = |at: usize| rules.get(at).is_some_and(|rule| rule.kind == FieldRuleKind::Carry);
    let mut odometers = 0;
    let mut translated = Vec::with_capacity(rules.len());
    for (at, rule) in rules.iter().enumerate() {
        let kind = match rule.kind {
            FieldRuleKind::Random { .. } if is_carry(at + 1) => {
                return Err("a field that goes on when a random one starts again: random ones never do".into());
            }
            FieldRuleKind::Random { .. } => FieldKind::Random,
            FieldRuleKind::Each if is_carry(at + 1) => {
                odometers += 1;
                FieldKind::Odometer
            }
            FieldRuleKind::Each => FieldKind::Independent,
            FieldRuleKind::Carry if at == 0 => {
                return Err("the first field has none before it that could start again".into());
            }
            FieldRuleKind::Carry => FieldKind::Odometer,
        };
        translated.push(FieldRule {
            offset: rule.offset.into(),
            width: rule.width.into(),
            kind,
            min: rule.first,
            count: rule.count.into(),
            // Values are cut to the field's width, so a step modulo 2^32 may as well be a negative number.
            step: i64::from(rule.step as i32),
        });
    }
    match odometers {
        0 | 1 => Ok(translated),
        more => Err(format!("{more} groups of fields that carry into each other; one is possible")),
    }
}

/// One state serves all random fields of a program, so their seeds are joined.
fn seed(rules: &[StreamRule]) -> u64 {
    let seeds = rules.iter().filter_map(|rule| match rule.kind {
        FieldRuleKind::Random { seed } => Some(u64::from(seed)),
        _ => None,
    });
    seeds.fold(0, |joined: u64, seed| joined.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed + 1))
}

/// The template's checksums that are to be kept right, innermost first.
fn checksums(stream: &GeneratorStream) -> Result<Vec<Checksum>, String> {
    let all = Checksum::all_of(&stream.template);
    if let Some(fix) = stream.checksums.iter().find(|fix| !all.iter().any(|checksum| is(checksum, fix))) {
        let at = fix.offset;
        return Err(format!("the checksum at {at} is none of IPv4, UDP, TCP or ICMP that the program knows"));
    }
    Ok(all.into_iter().filter(|checksum| stream.checksums.iter().any(|fix| is(checksum, fix))).collect())
}

fn is(checksum: &Checksum, fix: &ChecksumFix) -> bool {
    checksum.at == usize::from(fix.offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(kind: FieldRuleKind) -> StreamRule {
        StreamRule { offset: 20, width: 2, kind, first: 7, count: 3, step: 2 }
    }

    fn kinds(kinds: &[FieldRuleKind]) -> Result<Vec<FieldKind>, String> {
        let stream: Vec<StreamRule> = kinds.iter().map(|kind| rule(*kind)).collect();
        Ok(rules(&stream)?.iter().map(|rule| rule.kind).collect())
    }

    #[test]
    fn wheels_become_an_odometer() {
        use FieldRuleKind::{Carry, Each, Random};
        let random = Random { seed: 3 };
        assert_eq!(kinds(&[Each]), Ok(vec![FieldKind::Independent]));
        assert_eq!(kinds(&[Each, Carry, Carry]), Ok(vec![FieldKind::Odometer; 3]));
        let mixed = vec![FieldKind::Independent, FieldKind::Odometer, FieldKind::Odometer, FieldKind::Random];
        assert_eq!(kinds(&[Each, Each, Carry, random]), Ok(mixed));
        for impossible in [&[Carry][..], &[random, Carry], &[Each, Carry, Each, Carry]] {
            assert!(kinds(impossible).is_err(), "{impossible:?}");
        }
    }

    #[test]
    fn a_step_back_is_a_step_modulo_the_width() {
        let back = StreamRule { step: 2u32.wrapping_neg(), ..rule(FieldRuleKind::Each) };
        assert_eq!(rules(&[back]).unwrap()[0].step, -2);
    }

    #[test]
    fn seeds_of_all_random_fields_matter() {
        let with = |seeds: &[u32]| {
            let rules: Vec<StreamRule> = seeds.iter().map(|seed| rule(FieldRuleKind::Random { seed: *seed })).collect();
            seed(&rules)
        };
        assert_ne!(with(&[1, 2]), with(&[2, 1]));
        assert_ne!(with(&[1, 2]), with(&[1, 3]));
        assert_eq!(with(&[5]), with(&[5]));
    }
}
