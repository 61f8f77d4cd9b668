//! `-a` and `-c`: which CPU each thread runs on.

use super::options::UsageError;

/// The CPUs that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// What the first line says: `-c`, 1 unless given.
    pub shown: usize,
    /// Number of CPUs over which pinned threads go round.
    modulus: usize,
    first: Option<usize>,
}

impl Cpus {
    /// Works out the CPUs from `-a` and `-c` on a machine with `online` of them; the text is a warning.
    ///
    /// # Errors
    /// When `-a` names a CPU that the machine has not.
    pub fn new(
        affinity: Option<usize>,
        cpus: Option<usize>,
        online: usize,
    ) -> Result<(Cpus, Option<String>), UsageError> {
        if let Some(first) = affinity
            && first >= online
        {
            return Err(UsageError::new(
                format!("-a {first}: this machine has {online} cpus"),
                format!("-a takes a number from 0 to {}", online - 1),
            ));
        }
        let wanted = match cpus {
            Some(0) => online,
            Some(count) => count,
            None => 1,
        };
        let shown = wanted.min(online);
        let warning =
            (wanted > online).then(|| format!("{wanted} cpus is too high, have only {online} cpus, using them"));
        // The original takes the default of one CPU for a limit, so that -a alone always meant CPU 0.
        let modulus = if cpus.is_some() { shown } else { online };
        Ok((Cpus { shown, modulus, first: affinity }, warning))
    }

    /// The CPU of thread `thread`; `None` = wherever the scheduler puts it.
    pub fn of_thread(&self, thread: usize) -> Option<usize> {
        Some((self.first? + thread) % self.modulus.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(affinity: Option<usize>, cpus: Option<usize>, online: usize) -> (usize, Vec<Option<usize>>) {
        let (cpus, _) = Cpus::new(affinity, cpus, online).expect("valid");
        (cpus.shown, (0..3).map(|thread| cpus.of_thread(thread)).collect())
    }

    #[test]
    fn threads_go_round_over_the_cpus() {
        assert_eq!(of(None, None, 4), (1, vec![None, None, None]));
        assert_eq!(of(Some(3), None, 4), (1, vec![Some(3), Some(0), Some(1)]));
        assert_eq!(of(Some(1), Some(2), 4), (2, vec![Some(1), Some(0), Some(1)]));
        assert_eq!(of(Some(0), Some(0), 4), (4, vec![Some(0), Some(1), Some(2)]));
        // The published command line with -c 4, on a smaller machine.
        assert_eq!(of(None, Some(4), 2).0, 2);
        assert!(Cpus::new(None, Some(4), 2).expect("valid").1.is_some_and(|text| text.contains("have only 2")));
        assert!(Cpus::new(Some(2), None, 2).is_err());
    }
}
