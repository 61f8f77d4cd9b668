//! What an intake sends to the writer's thread.

use std::sync::mpsc::SyncSender;

use linerate_capture::WriteBuffer;
use linerate_pcapng::Statistics;

pub(crate) enum Message {
    Buffer {
        intake: usize,
        buffer: WriteBuffer,
    },
    Statistics(Statistics),
    /// Answer when all that came before is done.
    Barrier(SyncSender<()>),
}
