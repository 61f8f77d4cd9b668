//! Hints to the core that a cache line will be used. They have no effect but on time, at whatever address.
#![allow(unsafe_code)]

/// The line in which `slice[index]` begins will be read. Nothing happens where there is no such element.
#[inline]
pub fn prefetch<T>(slice: &[T], index: usize) {
    prefetch_address(slice.as_ptr().wrapping_add(index).cast());
}

/// The line in which `slice[index]` begins will be written. Nothing happens where there is no such element.
#[inline]
pub fn prefetch_to_write<T>(slice: &[T], index: usize) {
    prefetch_address_to_write(slice.as_ptr().wrapping_add(index).cast());
}

/// The line at `address`, which may be any, will be read.
#[inline]
pub fn prefetch_address(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing that the program sees and does not fault, whatever the address.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// The line at `address`, which may be any, will be written: it is to leave the caches of other cores.
#[inline]
pub fn prefetch_address_to_write(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: PREFETCHW changes no memory and no flags and does not fault; x86-64 cores without it take it for a NOP.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
