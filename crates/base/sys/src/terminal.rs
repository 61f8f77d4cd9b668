//! Keys of the terminal that a program was started in, while it works.
#![allow(unsafe_code)]

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd};

use crate::poll::{PollFor, poll};

/// Takes keys one by one, without Enter and without showing them, until it is dropped. Ctrl-C and the like still make signals.
#[derive(Debug)]
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// The keys of standard input; `None` if that is no terminal, or one that another process group has at the moment (`linerate ... &`).
    pub fn of_stdin() -> Option<Keys> {
        let stdin = io::stdin();
        let fd = stdin.as_raw_fd();
        // SAFETY: both calls take and return numbers.
        if !stdin.is_terminal() || unsafe { libc::tcgetpgrp(fd) != libc::getpgrp() } {
            return None;
        }
        // SAFETY: termios is a plain C structure; all zeros is a value of it.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: `before` is valid for writing.
        if unsafe { libc::tcgetattr(fd, &raw mut before) } != 0 {
            return None;
        }
        let mut raw = before;
        raw.c_lflag &= !(libc::ICANON | libc::ECHO);
        // SAFETY: `raw` is valid for reading.
        (unsafe { libc::tcsetattr(fd, libc::TCSANOW, &raw const raw) } == 0).then_some(Keys { before })
    }

    /// The next key that was pressed, if there is one; never waits.
    pub fn next(&self) -> Option<u8> {
        let stdin = io::stdin();
        let ready = poll(stdin.as_fd(), PollFor::Reading, 0).ok()?;
        if !ready.ready {
            return None;
        }
        let mut key = 0u8;
        // SAFETY: `key` is valid for writing one byte.
        let read = unsafe { libc::read(stdin.as_raw_fd(), (&raw mut key).cast(), 1) };
        (read == 1).then_some(key)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: `before` is valid for reading.
        unsafe { libc::tcsetattr(io::stdin().as_raw_fd(), libc::TCSANOW, &raw const self.before) };
    }
}
