//! Which thread runs on which core.

use linerate_sys::affinity;

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
    /// own if there are enough for that.
    ///
    /// # Errors
    /// A text that is no list, a core that this process may not use, or fewer cores than threads.
    pub fn choose(wanted: Option<&str>, threads: usize) -> Result<Cores, String> {
        Cores::choose_from(wanted, threads, &affinity::allowed_cores())
    }

    fn choose_from(wanted: Option<&str>, threads: usize, allowed: &[usize]) -> Result<Cores, String> {
        let unpinned = |note: Option<String>| Ok(Cores { pins: Vec::new(), note });
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
                Ok(Cores { pins, note: None })
            }
            None if threads > allowed.len() => unpinned(Some(format!(
                "{threads} threads share {} cores: rates and times are those of this machine more than of the path",
                allowed.len()
            ))),
            // The last cores first: core 0 has most of the interrupts.
            None => Ok(Cores { pins: allowed.iter().rev().copied().take(threads).collect(), note: None }),
        }
    }

    /// The core of a thread.
    pub fn of(&self, thread: usize) -> Option<usize> {
        self.pins.get(thread).copied()
    }
}

/// `0,2-4` -> 0, 2, 3, 4.
fn list_of(text: &str) -> Result<Vec<usize>, String> {
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
        Cores::choose_from(wanted, threads, allowed).map(|cores| cores.pins)
    }

    #[test]
    fn a_core_for_each_thread_where_there_are_enough() {
        assert_eq!(pins(None, 2, &[0, 1, 2]), Ok(vec![2, 1]));
        assert_eq!(pins(None, 3, &[0, 1]), Ok(vec![]));
        assert!(Cores::choose_from(None, 3, &[0, 1]).unwrap().note.is_some());
        assert_eq!(pins(Some("0-1,4"), 3, &[0, 1, 4]), Ok(vec![0, 1, 4]));
        assert_eq!(pins(Some("none"), 9, &[0]), Ok(vec![]));
        for (wanted, threads) in [("3", 1), ("0", 2), ("x", 1), ("1-0", 1), ("", 1), ("0-99999999", 1)] {
            assert!(pins(Some(wanted), threads, &[0, 1]).is_err(), "{wanted}");
        }
    }
}
