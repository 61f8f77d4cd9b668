//! Packet generation and its counterpart, without sockets, threads or clocks.
#![forbid(unsafe_code)]

mod departure;
mod divide;
mod field;
mod locate;
mod pace;
mod plan;
mod plan_error;
mod random;
mod receiver;
mod replay;
mod sender;
mod sequence;
mod signature;
mod size;
mod stream;
mod tx_generator;

pub use field::{Advance, FieldPlan, SumTerm, Values};
pub use linerate_measure::Histogram;
pub use locate::{FieldLocation, locate};
pub use pace::{Arrival, CatchUp, Pacer, Schedule};
pub use plan::{Rule, StreamSpec};
pub use plan_error::PlanError;
pub use receiver::{MergedStream, Receiver, ReceiverConfig, STREAMS_MAX, StreamReport};
pub use replay::{Replay, ReplayNext, ReplayPlan, ReplayReport, Speed};
pub use sender::{BATCH_DEFAULT, Next, Sender, SenderPlan, SenderReport};
pub use sequence::{SequenceCounts, SequenceTracker, Start, WINDOW_DEFAULT};
pub use signature::{SIGNATURE_LEN, Signature};
pub use size::{Sizes, mean_len};
pub use stream::{ImagePlan, Stream, StreamPlan, SumPlan};
pub use tx_generator::{TxGeneratorError, reduce_for_tx_generator};
