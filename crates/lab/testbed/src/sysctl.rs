//! Reading and setting `/proc/sys`. Settings under `net/` are those of the calling thread's namespace, so callers
//! change them from inside namespaces that they made, and nowhere else.

use std::fs;
use std::io;
use std::path::PathBuf;

/// The value of `name` (`net/ipv4/ip_forward`), without surrounding white space; `None` when this kernel has no such
/// setting or does not show it.
pub fn read(name: &str) -> Option<String> {
    fs::read_to_string(path(name)).ok().map(|text| text.trim().to_owned())
}

/// Sets `name` to `value`.
///
/// # Errors
/// `NotFound` when this kernel has no such setting, `EPERM` or `EROFS` where it may not be changed; the text names the
/// setting.
pub fn set(name: &str, value: &str) -> io::Result<()> {
    fs::write(path(name), value).map_err(|error| io::Error::new(error.kind(), format!("{name} = {value}: {error}")))
}

/// As [`set`], but no error when this kernel has no such setting.
///
/// # Errors
/// As [`set`], apart from `NotFound`.
pub fn set_if_present(name: &str, value: &str) -> io::Result<()> {
    match set(name, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

fn path(name: &str) -> PathBuf {
    PathBuf::from("/proc/sys").join(name)
}
