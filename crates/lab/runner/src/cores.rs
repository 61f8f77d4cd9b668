//! What runs on which core: an experiment's wish and the cores that this process may use.

use linerate_experiment::{Cores as Wanted, DutCores, TopologyKind};

use linerate_testbed::placement::Placement;
use linerate_tester::Cores;

/// A placement on cores that there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Of the threads, and of the DUT's first hop.
    pub(super) threads: Cores,
    /// How the first hop gets there.
    pub(super) placement: Placement,
    /// The cores that the experiment gave to the DUT; none where it did not say.
    pub(super) of_dut: Vec<usize>,
}

/// Chooses among the cores `allowed`. What an experiment leaves open: generator and DUT on cores of their own where there are two, the
/// receiving thread on a third one, else beside the generator, since it sleeps most of the time.
///
/// # Errors
/// What there is not, in words.
pub(super) fn choose(wanted: &Wanted, topology: &TopologyKind, allowed: &[usize]) -> Result<Chosen, String> {
    let named = [wanted.generator, wanted.receiver].into_iter().flatten();
    let listed = match &wanted.dut {
        DutCores::Listed(cores) => cores.as_slice(),
        DutCores::Chosen | DutCores::Shared | DutCores::Own(_) => &[],
    };
    if let Some(missing) = named.chain(listed.iter().copied()).find(|core| !allowed.contains(core)) {
        return Err(format!("core {missing} is asked for, and this process may use {}", words(allowed)));
    }
    let first_of = |taken: &[usize]| allowed.iter().copied().find(|core| !taken.contains(core));
    let taken: Vec<usize> = listed.to_vec();
    let generator = wanted.generator.or(first_of(&taken)).or(allowed.first().copied());
    let others: Vec<usize> = allowed.iter().copied().filter(|core| Some(*core) != generator).collect();
    let (dut, of_dut) = match &wanted.dut {
        DutCores::Chosen => (others.first().copied().or(generator), Vec::new()),
        DutCores::Shared => (generator, generator.into_iter().collect()),
        DutCores::Listed(cores) => (cores.first().copied(), cores.clone()),
        DutCores::Own(count) => {
            // Not the receiver's, where that leaves enough.
            let free: Vec<usize> = others.iter().copied().filter(|core| Some(*core) != wanted.receiver).collect();
            let free = if free.len() < *count { &others } else { &free };
            let Some(own) = free.get(..*count) else {
                let needed = count + 1;
                return Err(format!(
                    "this placement needs {needed} cores, and this process may use {}",
                    words(allowed)
                ));
            };
            (own.first().copied(), own.to_vec())
        }
    };
    let mut busy: Vec<usize> = if *topology == TopologyKind::InProcess { Vec::new() } else { of_dut.clone() };
    busy.extend(generator);
    if *topology != TopologyKind::InProcess {
        busy.extend(dut);
    }
    let receiver = wanted.receiver.or(first_of(&busy)).or(generator);
    let apart = dut.filter(|core| wanted.dut != DutCores::Shared && generator != Some(*core));
    // Several cores need a thread that hands packets out, wherever it runs.
    let apart = if of_dut.len() > 1 { dut } else { apart };
    let placement = match apart {
        Some(core) => Placement::Thread { core: Some(core) },
        None => Placement::SenderContext,
    };
    Ok(Chosen { threads: Cores { generator, generator_back: None, dut, receiver }, placement, of_dut })
}

impl Chosen {
    /// Where the device works: on its own cores, or where its first hop does.
    pub(super) fn cores_of_dut(&self) -> Vec<usize> {
        if self.of_dut.is_empty() { self.threads.dut.into_iter().collect() } else { self.of_dut.clone() }
    }
}

fn words(cores: &[usize]) -> String {
    let list = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    format!("{} ({list})", if cores.len() == 1 { "one core".to_owned() } else { format!("{} cores", cores.len()) })
}

