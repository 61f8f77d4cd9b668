//! Impairments in front of any port: loss, delay, jitter, reordering, duplication, corruption and a limited rate, from a seed.
//!
//! ```text
//! program  --- transmit ---> [ fate: lost? copied? a bit changed? ] -> [ rate ] -> [ delay, jitter ] --->  port
//!          <--- receive ---- [ the same, with its own settings and its own random sequence        ] <---
//! ```
//! [`Settings`] are what is done in one direction, in the words of tc-netem(8); [`Impairments`] are those of a port, from the options of
//! its name; [`Impaired`] is the port. The fate of a packet depends on the seed, the direction and the packet's number there, and
//! on nothing else: not on time, nor on batches. `docs/impair.md` is the manual.
//!
//! ```text
//! settings.rs   what is done, as words                random.rs     sequences and decisions
//! fate.rs       what happens to each packet           queue.rs      packets that wait
//! direction.rs  one direction, its rate and account   port.rs       the port around a port
//! options.rs    impair=, impair-rx=, impair-tx=       clock.rs      where the time comes from
//! ```
#![forbid(unsafe_code)]

mod clock;
mod direction;
mod fate;
mod options;
mod port;
mod queue;
mod random;
mod settings;

pub use clock::{Clock, Monotonic};
pub use options::Impairments;
pub use port::Impaired;
pub use settings::{Chance, LinkRate, Loss, Settings};
