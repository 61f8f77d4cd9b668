//! Watches cores: when a thread of interest waited for its core because other tasks ran there, and which interrupts were long.
//!
//! One program stands at the tracepoint `sched_switch`, two at the entry and the exit of interrupts. They look only at the cores
//! given, and write a record only when something lasted as long as the threshold. Between a thread of interest and the idle task, the
//! common case, the program compares addresses and ends: it calls nothing and reads no clock.
//!
//! How long a thread waited is the kernel's own count (`task_struct.sched_info.run_delay`), so a thread that was woken while
//! another one ran has waited only since then. The time is final when the thread leaves its core the next time.
//!
//! ```text
//! map:    [ head 64 B: records begun ][ slot of a core ] x CORES_MAX [ record ] x RECORDS_MAX
//! ```

mod emit;

use std::sync::OnceLock;

use crate::btf::{Btf, BtfError};
use crate::error::BpfError;
use crate::map::{Map, MapView};
use crate::tracepoint::Tracepoint;

/// Most cores that one watch looks at.
pub const CORES_MAX: usize = 16;
/// Most threads of interest on one core.
pub const THREADS_MAX: usize = 4;
/// Records that are kept from one [`CoreWatch::start`] to the next.
pub const RECORDS_MAX: usize = 2048;

/// The programs, attached; gone when dropped.
#[derive(Debug)]
pub struct CoreWatch {
    cores: Vec<u32>,
    view: MapView,
    _map: Map,
    _tracepoints: Vec<Tracepoint>,
    unseen: Vec<&'static str>,
}

/// Who had the core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taker {
    /// Other tasks, while a thread of interest was ready to run.
    Task {
        /// Process id of the task that ran longest; 0, with no name, if each ran for less than 10 microseconds.
        process: u32,
        /// Its thread id.
        thread: u32,
        /// Its name, at most 15 bytes.
        name: String,
        /// How often a task other than the threads of interest was put on the core meanwhile.
        switches: u32,
    },
    /// A device's interrupt, by number.
    Device(u32),
    /// The core's own timer interrupt.
    Timer,
    /// Work that another core asked this one for.
    FunctionCall,
}

/// A time for which a core was taken. Times are nanoseconds of CLOCK_MONOTONIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Which core.
    pub core: u32,
    /// From.
    pub start_ns: u64,
    /// To.
    pub end_ns: u64,
    /// By whom.
    pub by: Taker,
}

impl CoreWatch {
    /// Loads and attaches the programs for these cores. What lasts for less than `threshold_ns` is not recorded.
    ///
    /// # Errors
    /// [`BpfError::Permission`] without CAP_BPF and CAP_PERFMON; [`BpfError::Types`] on a kernel that does not show its types or
    /// does not count waiting times (CONFIG_SCHED_INFO); [`BpfError::Argument`] for no core or too many.
    pub fn attach(cores: &[u32], threshold_ns: u32) -> Result<CoreWatch, BpfError> {
        if cores.is_empty() || cores.len() > CORES_MAX {
            let text = format!("a watch on {} cores: 1 to {CORES_MAX} are possible", cores.len());
            return Err(BpfError::Argument(text));
        }
        let layout = Layout::known()?;
        let map = Map::shared("core_watch", emit::MAP_BYTES)?;
        let view = map.view()?;
        let emitter = emit::Emitter { cores, threshold_ns, layout, map: &map };
        let mut tracepoints = vec![Tracepoint::attach(c"sched_switch", "linerate_watch", &emitter.switch()?)?];
        let mut unseen = Vec::new();
        for (entry, exit, kind, name) in emit::INTERRUPTS {
            let attached = Tracepoint::attach(entry, "linerate_irq", &emitter.interrupt_entry()?).and_then(|entered| {
                Ok([entered, Tracepoint::attach(exit, "linerate_irq", &emitter.interrupt_exit(kind)?)?])
            });
            match attached {
                Ok(both) => tracepoints.extend(both),
                // Other processors have other interrupts.
                Err(error) if error.errno() == Some(libc::ENOENT) => unseen.push(name),
                Err(error) => return Err(error),
            }
        }
        let watch = CoreWatch { cores: cores.to_vec(), view, _map: map, _tracepoints: tracepoints, unseen };
        watch.start();
        Ok(watch)
    }

    /// The cores that are looked at.
    pub fn cores(&self) -> &[u32] {
        &self.cores
    }

