//! Whether the queues of a port get equal shares of its packets.

pub use crate::reason::known_reason;

/// Fewer packets than this tell nothing.
const PACKETS_MIN: u64 = 1_000;
/// More than this is too much for one queue of two, too.
const SHARE_MAX: f64 = 0.9;
/// From here on the others have what an interface gets by itself, such as neighbour discovery.
const NEARLY_ALL: f64 = 0.99;

/// What to know about the packets of several queues, if one got more than twice its equal share, or, of two, more than 90 %; `counts` are packets by queue, and
/// `one` is what such a queue is called, for example `ring`.
///
/// ```
/// use linerate_console::shares::uneven;
///
/// assert_eq!(uneven("queue", &[2_000, 3_000, 1_000]), None);
/// assert!(uneven("queue", &[5_000, 500, 500]).unwrap().starts_with("queue 0 got 83.3 % of the packets of 3 queues"));
/// ```
pub fn uneven(one: &str, counts: &[u64]) -> Option<String> {
    uneven_because(one, counts, None)
}

/// As [`uneven`], with the reason where the caller knows it.
pub fn uneven_because(one: &str, counts: &[u64], known: Option<&str>) -> Option<String> {
    let total = counts.iter().fold(0u64, |sum, packets| sum.saturating_add(*packets));
    let (largest, most) = counts.iter().enumerate().max_by_key(|(_, packets)| **packets)?;
    let queues = counts.len();
    let share = *most as f64 / total.max(1) as f64;
    if total < PACKETS_MIN || queues < 2 || share <= (2.0 / queues as f64).min(SHARE_MAX) {
        return None;
    }
    let why = if let Some(known) = known {
        known
    } else if share >= NEARLY_ALL {
        "they are of one flow, or of a protocol that is not hashed, or between the same two addresses where only these are hashed"
    } else {
        "a few flows are most of the packets, or the hash does not tell the flows apart"
    };
    Some(format!("{one} {largest} got {:.1} % of the packets of {queues} {one}s: {why}", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_queue_with_more_than_twice_its_share_is_named_with_a_reason() {
        for (counts, wanted) in [
            (&[][..], None),
            (&[5_000], None),
            (&[999, 0], None),
            (&[2_500, 2_500, 2_500, 2_500], None),
            (&[1_500, 500], None),
            (&[5_000, 2_000, 2_000, 1_000], None),
            (&[2_000, 2_000, 5_001, 1_000], Some("queue 2 got 50.0 % of the packets of 4 queues: a few flows")),
            (&[0, 1_000], Some("queue 1 got 100.0 % of the packets of 2 queues: they are of one flow")),
            (&[5, 5_005], Some("queue 1 got 99.9 % of the packets of 2 queues: they are of one flow")),
            (&[950, 50], Some("queue 0 got 95.0 % of the packets of 2 queues: a few flows")),
            (&[900, 100], None),
        ] {
            let text = uneven("queue", counts);
            assert_eq!(text.is_some(), wanted.is_some(), "{counts:?}: {text:?}");
            assert!(text.unwrap_or_default().starts_with(wanted.unwrap_or_default()), "{counts:?}");
        }
    }
}
