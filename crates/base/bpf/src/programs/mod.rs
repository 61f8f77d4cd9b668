//! The programs that Linerate runs, one file each.

pub mod drop_count;
pub mod redirect_xsk;
