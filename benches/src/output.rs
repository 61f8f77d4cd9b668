//! Results on standard output.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints a line on standard output. If nobody reads it any more (`| head -1`), the program ends without a word, as SIGPIPE would end it, and takes
/// back what it made (namespaces, huge pages), as on any other way out: the thread unwinds.
///
/// # Panics
/// Standard output cannot be written for another reason (a full disk).
pub fn print(line: Arguments<'_>) {
    write(&mut std::io::stdout().lock(), line);
}

fn write(to: &mut impl Write, line: Arguments<'_>) {
    match to.write_fmt(format_args!("{line}\n")).and_then(|()| to.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::panic::resume_unwind(Box::new("nobody reads")),
        Err(error) => panic!("standard output: {error}"),
    }
}

/// `say!("{rate:.2} Mpps")`: a formatted line on standard output, by [`print`](crate::output::print).
#[macro_export]
macro_rules! say {
    ($($text:tt)+) => {
        $crate::output::print(format_args!($($text)+))
    };
}

#[cfg(test)]
mod tests {
    use std::io::{Error, Result};
    use std::panic::catch_unwind;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Takes nothing, because of an error.
    struct Refuses(ErrorKind);

    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            Err(Error::from(self.0))
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// A reader that is gone ends the program without a message, and what it made is dropped; a full disk is told of.
    #[test]
    fn a_reader_that_is_gone_ends_the_program_without_a_word() {
        static MESSAGES: AtomicU32 = AtomicU32::new(0);
        static TAKEN_BACK: AtomicU32 = AtomicU32::new(0);
        struct Made;
        impl Drop for Made {
            fn drop(&mut self) {
                TAKEN_BACK.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::panic::set_hook(Box::new(|_| _ = MESSAGES.fetch_add(1, Ordering::Relaxed)));
        for (kind, messages) in [(ErrorKind::BrokenPipe, 0), (ErrorKind::StorageFull, 1)] {
            let ended = catch_unwind(|| {
                let _made = Made;
                write(&mut Refuses(kind), format_args!("{} Mpps", 1.5));
            });
            assert!(ended.is_err());
            assert_eq!(MESSAGES.load(Ordering::Relaxed), messages, "{kind}");
        }
        _ = std::panic::take_hook();
        assert_eq!(TAKEN_BACK.load(Ordering::Relaxed), 2);
        let mut lines = Vec::new();
        write(&mut lines, format_args!("{} Mpps", 1.5));
        assert_eq!(lines, b"1.5 Mpps\n");
    }
}
