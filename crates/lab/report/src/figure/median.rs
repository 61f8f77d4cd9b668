//! The median of values.

/// The middle of the values, or of the two in the middle; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(below), Some(above)) if sorted.len().is_multiple_of(2) => (below + above) / 2.0,
        (_, Some(value)) => *value,
        _ => f64::NAN,
    }
}