/// Which part runs on which core, and which share one: `generator on core 0, DUT on core 1, receiver on core 0: generator and receiver
/// share core 0`.
pub(super) fn in_words(roles: &[(&str, Vec<usize>)]) -> String {
    let numbers = |cores: &[usize]| cores.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let place = |(role, cores): &(&str, Vec<usize>)| match cores.as_slice() {
        [] => format!("{role} on any core"),
        [core] => format!("{role} on core {core}"),
        cores => format!("{role} on cores {}", numbers(cores)),
    };
    let places = roles.iter().map(place).collect::<Vec<_>>().join(", ");
    let mut all: Vec<usize> = roles.iter().flat_map(|(_, cores)| cores.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    let on = |core: usize| roles.iter().filter(move |(_, cores)| cores.contains(&core)).map(|(role, _)| *role);
    let shared = all.into_iter().filter(|core| on(*core).count() > 1);
    let shared: Vec<String> =
        shared.map(|core| format!("{} share core {core}", on(core).collect::<Vec<_>>().join(" and "))).collect();
    if shared.is_empty() { format!("{places}: none share a core") } else { format!("{places}: {}", shared.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(wanted: &Wanted, allowed: &[usize]) -> Result<Chosen, String> {
        choose(wanted, &TopologyKind::Namespaces, allowed)
    }

    fn dut(dut: DutCores) -> Wanted {
        Wanted { dut, ..Wanted::default() }
    }

    fn places(chosen: &Chosen) -> [Option<usize>; 3] {
        [chosen.threads.generator, chosen.threads.dut, chosen.threads.receiver]
    }

    #[test]
    fn what_is_left_open_is_kept_apart_as_far_as_there_are_cores() {
        let chosen = |cores: &[usize]| of(&Wanted::default(), cores).expect("chosen");
        assert_eq!(places(&chosen(&[0, 1, 2])), [Some(0), Some(1), Some(2)]);
        assert_eq!(places(&chosen(&[4, 6])), [Some(4), Some(6), Some(4)]);
        assert_eq!(places(&chosen(&[3])), [Some(3); 3]);
        assert_eq!(chosen(&[0, 1]).placement, Placement::Thread { core: Some(1) });
        assert_eq!(chosen(&[3]).placement, Placement::SenderContext);
        assert!(chosen(&[0, 1]).of_dut.is_empty(), "its processes are the scheduler's");
        let inside = choose(&Wanted::default(), &TopologyKind::InProcess, &[0, 1]).expect("chosen");
        assert_eq!(places(&inside), [Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn a_device_gets_what_is_asked_for_or_the_reason_why_not() {
        let shared = of(&dut(DutCores::Shared), &[0, 1]).expect("shared");
        assert_eq!((places(&shared), shared.placement), ([Some(0), Some(0), Some(1)], Placement::SenderContext));
        let two = of(&dut(DutCores::Own(2)), &[0, 1, 2, 3]).expect("two");
        assert_eq!((places(&two), two.of_dut), ([Some(0), Some(1), Some(3)], vec![1, 2]));
        let error = of(&dut(DutCores::Own(2)), &[0, 1]).expect_err("two cores");
        assert_eq!(error, "this placement needs 3 cores, and this process may use 2 cores (0, 1)");
        let listed = of(&dut(DutCores::Listed(vec![0])), &[0, 1]).expect("listed");
        assert_eq!(
            (places(&listed), listed.placement),
            ([Some(1), Some(0), Some(1)], Placement::Thread { core: Some(0) })
        );
        let both = of(&dut(DutCores::Listed(vec![0, 1])), &[0, 1]).expect("both");
        assert_eq!((places(&both), both.placement), ([Some(0), Some(0), Some(0)], Placement::Thread { core: Some(0) }));
        let wanted = Wanted { generator: Some(7), ..Wanted::default() };
        assert_eq!(of(&wanted, &[3]).expect_err("no 7"), "core 7 is asked for, and this process may use one core (3)");
        let beside = Wanted { receiver: Some(1), ..dut(DutCores::Own(1)) };
        assert_eq!(places(&of(&beside, &[0, 1, 2]).expect("chosen")), [Some(0), Some(2), Some(1)]);
        assert_eq!(places(&of(&beside, &[0, 1]).expect("chosen")), [Some(0), Some(1), Some(1)]);
        let together = Wanted { generator: Some(1), ..dut(DutCores::Listed(vec![1])) };
        assert_eq!(of(&together, &[0, 1]).expect("chosen").placement, Placement::SenderContext);
    }

    #[test]
    fn the_words_say_who_shares() {
        let roles = [("generator", vec![0]), ("DUT", vec![0, 1]), ("receiver", vec![])];
        let words = "generator on core 0, DUT on cores 0, 1, receiver on any core: generator and DUT share core 0";
        assert_eq!(in_words(&roles), words);
        let roles = [("generator", vec![0]), ("DUT", vec![1])];
        assert_eq!(in_words(&roles), "generator on core 0, DUT on core 1: none share a core");
    }
}
