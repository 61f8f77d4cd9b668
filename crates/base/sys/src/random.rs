//! Random numbers that nobody can guess, from the kernel (random(4)).

use std::fs::File;
use std::io::{self, Read};

/// 16 bytes for keys of hashes and the like.
///
/// # Errors
/// There is no `/dev/urandom`.
pub fn secret() -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut secret)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_equal() {
        assert_ne!(super::secret().unwrap(), super::secret().unwrap());
    }
}
