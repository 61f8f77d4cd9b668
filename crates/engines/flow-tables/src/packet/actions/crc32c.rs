//! How a CRC32c changes with its data (RFC 9260 appendix A; the arithmetic is that of zlib's `crc32_combine`).

/// The polynomial of Castagnoli, lowest bit first.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The difference that makes a CRC32c right again after bytes of its data changed. `difference` is the exclusive or of the old and the new
/// bytes, and `behind` the number of bytes between them and the end of the data.
pub fn difference(difference: &[u8], behind: usize) -> u32 {
    let crc = difference.iter().fold(0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| times_x(crc)));
    shifted(crc, behind)
}

/// A remainder times x.
const fn times_x(remainder: u32) -> u32 {
    remainder >> 1 ^ if remainder & 1 != 0 { POLYNOMIAL } else { 0 }
}

/// The product of two remainders.
const fn multiply(left: u32, mut right: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if left & bit != 0 {
            product ^= right;
        }
        right = times_x(right);
        bit >>= 1;
    }
    product
}

/// `crc` after `bytes` bytes of zeros.
fn shifted(crc: u32, bytes: usize) -> u32 {
    /// x to the 8th, 16th, 32nd power and so on.
    const POWERS: [u32; 20] = {
        let mut powers = [1 << 23; 20];
        let mut at = 1;
        while at < powers.len() {
            powers[at] = multiply(powers[at - 1], powers[at - 1]);
            at += 1;
        }
        powers
    };
    POWERS
        .iter()
        .enumerate()
        .filter(|(bit, _)| bytes >> bit & 1 != 0)
        .fold(crc, |crc, (_, power)| multiply(crc, *power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc32c(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| times_x(crc)))
    }

    #[test]
    fn a_changed_checksum_is_the_recomputed_one() {
        // The check value of CRC-32C, and one of RFC 3720 appendix B.4.
        assert_eq!((crc32c(b"123456789"), crc32c(&[0; 32])), (0xe306_9283, 0x8a91_36aa));
        let old: Vec<u8> = (0..2000u32).map(|at| (at * 7 + at / 13) as u8).collect();
        for (at, len) in [(0, 2), (2, 2), (1, 4), (1996, 4), (700, 16), (0, 2000)] {
            let mut new = old.clone();
            new[at..at + len].iter_mut().for_each(|byte| *byte ^= 0x5a);
            let change = difference(&vec![0x5a; len], 2000 - at - len);
            assert_eq!(crc32c(&old) ^ change, crc32c(&new), "{len} bytes at {at}");
        }
    }
}
