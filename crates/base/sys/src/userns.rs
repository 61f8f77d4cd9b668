//! A user namespace with its own network and mounts, for ordinary users (user_namespaces(7)).
//!
//! Inside it the user is root over the network namespaces that it makes, and over nothing else. The
//! whole process enters, so it must have one thread; the attempt is made in a child first, because a
//! process that was let in only half way (as AppArmor's restriction does) cannot go back.
#![allow(unsafe_code)]

use std::fs;
use std::io;

use crate::netns;

/// Why a user namespace could not be entered.
#[derive(Debug, thiserror::Error)]
pub enum UserNsError {
    /// The kernel wants the caller to have a single thread.
    #[error("a user namespace can be entered only before threads are started ({0} are running)")]
    Threads(usize),
    /// The kernel, or a security module, said no.
    #[error("the kernel does not allow user namespaces here: {step}: {error}{hint}")]
    Forbidden {
        /// What was being done.
        step: &'static str,
        /// What the kernel answered.
        error: io::Error,
        /// The setting that is likely behind it; empty when none was recognised.
        hint: String,
    },
    /// The attempt could not be made.
    #[error("cannot try to enter a user namespace: {0}")]
    Io(#[from] io::Error),
}

/// What was entered.
#[derive(Debug)]
pub struct UserNs {
    /// The error that kept `/sys` from showing the new namespace, if one did. Settings that live in
    /// sysfs only (threaded NAPI) are then out of reach.
    pub sysfs_error: Option<io::Error>,
}

/// Moves this process into a new user, network and mount namespace in which it is root, with a
/// sysfs of the new network namespace over `/sys`.
///
/// # Errors
/// [`UserNsError`]; the process is then where it was before.
pub fn enter() -> Result<UserNs, UserNsError> {
    let threads = thread_count()?;
    if threads != 1 {
        return Err(UserNsError::Threads(threads));
    }
    attempt_in_child()?;
    enter_here().map_err(Failure::into_error)
}

/// A step that failed, in a form that fits through a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Failure {
    step: usize,
    errno: i32,
}

const STEPS: [&str; 5] =
    ["unshare(CLONE_NEWUSER)", "writing setgroups", "writing uid_map", "writing gid_map", "making a network namespace"];

impl Failure {
    fn at(step: usize) -> impl Fn(io::Error) -> Self {
        move |error| Self { step, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }

    fn into_error(self) -> UserNsError {
        UserNsError::Forbidden {
            step: STEPS.get(self.step).copied().unwrap_or("entering"),
            error: io::Error::from_raw_os_error(self.errno),
            hint: hint(self.errno),
        }
    }
}

fn enter_here() -> Result<UserNs, Failure> {
    // SAFETY: these take no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    netns::unshare(libc::CLONE_NEWUSER).map_err(Failure::at(0))?;
    fs::write("/proc/self/setgroups", "deny").map_err(Failure::at(1))?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(Failure::at(2))?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(Failure::at(3))?;
    netns::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS).map_err(Failure::at(4))?;
    Ok(UserNs { sysfs_error: netns::mount_fresh_sysfs().err() })
}

/// Forks a child that enters and exits; its exit status says whether the caller may follow.
fn attempt_in_child() -> Result<(), UserNsError> {
    // SAFETY: this process has one thread (checked by the caller), so the child may run any code.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error().into()),
        0 => {
            let status = enter_here().map_or_else(exit_status, |_| 0);
            // SAFETY: ends the child at once, without running the parent's exit handlers.
            unsafe { libc::_exit(status) }
        }
        child => match child_status(child)? {
            0 => Ok(()),
            status => Err(failure_of(status).into_error()),
        },
    }
}

/// Eight bits: the step plus one in the upper part would not leave room for every errno, so errors
/// outside the expected ones travel as EIO.
const EXPECTED_ERRNOS: [i32; 8] =
    [libc::EPERM, libc::EINVAL, libc::ENOSPC, libc::EUSERS, libc::ENOSYS, libc::EACCES, libc::EROFS, libc::EIO];

fn exit_status(failure: Failure) -> i32 {
    let known = EXPECTED_ERRNOS.iter().position(|e| *e == failure.errno);
    let errno_index = known.unwrap_or(EXPECTED_ERRNOS.len() - 1);
    1 + (failure.step * EXPECTED_ERRNOS.len() + errno_index) as i32
}

fn failure_of(status: i32) -> Failure {
    let index = (status - 1).max(0) as usize;
    let errno = EXPECTED_ERRNOS.get(index % EXPECTED_ERRNOS.len());
    Failure { step: index / EXPECTED_ERRNOS.len(), errno: errno.copied().unwrap_or(libc::EIO) }
}

fn child_status(child: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the result, and `child` is a child of this process.
        if unsafe { libc::waitpid(child, &mut status, 0) } == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    if libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(io::Error::other("the child that tried it was killed"))
    }
}

fn thread_count() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/task")?.count())
}

/// The setting behind a refusal, with the command that lifts it.
fn hint(errno: i32) -> String {
    let setting = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let is = |path: &str, value: &str| setting(path).is_ok_and(|text| text == value);
    if is("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        return "; root can allow them: sysctl kernel.unprivileged_userns_clone=1".to_owned();
    }
    if is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        return "; root can allow them: sysctl kernel.apparmor_restrict_unprivileged_userns=0".to_owned();
    }
    if errno == libc::ENOSPC || is("/proc/sys/user/max_user_namespaces", "0") {
        return "; root can raise the limit: sysctl user.max_user_namespaces=1000".to_owned();
    }
    match errno {
        libc::EPERM => "; a container's seccomp profile or a chroot forbids it".to_owned(),
        libc::EINVAL | libc::ENOSYS => "; this kernel was built without CONFIG_USER_NS".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_told_so_and_stays_where_it_was() {
        // The test harness runs this on a thread beside the main one.
        let handle = std::thread::spawn(enter);
        let error = handle.join().expect("no panic").expect_err("two threads");
        assert!(matches!(error, UserNsError::Threads(2..)), "{error}");
    }

    #[test]
    fn every_failure_survives_the_exit_status() {
        for step in 0..STEPS.len() {
            for errno in EXPECTED_ERRNOS {
                let failure = Failure { step, errno };
                let status = exit_status(failure);
                assert!((1..=255).contains(&status));
                assert_eq!(failure_of(status), failure);
            }
        }
        let unknown = Failure { step: 2, errno: libc::EXDEV };
        assert_eq!(failure_of(exit_status(unknown)), Failure { step: 2, errno: libc::EIO });
    }

    #[test]
    fn a_refusal_names_the_step() {
        let text = Failure { step: 2, errno: libc::EPERM }.into_error().to_string();
        assert!(text.contains("writing uid_map"), "{text}");
    }
}
