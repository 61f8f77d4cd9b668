//! Rules: which values a field takes, and when it goes to the next one.

use std::ops::Range;

use linerate_gen::{Advance, Rule, Values, locate};
use linerate_wire::{Layer, Layout};
use toml::Spanned;

use super::Problem;
use super::layer::RawLayer;
use super::raw::{Each, Order, RawRule};
use super::scalar::{AsText, Notation, Scalar};

/// Rules of a stream, at most.
pub(super) const RULES_MAX: usize = 32;

/// An IPv6 address is varied in its low 64 bits. Where the layer does not say the address, the rule's is the layer's too.
pub(super) fn adopt_ipv6_addresses(rules: &[Spanned<RawRule>], layers: &mut [&mut RawLayer]) {
    for rule in rules.iter().map(Spanned::get_ref) {
        let Some((number, name)) = ipv6_field(rule.field.get_ref()) else { continue };
        let Some(address) = rule.some_value().and_then(|value| value.get_ref().ipv6()) else { continue };
        let of_kind = layers.iter_mut().filter_map(|layer| match &mut **layer {
            RawLayer::Ipv6(ip) => Some(ip),
            _ => None,
        });
        if let Some(ip) = of_kind.into_iter().nth(number) {
            let end = if name == "source" { &mut ip.source } else { &mut ip.destination };
            end.get_or_insert(AsText(address));
        }
    }
}

/// Number (from 0) of the IPv6 layer that the field is of, and `source` or `destination`.
fn ipv6_field(field: &str) -> Option<(usize, &str)> {
    let (layer, name) = field.split_once('.')?;
    let (layer, number) = layer.split_once('#').unwrap_or((layer, "1"));
    let number: usize = number.parse().ok()?;
    let is_address = matches!(name, "source" | "destination");
    (layer == "ipv6" && is_address).then_some((number.checked_sub(1)?, name))
}

/// Turns the rules of a stream into those of its plan. `layout` is that of a packet without them.
pub(super) fn build(rules: &[Spanned<RawRule>], layers: &[Layer], layout: &Layout) -> Result<Vec<Rule>, Problem> {
    let mut built: Vec<Rule> = Vec::with_capacity(rules.len());
    for rule in rules {
        let rule = rule.get_ref();
        let advance = rule.advance(built.last())?;
        rule.check_ipv6(layers)?;
        let bits =
            locate(layout, rule.field.get_ref()).map_err(|error| Problem::new(rule.field.span(), error.to_string()))?;
        built.push(Rule { field: rule.field.get_ref().clone(), values: rule.values(bits.value_bits)?, advance });
    }
    Ok(built)
}

impl RawRule {
    /// Number of values that the rule lists, for the file's budget.
    pub(super) fn listed(&self) -> usize {
        self.values.as_ref().map_or(1, |values| values.get_ref().len())
    }

    fn some_value(&self) -> Option<&Spanned<Scalar>> {
        let listed = self.values.as_ref().and_then(|values| values.get_ref().first());
        self.first.as_ref().or(self.value.as_ref()).or(listed)
    }

    fn advance(&self, before: Option<&Rule>) -> Result<Advance, Problem> {
        let Some(each) = self.each.as_ref().filter(|each| *each.get_ref() == Each::Cycle) else {
            return Ok(Advance::EachPacket);
        };
        match before.map(|rule| &rule.values) {
            None => Err(Problem::new(each.span(), "the first rule has no rule before it whose cycle it could follow")),
            Some(Values::Random { .. }) => {
                let message = "the rule before it is random: it never comes round, so this one would never go on";
                Err(Problem::new(each.span(), message))
            }
            Some(_) => Ok(Advance::WhenPreviousWraps),
        }
    }

    /// The values, all of them within the field's `bits`.
    fn values(&self, bits: u32) -> Result<Values, Problem> {
        let forms = [self.value.is_some(), self.values.is_some(), self.first.is_some()];
        if forms.iter().filter(|given| **given).count() != 1 {
            let message = "a rule has one of: value, values, or first (with count or last)";
            return Err(Problem::new(self.field.span(), message));
        }
        if let Some(first) = &self.first {
            return self.range(first, bits);
        }
        self.refuse_range_keys()?;
        let number = |value: &Spanned<Scalar>| self.number(value, bits);
        if let Some(value) = &self.value {
            return Ok(Values::List(vec![number(value)?]));
        }
        let list = self.values.as_ref().map(Spanned::get_ref).into_iter().flatten();
        let list = list.map(number).collect::<Result<Vec<u64>, Problem>>()?;
        if list.is_empty() {
            return Err(Problem::new(self.field.span(), "an empty list of values"));
        }
        Ok(Values::List(list))
    }

