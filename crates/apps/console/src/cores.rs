//! Which thread runs on which core.

use std::fs::File;

use linerate_sys::affinity;

use super::claims::{self, Claim, Claims};

/// The cores that `--cores` names, or the choice that is made without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// One core for each thread, in order; empty = threads go where the kernel puts them.
    pins: Vec<usize>,
    /// What a user should know about it.
    pub note: Option<String>,
}

impl Cores {
    /// Cores for `threads` threads. `wanted` is a list as `2,3` or `2-5`, or `none`; without it, each thread gets a core of its
    /// own that no other Linerate uses, if there are enough for that. Other Linerates see the choice until this process ends.
    ///
    /// # Errors
    /// A text that is no list, a core that this process may not use, or fewer cores than threads.
    pub fn choose(wanted: Option<&str>, threads: usize) -> Result<Cores, String> {
        let (cores, claimed) = Cores::choose_from(wanted, threads, &affinity::allowed_cores(), &Claims::of_machine())?;
        claims::keep(claimed);
        Ok(cores)
    }

    fn choose_from(
        wanted: Option<&str>,
        threads: usize,
        allowed: &[usize],
        claims: &Claims,
    ) -> Result<(Cores, Vec<(usize, File)>), String> {
        let unpinned = |note: Option<String>| Ok((Cores { pins: Vec::new(), note }, Vec::new()));
        match wanted {
            Some("none") => unpinned(None),
            Some(list) => {
                let pins = list_of(list)?;
                if let Some(core) = pins.iter().find(|core| !allowed.contains(core)) {
                    return Err(format!("--cores {list}: core {core} is not among those of this process: {allowed:?}"));
                }
                if pins.len() < threads {
                    return Err(format!(
                        "--cores {list}: {} cores for {threads} threads; name one for each, or none",
                        pins.len()
                    ));
                }
                let (_, claimed, used) = claim(pins.iter().take(threads).copied(), threads, claims);
                let note = (!used.is_empty()).then(|| format!("{}; name others with --cores", used.join("; ")));
                Ok((Cores { pins, note }, claimed))
            }
            None if threads > allowed.len() => unpinned(Some(format!(
                "{threads} threads share {} cores: rates and times are those of this machine more than of the path",
                allowed.len()
            ))),
            None => {
                // The last cores first: core 0 has most of the interrupts.
                let (pins, claimed, used) = claim(allowed.iter().rev().copied(), threads, claims);
                if pins.len() < threads {
                    return unpinned(Some(format!(
                        "{}; too few are left, so this process runs where the kernel puts it; name cores with --cores",
                        used.join("; ")
                    )));
                }
                Ok((Cores { pins, note: None }, claimed))
            }
        }
    }

    /// The core of a thread.
    pub fn of(&self, thread: usize) -> Option<usize> {
        self.pins.get(thread).copied()
    }
}

/// Claims `count` of the cores, the first that no other Linerate uses. Returns those, their locks, and who uses the others, in words.
fn claim(
    cores: impl Iterator<Item = usize>,
    count: usize,
    claims: &Claims,
) -> (Vec<usize>, Vec<(usize, File)>, Vec<String>) {
    let (mut free, mut claimed, mut used) = (Vec::new(), Vec::new(), Vec::new());
    for core in cores {
        if free.len() == count {
            break;
        }
        // A core that is named twice is no news to who named it.
        if claims::is_kept(core) || claimed.iter().any(|(own, _)| *own == core) {
            free.push(core);
            continue;
        }
        match claims.claim(core) {
            Claim::Free(lock) => {
                free.push(core);
                claimed.extend(lock.map(|lock| (core, lock)));
            }
            Claim::Used(by) => used.push(format!("core {core} is already used by linerate {by}")),
        }
    }
    (free, claimed, used)
}

/// `0,2-4` -> 0, 2, 3, 4.
///
/// # Errors
/// A text that is no list, or a number above 4,095.
pub fn list_of(text: &str) -> Result<Vec<usize>, String> {
    let refuse = || format!("--cores {text}: a list of cores is 2,3 or 2-5, or none");
    let number = |word: &str| word.parse::<usize>().ok().filter(|core| *core < 4096).ok_or_else(refuse);
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(refuse());
        }
        cores.extend(first..=last);
    }
    Ok(cores)
}

/// Ties the calling thread to `core`, if there is one; a failure costs precision only.
pub fn pin(core: Option<usize>) {
    if let Some(core) = core
        && let Err(error) = affinity::pin_to_core(core)
    {
        super::note(&format!("cannot run on core {core}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(wanted: Option<&str>, threads: usize, allowed: &[usize]) -> Result<Vec<usize>, String> {
        let folder = tempfile::tempdir().unwrap();
        Cores::choose_from(wanted, threads, allowed, &Claims::inside(folder.path())).map(|(cores, _)| cores.pins)
    }

    #[test]
    fn a_core_for_each_thread_where_there_are_enough() {
        assert_eq!(pins(None, 2, &[0, 1, 2]), Ok(vec![2, 1]));
        assert_eq!(pins(None, 3, &[0, 1]), Ok(vec![]));
        assert_eq!(pins(Some("0-1,4"), 3, &[0, 1, 4]), Ok(vec![0, 1, 4]));
        assert_eq!(pins(Some("none"), 9, &[0]), Ok(vec![]));
        for (wanted, threads) in [("3", 1), ("0", 2), ("x", 1), ("1-0", 1), ("", 1), ("0-99999999", 1)] {
            assert!(pins(Some(wanted), threads, &[0, 1]).is_err(), "{wanted}");
        }
    }

    #[test]
    fn two_processes_choose_apart() {
        let folder = tempfile::tempdir().unwrap();
        let claims = Claims::inside(folder.path());
        let choose = |wanted, threads| Cores::choose_from(wanted, threads, &[0, 1, 2], &claims).unwrap();
        let (first, held) = choose(None, 1);
        assert_eq!((first.of(0), &first.note), (Some(2), &None));
        let (second, held_too) = choose(None, 2);
        assert_eq!((second.pins.as_slice(), &second.note), (&[1, 0][..], &None));
        // None is left.
        let (third, none) = choose(None, 1);
        let note = third.note.unwrap();
        assert!(
            third.pins.is_empty() && none.is_empty() && note.contains("core 0 is already used by linerate pid"),
            "{note}"
        );
        // A core that was named is used all the same.
        let (named, _) = choose(Some("1"), 1);
        let note = named.note.clone().unwrap();
        assert!(named.of(0) == Some(1) && note.starts_with("core 1 is already used by linerate pid "), "{note}");
        assert!(note.ends_with("; name others with --cores"), "{note}");
        drop(held_too);
        assert_eq!(choose(None, 2).0.pins, [1, 0]);
        drop(held);
        assert_eq!(choose(None, 1).0.pins, [2]);
        assert!(Cores::choose_from(None, 4, &[0, 1, 2], &claims).unwrap().0.note.is_some());
    }
}
