//! Bursts of `-R`: how many packets go out together, and how long apart bursts are.

/// Packets of a burst: `-b`, but so few that there are 300 bursts in a second, as the original does it. 0 pps = no pace.
pub fn burst(wanted: usize, rate_pps: f64) -> usize {
    if rate_pps <= 0.0 {
        return wanted;
    }
    wanted.min((rate_pps / 300.0) as usize).max(1)
}

/// Nanoseconds from one burst to the next; 0 without a pace.
pub fn gap_ns(burst: usize, rate_pps: f64) -> u64 {
    if rate_pps <= 0.0 { 0 } else { (burst as f64 * 1e9 / rate_pps) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_hundred_bursts_a_second() {
        assert_eq!((burst(512, 0.0), gap_ns(512, 0.0)), (512, 0));
        assert_eq!((burst(512, 10_000.0), gap_ns(33, 10_000.0)), (33, 3_300_000));
        assert_eq!((burst(512, 1e6), gap_ns(512, 1e6)), (512, 512_000));
        assert_eq!((burst(1, 1e6), burst(512, 2.0), gap_ns(1, 2.0)), (1, 1, 500_000_000));
    }
}
