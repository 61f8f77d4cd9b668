//! Tests and effect sizes for few repetitions.

/// More values than this on both sides together are left to the t-test, whose assumption then hardly matters.
pub(super) const RANKED_MAX: usize = 60;

/// Two-sided p-value of the Mann-Whitney U test, exact: the share of all ways to divide the values that lie at least as far from the
/// middle. Equal values have their mean rank, so ties are exact, too. NaN with an empty side.
pub(super) fn mann_whitney(one: &[f64], other: &[f64]) -> f64 {
    let all: Vec<f64> = one.iter().chain(other).copied().collect();
    let ranks = doubled_ranks(&all);
    let observed: usize = ranks.iter().take(one.len()).sum();
    let total: usize = ranks.iter().sum();
    // ways[taken][sum]: in how many ways so many values have this sum of (doubled) ranks.
    let mut ways = vec![vec![0.0f64; total + 1]; one.len() + 1];
    if let Some(none) = ways.first_mut().and_then(|sums| sums.first_mut()) {
        *none = 1.0;
    }
    // The sum of the ranks so far. No sum of some of them is larger, and no more values were taken than there were: all other cells are 0.
    let mut reached = 0;
    for (number, rank) in ranks.iter().enumerate() {
        reached += rank;
        for taken in (1..=one.len().min(number + 1)).rev() {
            let (before, after) = ways.split_at_mut(taken);
            let (Some(fewer), Some(more)) = (before.last(), after.first_mut()) else { continue };
            for (count, fewer) in more.iter_mut().skip(*rank).take(reached + 1 - rank).zip(fewer) {
                *count += fewer;
            }
        }
    }
    let middle = total as f64 * one.len() as f64 / all.len() as f64;
    let distance = (observed as f64 - middle).abs() - 1e-9;
    let counts = ways.last().map(Vec::as_slice).unwrap_or_default();
    let extreme: f64 =
        counts.iter().enumerate().filter(|(sum, _)| (*sum as f64 - middle).abs() >= distance).map(|(_, n)| n).sum();
    extreme / counts.iter().sum::<f64>()
}

/// The least p-value that [`mann_whitney`] can give: both sides wholly apart.
pub(super) fn mann_whitney_least(one: usize, other: usize) -> f64 {
    let ways = (1..=one).fold(1.0, |ways, taken| ways * (other + taken) as f64 / taken as f64);
    (2.0 / ways).min(1.0)
}

/// Twice the rank of each value; equal values share their mean rank.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    values.iter().map(rank).collect()
}

/// A difference of two means, with its standard error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// Mean of the second less mean of the first.
    pub(super) difference: f64,
    error: f64,
    freedom: usize,
}

impl Estimate {
    /// Student's model: one variance for both sides, at least two values on one of them. `floor` is variance that each value has
    /// beyond the one observed, so that equal values are no certainty. `None` with fewer than three values or an empty side.
    pub(super) fn of(one: &[f64], other: &[f64], floor: f64) -> Option<Self> {
        let freedom = (one.len() + other.len()).checked_sub(2).filter(|freedom| *freedom > 0)?;
        if one.is_empty() || other.is_empty() {
            return None;
        }
        let squares = |values: &[f64]| {
            let mean = mean(values);
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
        };
        let variance = (squares(one) + squares(other)) / freedom as f64 + floor;
        let error = (variance * (1.0 / one.len() as f64 + 1.0 / other.len() as f64)).sqrt();
        let difference = mean(other) - mean(one);
        (difference.is_finite() && error.is_finite()).then_some(Self { difference, error, freedom })
    }

    /// Two-sided p-value of Student's t-test.
    pub(super) fn p_value(&self) -> f64 {
        match self.difference == 0.0 {
            true => 1.0,
            false => two_sided_t(self.difference.abs() / self.error, self.freedom),
        }
    }

