//! What system calls return, as a result.

use std::io;

/// The number that a system call returned, which is not negative, or the error that it left in errno.
///
/// # Errors
/// The call returned a negative number, as the functions of the C library do that set errno.
pub fn checked<T: Default + PartialOrd>(returned: T) -> io::Result<T> {
    if returned < T::default() { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
