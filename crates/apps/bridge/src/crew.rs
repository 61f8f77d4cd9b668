//! The workers of one run, each on a thread of its own.

use linerate_console::cores::{self, Cores};
use linerate_port::{Caps, FarSide};
use linerate_worker::{Control, End, Worker};

/// Moves packets with all workers, each by `run`, until a stop is asked for, nothing will ever come again, or a port breaks, which ends the others too: the
/// first worker on this thread, the others on threads of their own, each on its core. There is a control for each worker. Returns how
/// each ended, in their order.
pub fn run_all<D: Send>(
    run: fn(&mut Worker<D>, &Control) -> End,
    workers: &mut [Worker<D>],
    controls: &[Control],
    cores: Option<&Cores>,
) -> Vec<End> {
    let run = |(number, worker): (usize, &mut Worker<D>)| {
        if let Some(cores) = cores {
            cores::pin(cores.of(number));
        }
        let end = run(worker, &controls[number]);
        if end.error.is_some() {
            controls.iter().for_each(Control::stop);
        }
        end
    };
    std::thread::scope(|scope| {
        let mut workers = workers.iter_mut().enumerate();
        let (first, run) = (workers.next(), &run);
        let others: Vec<_> = workers.map(|worker| scope.spawn(move || run(worker))).collect();
        let first = first.map(run);
        first.into_iter().chain(others.into_iter().filter_map(|other| other.join().ok())).collect()
    })
}

/// True if packets of a port keep their times on the way, because these are those of a capture file. The times of live ports are of this machine's
/// monotonic clock: a file that they go to notes when it got them.
pub(crate) fn keeps_times(caps: &Caps) -> bool {
    caps.timestamps && caps.far_side == FarSide::File
}