    /// The kinds of interrupts that this kernel has no tracepoint for.
    pub fn unseen(&self) -> &[&'static str] {
        &self.unseen
    }

    /// Forgets all records and all threads of interest.
    pub fn start(&self) {
        self.view.clear();
        for (slot, core) in self.cores.iter().enumerate() {
            self.view.store(emit::slot(slot) + emit::CORE as usize, u64::from(*core));
        }
    }

    /// Adds a thread of interest on a core, by the id that it has in the first PID namespace; false if the core is not looked at
    /// or has [`THREADS_MAX`] threads already.
    pub fn watch(&self, core: u32, thread: u32) -> bool {
        let Some(slot) = self.cores.iter().position(|there| *there == core) else { return false };
        let mut places = (0..THREADS_MAX).map(|number| emit::slot(slot) + emit::thread(number) as usize);
        let taken = places.find(|place| {
            let word = self.view.words().get(place / 8);
            word.is_some_and(|word| {
                let free = word.compare_exchange(
                    0,
                    u64::from(thread),
                    std::sync::atomic::Ordering::Relaxed,
                    std::sync::atomic::Ordering::Relaxed,
                );
                free.is_ok()
            })
        });
        taken.is_some()
    }

    /// Whether a thread of interest has left its core since it was added: it is recognized from then on. If not, its waits are not
    /// known.
    pub fn has_seen(&self, core: u32, thread: u32) -> bool {
        let Some(slot) = self.cores.iter().position(|there| *there == core) else { return false };
        let base = emit::slot(slot);
        (0..THREADS_MAX).any(|number| {
            self.view.load(base + emit::thread(number) as usize) == u64::from(thread)
                && self.view.load(base + emit::task(number) as usize) != 0
        })
    }

    /// The records since the last start, in the order in which they ended, and how many found no room.
    pub fn taken(&self) -> (Vec<Taken>, u64) {
        let begun = self.view.load(0);
        let kept = begun.min(RECORDS_MAX as u64);
        let records = (0..kept as usize).filter_map(|number| self.record(emit::record(number)));
        (records.collect(), begun - kept)
    }

    /// A record; none while it is being written.
    fn record(&self, base: usize) -> Option<Taken> {
        let word = |offset: i16| self.view.load(base + offset as usize);
        let by = match word(emit::RECORD_KIND) {
            emit::KIND_TASK => {
                let ids = word(emit::RECORD_BY);
                let bytes: Vec<u8> = [word(emit::RECORD_NAME), word(emit::RECORD_NAME + 8)]
                    .iter()
                    .flat_map(|word| word.to_ne_bytes())
                    .take_while(|byte| *byte != 0)
                    .collect();
                let name = String::from_utf8_lossy(&bytes).into_owned();
                let switches = u32::try_from(word(emit::RECORD_SWITCHES)).unwrap_or(u32::MAX);
                Taker::Task { process: (ids >> 32) as u32, thread: ids as u32, name, switches }
            }
            emit::KIND_DEVICE => Taker::Device(word(emit::RECORD_BY) as u32),
            emit::KIND_TIMER => Taker::Timer,
            emit::KIND_CALL => Taker::FunctionCall,
            _ => return None,
        };
        let core = word(emit::RECORD_CORE) as u32;
        Some(Taken { core, start_ns: word(emit::RECORD_START), end_ns: word(emit::RECORD_END), by })
    }
}

/// Where this kernel keeps what the programs read, in bytes.
struct Layout {
    prev_argument: i16,
    next_argument: i16,
    task_run_delay: u32,
}

impl Layout {
    fn known() -> Result<&'static Layout, BpfError> {
        static KNOWN: OnceLock<Layout> = OnceLock::new();
        Btf::once(&KNOWN, Layout::read)
    }

    fn read(btf: &Btf) -> Result<Layout, BpfError> {
        // The first parameter is the tracepoint's own and no argument of the program.
        let parameters = btf.parameters("btf_trace_sched_switch")?;
        let mut tasks = parameters.iter().skip(1).enumerate().filter(|(_, parameter)| *parameter == "task_struct *");
        let missing = || BtfError::Missing("two tasks as arguments of the tracepoint sched_switch".into());
        let mut next = || tasks.next().and_then(|(position, _)| i16::try_from(position * 8).ok()).ok_or_else(missing);
        Ok(Layout {
            prev_argument: next()?,
            next_argument: next()?,
            task_run_delay: btf.offset_bytes("task_struct", &["sched_info", "run_delay"])?,
        })
    }
}