    fn refuse_range_keys(&self) -> Result<(), Problem> {
        let keys: [(&str, Option<Range<usize>>); 5] = [
            ("last", self.last.as_ref().map(Spanned::span)),
            ("count", self.count.as_ref().map(Spanned::span)),
            ("step", self.step.as_ref().map(Spanned::span)),
            ("order", self.order.as_ref().map(Spanned::span)),
            ("seed", self.seed.as_ref().map(Spanned::span)),
        ];
        match keys.into_iter().find_map(|(key, span)| Some((key, span?))) {
            Some((key, span)) => Err(Problem::new(span, format!("{key} belongs to first; listed values go in turn"))),
            None => Ok(()),
        }
    }

    fn range(&self, first: &Spanned<Scalar>, bits: u32) -> Result<Values, Problem> {
        let order = self.order.as_ref().map_or(Order::Increment, |order| *order.get_ref());
        if let Some(seed) = self.seed.as_ref().filter(|_| order != Order::Random) {
            return Err(Problem::new(seed.span(), r#"a seed is for order = "random""#));
        }
        let step = self.step.as_ref().map_or(Ok(1), |step| match *step.get_ref() {
            size @ 1..=0x7fff_ffff_ffff_ffff => Ok(size),
            _ => Err(Problem::new(step.span(), "a step is 1 to 2^63 - 1; order = \"decrement\" goes down")),
        })?;
        let down = order == Order::Decrement;
        let first_value = self.number(first, bits)?;
        let count = self.count(first_value, step, down, bits)?;
        self.check_end(first, first_value, step, count, down, bits)?;
        let step = if down { -(step as i64) } else { step as i64 };
        Ok(match order {
            Order::Random => {
                let seed = self.seed.as_ref().map_or(1, |seed| *seed.get_ref());
                Values::Random { first: first_value, step, count, seed }
            }
            _ => Values::Range { first: first_value, step, count },
        })
    }

    fn count(&self, first: u64, step: u64, down: bool, bits: u32) -> Result<u64, Problem> {
        match (&self.count, &self.last) {
            (Some(count), None) if *count.get_ref() == 0 => Err(Problem::new(count.span(), "it must be at least 1")),
            (Some(count), None) => Ok(*count.get_ref()),
            (None, Some(last)) => {
                let end = self.number(last, bits)?;
                let distance = if down { first.checked_sub(end) } else { end.checked_sub(first) };
                let message = "it lies on the wrong side of first; order = \"decrement\" goes down, the others go up";
                let distance = distance.ok_or_else(|| Problem::new(last.span(), message))?;
                Ok((distance / step).saturating_add(1))
            }
            _ => Err(Problem::new(self.field.span(), "first needs one of: count, or last")),
        }
    }

    /// The far end of the range must still be a value of the field.
    fn check_end(
        &self,
        at: &Spanned<Scalar>,
        first: u64,
        step: u64,
        count: u64,
        down: bool,
        bits: u32,
    ) -> Result<(), Problem> {
        let distance = u128::from(step) * u128::from(count - 1);
        let inside = if down {
            distance <= u128::from(first)
        } else {
            u128::from(first) + distance <= u128::from(largest(bits))
        };
        if inside {
            return Ok(());
        }
        let direction = if down { "below 0" } else { "beyond the largest value" };
        let message = format!("{count} values with step {step} from {first} go {direction}: the field has {bits} bits");
        Err(Problem::new(at.span(), message))
    }

    fn number(&self, value: &Spanned<Scalar>, bits: u32) -> Result<u64, Problem> {
        let refuse = |message| Problem::new(value.span(), message);
        let number = value.get_ref().number(Notation::of(self.field.get_ref())).map_err(refuse)?;
        if number > largest(bits) {
            return Err(refuse(format!("{number} does not fit the field's {bits} bits (at most {})", largest(bits))));
        }
        Ok(number)
    }

    /// Every address of the rule must have the upper half of the layer's address, which does not vary.
    fn check_ipv6(&self, layers: &[Layer]) -> Result<(), Problem> {
        let Some((number, name)) = ipv6_field(self.field.get_ref()) else { return Ok(()) };
        let of_kind = layers.iter().filter_map(|layer| match layer {
            Layer::Ipv6(header) => Some(if name == "source" { header.src } else { header.dst }),
            _ => None,
        });
        let Some(fixed) = of_kind.into_iter().nth(number) else { return Ok(()) };
        let listed = self.values.iter().flat_map(|values| values.get_ref());
        for value in listed.chain(&self.value).chain(&self.first).chain(&self.last) {
            if let Some(address) = value.get_ref().ipv6()
                && address.segments()[..4] != fixed.segments()[..4]
            {
                let message = format!(
                    "an IPv6 address varies in its low 64 bits; the upper ones of {address} are not those of {fixed}"
                );
                return Err(Problem::new(value.span(), message));
            }
        }
        Ok(())
    }
}

fn largest(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
