//! How late a sleep may end, on Linux (PR_SET_TIMERSLACK, prctl(2)).
#![allow(unsafe_code)]

/// Makes the sleeps of the calling thread end on time: its timer slack becomes 1 ns instead of
/// the usual 50 us, by which the kernel may delay a wake-up to join it with others.
pub fn sleep_exactly() {
    // SAFETY: takes a number, touches no memory; it cannot fail with these arguments.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_set_for_this_thread() {
        sleep_exactly();
        // SAFETY: takes no argument and touches no memory.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }, 1);
    }
}
