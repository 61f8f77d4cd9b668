//! Which errors skip a test: the user may not do it, the kernel does not have it, or a named program is not installed. Any other error
//! is a fault and fails the test, or a broken tree would pass as a restricted machine.

use std::fmt::Display;

/// How those errors are told in messages: EPERM, EACCES and ENOSYS by their numbers, and the words that this tree has for a missing
/// capability, a missing part of the kernel, a missing program or library.
const SIGNS: [&str; 8] = [
    "(os error 1)",
    "(os error 13)",
    "(os error 38)",
    "not permitted",
    "needs CAP_",
    "(CONFIG_",
    "not installed",
    "libpcap cannot be loaded: dlopen failed",
];

/// Whether a test may be skipped because of what this error says.
pub fn may_skip(error: &impl Display) -> bool {
    let text = error.to_string();
    SIGNS.iter().any(|sign| text.contains(sign))
}

/// The value, or `None` after printing `skipped: WHY` for the reader of the test's output.
///
/// # Panics
/// When the error is none for which a test may be skipped, see [`may_skip`].
#[track_caller]
pub fn or_skip<T, E: Display>(what: &str, result: Result<T, E>) -> Option<T> {
    value_or_skip(what, result).map_err(|why| eprintln!("skipped: {why}")).ok()
}

/// What came of a program of others, or `None` after printing `skipped: WHY`: as [`or_skip`], also if the program is not installed.
///
/// # Panics
/// When the error is none for which a test may be skipped, see [`may_skip`].
#[track_caller]
pub fn program_or_skip<T>(program: &str, result: std::io::Result<T>) -> Option<T> {
    let explained = result.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "not installed".to_owned(),
        _ => error.to_string(),
    });
    or_skip(program, explained)
}

/// The value, or why the test is skipped.
#[track_caller]
fn value_or_skip<T, E: Display>(what: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| {
        assert!(may_skip(&error), "{what}: {error}");
        format!("{what}: {error}")
    })
}

#[cfg(test)]
mod tests {
    use std::io::Error;

    use linerate_port::OpenError;

    use super::*;

    #[test]
    fn rights_kernels_and_programs_skip_a_test_and_nothing_else_does() {
        // EPERM, EACCES, ENOSYS.
        for errno in [1, 13, 38] {
            assert!(may_skip(&format!("cannot make a veth pair: {}", Error::from_raw_os_error(errno))), "{errno}");
        }
        // ENOENT, ENOMEM, EEXIST, EINVAL, ENOSPC, EOPNOTSUPP.
        for errno in [2, 12, 17, 22, 28, 95] {
            assert!(!may_skip(&Error::from_raw_os_error(errno)), "{errno}");
        }
        assert!(may_skip(&OpenError::new("packet:a", "opening an AF_PACKET socket needs CAP_NET_RAW", "")));
        assert!(may_skip(&"the device needs `ovs`, which is not installed"));
        assert!(may_skip(&"the capture died: cannot open pcap:a: libpcap cannot be loaded: dlopen failed: install it"));
        assert!(!may_skip(&OpenError::new("xdp:a", "queue 0 of a cannot be bound", "leave out ,frags")));
        assert!(!may_skip(&"the capture died: exit status: 2"));
    }

    #[test]
    fn a_missing_program_skips_a_test() {
        assert_eq!(program_or_skip::<()>("ovs-ofctl", Err(Error::from_raw_os_error(2))), None);
        assert_eq!(program_or_skip("ovs-ofctl", Ok(3)), Some(3));
    }

    #[test]
    fn another_error_fails_the_test() {
        assert_eq!(or_skip::<_, Error>("a port", Ok(3)), Some(3));
        // Printed, it would be taken for a skip of this test.
        let skipped = value_or_skip::<(), _>("a port", Err(Error::from_raw_os_error(1)));
        assert_eq!(skipped, Err("a port: Operation not permitted (os error 1)".to_owned()));
        let failed = std::panic::catch_unwind(|| or_skip::<(), _>("a veth pair", Err(Error::from_raw_os_error(22))));
        let text = *failed.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(text, "a veth pair: Invalid argument (os error 22)");
    }
}
