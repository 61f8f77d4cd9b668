//! The one loop that moves packets: a [`Worker`] serves ports for a [`linerate_port::Datapath`], on one thread.
//!
//! ```text
//!   round   receive -> input, tick, output -> transmit -> tx_done; then at most one job from outside        worker.rs
//!   shares  a port whose calls take longer than those of others waits until the others had as much          shares.rs
//!   pause   after a round that moved nothing: flush, look for closed ports, then spin, nap, or sleep       pause.rs idle.rs
//!   ports   ports that break, hang, close or are to go; links that go down and come back                  ports.rs links.rs
//!   rest    of many ports of the kernel, those that bring nothing are looked at when it says that something came  rest.rs
//!   steer   packets of a port with fewer queues than there are workers, each to the worker of its flow         steering.rs
//!   end     input that has arrived, output that waits, packets that ports took and did not finish          ending.rs
//! ```
//! Beside it stand the loops of senders, which go by a schedule and not by what arrives: [`send`], [`replay`], [`send_generated`].
//!
//! [`Control`] stops a loop and reads its counts, a [`Handle`] runs jobs and takes snapshots between two rounds, a [`Notifier`] wakes
//! a thread that sleeps on descriptors. Several workers of a process have each its own ports and datapath; packets for a port of another
//! worker cross by a `pipe:`, whose two ends are ports of the two workers.
#![forbid(unsafe_code)]

mod control;
mod ending;
mod idle;
mod job;
mod links;
mod notifier;
mod pause;
mod ports;
mod receive;
mod replay;
mod rest;
mod send;
mod shares;
mod steering;
mod tx_generator;
mod wait;
mod worker;

pub use control::{Control, Meter, MeterReading};
pub use ending::{End, PortEnd, complete};
pub use idle::Eagerness;
pub use job::{Handle, Job, WorkerEnded};
pub use notifier::{Notifier, Wakeup, notifier};
pub use ports::{Event, HandoffStage, Loss, PortLoss, Role};
pub use receive::{ReceiveEnd, discard, receive};
pub use replay::{ReplayEnd, replay};
pub use send::{SendEnd, after_waiting_for, give_up_ns, send};
pub use steering::{Steered, SteeringCounters};
pub use tx_generator::send_generated;
pub use wait::{Backoff, pause};
pub use worker::{Config, Round, Served, Turns, Worker};