    /// Half the width of the confidence interval that misses the true difference with a probability of `alpha`.
    pub(super) fn margin(&self, alpha: f64) -> f64 {
        let (mut below, mut above) = (0.0f64, 1.0f64);
        while two_sided_t(above, self.freedom) > alpha && above < 1e12 {
            above *= 2.0;
        }
        for _ in 0..60 {
            let middle = (below + above) / 2.0;
            match two_sided_t(middle, self.freedom) > alpha {
                true => below = middle,
                false => above = middle,
            }
        }
        above * self.error
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Probability that Student's t with whole degrees of freedom is further from 0 than `t`: the finite series of Abramowitz and
/// Stegun 26.7.3 and 26.7.4.
fn two_sided_t(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = if freedom == 1 { 0.0 } else { term };
    let first = if is_odd { 3 } else { 2 };
    for factor in (first..freedom.saturating_sub(1)).step_by(2) {
        term *= cosine * cosine * (factor - 1) as f64 / factor as f64;
        sum += term;
    }
    let within = if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    (1.0 - within).clamp(0.0, 1.0)
}

/// Holm's correction: p-values such that calling those below alpha different is wrong anywhere with a probability of alpha at most.
pub(super) fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let p = |index: usize| p_values.get(index).copied().unwrap_or(1.0);
    order.sort_by(|one, other| p(*one).total_cmp(&p(*other)));
    let mut corrected = vec![1.0; p_values.len()];
    let mut highest = 0.0f64;
    for (rank, index) in order.iter().enumerate() {
        highest = highest.max((p(*index) * (p_values.len() - rank) as f64).min(1.0));
        if let Some(place) = corrected.get_mut(*index) {
            *place = highest;
        }
    }
    corrected
}

/// Hodges and Lehmann's estimate of the shift from `one` to `other`: the median of all differences, `difference(other, one)`.
pub(super) fn shift(one: &[f64], other: &[f64], difference: impl Fn(f64, f64) -> f64) -> f64 {
    let pairs = one.iter().flat_map(|from| other.iter().map(move |to| (*to, *from)));
    crate::figure::median(&pairs.map(|(to, from)| difference(to, from)).collect::<Vec<_>>())
}

/// Cliff's delta: how much likelier a value of `other` is above one of `one` than below it, -1 to 1.
pub(super) fn cliffs_delta(one: &[f64], other: &[f64]) -> f64 {
    let pairs = one.iter().flat_map(|from| other.iter().map(move |to| to.total_cmp(from) as i32));
    pairs.sum::<i32>() as f64 / (one.len() * other.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_probabilities() {
        // From tables of Student's t: 97.5 % and 99.95 % points.
        for (freedom, t, p) in [
            (1, 12.706, 0.05),
            (2, 4.303, 0.05),
            (3, 3.182, 0.05),
            (4, 2.776, 0.05),
            (9, 4.781, 0.001),
            (30, 2.042, 0.05),
        ] {
            assert!((two_sided_t(t, freedom) - p).abs() < p * 0.002, "{freedom}: {}", two_sided_t(t, freedom));
        }
        // U = 0 of 4 + 4 has 2 of 70 divisions, of 5 + 5 2 of 252.
        assert!((mann_whitney(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]) - 2.0 / 70.0).abs() < 1e-12);
        assert!((mann_whitney_least(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        // U = 3 of 4 + 4: 2 x 7 of 70.
        assert!((mann_whitney(&[1.0, 2.0, 4.0, 6.0], &[3.0, 5.0, 7.0, 8.0]) - 14.0 / 70.0).abs() < 1e-12);
        assert_eq!(mann_whitney(&[1.0; 5], &[1.0; 5]), 1.0);
        // Without a known spread, equal values would be certain; with one they are not.
        let p = |one: &[f64], other: &[f64], floor| Estimate::of(one, other, floor).map(|it| it.p_value());
        assert_eq!(p(&[1.0, 1.0], &[1.0, 1.0], 0.0), Some(1.0));
        assert_eq!(p(&[1.0, 1.0], &[2.0, 2.0], 0.0), Some(0.0));
        // t = 1 / 0.25 with 2 degrees of freedom.
        assert!((p(&[1.0, 1.0], &[2.0, 2.0], 0.0625).unwrap() - 0.057_19).abs() < 1e-5);
        assert_eq!(p(&[1.0], &[2.0], 0.1), None);
        assert_eq!(p(&[], &[2.0, 3.0, 4.0], 0.1), None);
    }

    #[test]
    fn corrections_and_effects() {
        let corrected = holm(&[0.01, 0.04, 0.03]);
        for (found, wanted) in corrected.iter().zip([0.03, 0.06, 0.06]) {
            assert!((found - wanted).abs() < 1e-12, "{corrected:?}");
        }
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
        assert_eq!(shift(&[100.0, 110.0], &[90.0, 99.0], |to, from| to - from), -10.5);
    }

    proptest! {
        #[test]
        fn an_interval_excludes_0_where_the_test_is_significant(one in prop::collection::vec(0.1f64..10.0, 1..8), other in prop::collection::vec(0.1f64..10.0, 2..8), alpha in 1e-6f64..0.2) {
            let estimate = Estimate::of(&one, &other, 0.01).unwrap();
            let margin = estimate.margin(alpha);
            let at_margin = Estimate { difference: margin, ..estimate }.p_value();
            prop_assert!((at_margin - alpha).abs() < alpha * 1e-3, "{} {}", at_margin, alpha);
            prop_assert_eq!(estimate.difference.abs() > margin, estimate.p_value() < alpha);
        }

        #[test]
        fn order_of_sides_and_scale_do_not_matter(one in prop::collection::vec(0.1f64..10.0, 1..8), other in prop::collection::vec(0.1f64..10.0, 1..8)) {
            let p = mann_whitney(&one, &other);
            prop_assert!((p - mann_whitney(&other, &one)).abs() < 1e-9);
            prop_assert!(p >= mann_whitney_least(one.len(), other.len()) - 1e-12 && p <= 1.0 + 1e-12);
            let cubes = |values: &[f64]| values.iter().map(|value| value.powi(3)).collect::<Vec<_>>();
            prop_assert!((p - mann_whitney(&cubes(&one), &cubes(&other))).abs() < 1e-9);
            prop_assert!((cliffs_delta(&one, &other) + cliffs_delta(&other, &one)).abs() < 1e-12);
        }

        #[test]
        fn corrected_values_are_not_smaller_and_keep_their_order(p in prop::collection::vec(0.0f64..1.0, 1..40)) {
            let corrected = holm(&p);
            for (index, value) in p.iter().enumerate() {
                prop_assert!(corrected[index] >= *value && corrected[index] <= 1.0);
                for (other, more) in p.iter().enumerate() {
                    prop_assert!(value > more || corrected[index] <= corrected[other]);
                }
            }
        }
    }
}
