//! Wishes about this process's own memory.
#![allow(unsafe_code)]

/// A page; larger ones are a multiple of it.
const PAGE_BYTES: usize = 4096;

/// Asks the kernel to back this memory now, with huge pages where it can: so that no write has to wait for a page later, and what a
/// program takes stays the same. (madvise(2): MADV_HUGEPAGE, on x86-64 pages of 2 MiB on bounds of 2 MiB; MADV_POPULATE_WRITE, since
/// Linux 5.14.) Only a wish: nothing happens where it cannot, and the contents stay.
pub fn populate(bytes: &mut [u8]) {
    let before = bytes.as_ptr().align_offset(PAGE_BYTES).min(bytes.len());
    let inside = &mut bytes[before..];
    let len = inside.len() / PAGE_BYTES * PAGE_BYTES;
    for advice in [libc::MADV_HUGEPAGE, libc::MADV_POPULATE_WRITE] {
        if len > 0 {
            // SAFETY: whole pages inside of memory that is borrowed here, and neither advice changes contents.
            unsafe { libc::madvise(inside.as_mut_ptr().cast(), len, advice) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_whatever_the_place() {
        let mut bytes: Vec<u8> = (0..5_000_000u32).map(|number| number as u8).collect();
        for start in [0, 1, 4095, 4096, 4_999_999, 5_000_000] {
            populate(&mut bytes[start..]);
        }
        assert!(bytes.iter().enumerate().all(|(number, byte)| *byte == number as u8));
    }

    #[test]
    fn memory_is_there_before_it_is_written() {
        let resident_kib = || {
            let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<usize>().unwrap()
        };
        let mut bytes = vec![0_u8; 256 << 20];
        let before = resident_kib();
        populate(&mut bytes);
        // Half of it: tests beside this one come and go.
        assert!(resident_kib() > before + (128 << 10), "an older kernel than 5.14?");
    }
}
