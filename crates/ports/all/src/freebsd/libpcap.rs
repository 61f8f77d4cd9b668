//! Filters compiled by libpcap: not on FreeBSD, where this program does not load it.

use linerate_filter::Program;

/// Nothing, as without the library.
pub(crate) fn by_libpcap(_: &str, _: Option<&str>, _: u32) -> Option<Result<Program, String>> {
    None
}
