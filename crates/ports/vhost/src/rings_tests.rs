//! The fuzz target `vhost_rings`, on mutations of rings that are right.

#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/bodies/vhost_rings.rs"]
mod vhost_rings;

use crate::fuzzing::Rings;

/// A memory in the making.
struct Image(Vec<u8>);

impl Image {
    /// Features (mergeable 1, indirect 2, event indices 4, version 1.0 8), rings of `1 << size` entries.
    fn new(features: u8, size: u8, next: u16) -> Image {
        let [low, high] = next.to_le_bytes();
        let mut bytes = vec![0; 4 + 0x3000];
        bytes[..4].copy_from_slice(&[features, size, low, high]);
        Image(bytes)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[4 + at..4 + at + bytes.len()].copy_from_slice(bytes);
    }

    fn describe(&mut self, table: usize, number: usize, address: u64, len: u32, flags: u16, next: u16) {
        let at = table + 16 * number;
        self.put(at, &address.to_le_bytes());
        self.put(at + 8, &len.to_le_bytes());
        self.put(at + 12, &flags.to_le_bytes());
        self.put(at + 14, &next.to_le_bytes());
    }

    /// Makes the descriptors available in the order of `heads`.
    fn offer(&mut self, available: usize, next: u16, size: u16, heads: &[u16]) {
        self.put(available + 2, &next.wrapping_add(heads.len() as u16).to_le_bytes());
        for (at, head) in heads.iter().enumerate() {
            let index = next.wrapping_add(at as u16) % size;
            self.put(available + 4 + 2 * usize::from(index), &head.to_le_bytes());
        }
    }
}

/// Single buffers; chains over the border of two regions; a table; small mergeable buffers.
fn seeds() -> Vec<Vec<u8>> {
    let mut plain = Image::new(8 | 1, 3, 65_534);
    for number in 0..4 {
        plain.describe(0, number, 0x800 + 0x600 * number as u64, 0x600, 2, 0);
        plain.describe(0x400, number, 0x2000 + 0x100 * number as u64, 12 + 60, 0, 0);
    }
    plain.offer(0x200, 65_534, 8, &[0, 1, 2, 3]);
    plain.offer(0x600, 65_534, 8, &[3, 2, 1, 0]);
    let mut chains = Image::new(4, 2, 7);
    chains.describe(0, 0, 0x1000, 10, 3, 1);
    chains.describe(0, 1, 0x1800, 0xc00, 2, 0);
    chains.describe(0x400, 0, 0x1ff0, 10, 1, 1);
    chains.describe(0x400, 1, 0x1ffa, 700, 0, 0);
    chains.offer(0x200, 7, 4, &[0]);
    chains.offer(0x600, 7, 4, &[0]);
    let mut tables = Image::new(15, 4, 0);
    for number in 0..16 {
        tables.describe(0, number, 0x1000 + 0x100 * number as u64, 0x100, 2, 0);
    }
    tables.describe(0x900, 0, 0x2400, 12, 1, 1);
    tables.describe(0x900, 1, 0x2500, 600, 1, 2);
    tables.describe(0x900, 2, 0x2900, 900, 0, 0);
    tables.describe(0x400, 5, 0x900, 48, 4, 0);
    tables.offer(0x200, 0, 16, &(0..16).collect::<Vec<_>>());
    tables.offer(0x600, 0, 16, &[5]);
    [plain, chains, tables].map(|image| image.0).to_vec()
}

#[test]
fn rings_that_are_right_are_accepted() {
    let mut rings = Rings::new(tempfile::tempfile_in("/dev/shm").unwrap()).unwrap();
    for (number, seed) in seeds().iter().enumerate() {
        assert!(rings.run(seed), "seed {number}");
    }
    assert!(!rings.run(&[0; 3]));
}

#[test]
fn any_bytes_are_survived() {
    let seeds = seeds();
    mutate::check_seeds("vhost_rings", &seeds);
    mutate::each(&seeds, 20_000, vhost_rings::run);
}
