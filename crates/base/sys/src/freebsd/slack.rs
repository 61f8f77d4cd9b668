//! How late a sleep may end, on FreeBSD: a share of its length that is the whole machine's (`kern.timecounter.alloweddeviation`, 5 %).

/// Does nothing: a thread cannot ask for sleeps that end on time.
pub fn sleep_exactly() {}
