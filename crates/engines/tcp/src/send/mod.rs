//! The send side of a connection: bytes that were written and are not acknowledged, what leaves now, loss recovery, congestion
//! control, round-trip times and time-outs. It knows nothing of frames, demultiplexing or the application.
//!
//! The rest of the stack calls it like this:
//! ```text
//! open          a SYN is to be sent (connect, or the answer of a listener); or, for a SYN cookie that came back, `established` at once
//! established   the handshake is over: MSS, scales, flags and the first window stand in the Tcb
//! write, close  the application
//! on_ack        each acceptable segment with ACK, in every state; it updates the window, too
//! next_segment  after each batch for each connection that was touched, in a loop until it returns None
//! on_timer      `deadline` has come
//! ended         the connection is gone; everything is given back
//! ```

use linerate_slab::ReserveError;

use crate::{Now, Seq, Tcb};

/// Shape of the send side.
#[derive(Clone, Copy, Debug)]
pub struct SendConfig {
    /// Connections that there can be.
    pub connections_max: usize,
    /// Bytes of all connections together that can be kept until they are acknowledged.
    pub budget_bytes: usize,
    /// Bytes of one connection.
    pub buffer_max: u32,
    /// Least retransmission time-out in milliseconds.
    pub rto_min_ms: u32,
    /// Segments in the first congestion window (RFC 6928).
    pub initial_window: u32,
    /// Algorithm of congestion control.
    pub congestion: Congestion,
}

impl Default for SendConfig {
    fn default() -> SendConfig {
        SendConfig {
            connections_max: 65_536,
            budget_bytes: 256 << 20,
            buffer_max: 4 << 20,
            rto_min_ms: 200,
            initial_window: 10,
            congestion: Congestion::Cubic,
        }
    }
}

/// Algorithms of congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 9438.
    #[default]
    Cubic,
    /// RFC 5681, RFC 6582.
    NewReno,
}

/// Memory of the send sides of all connections of a stack.
pub struct SendMemory {
    config: SendConfig,
}

impl SendMemory {
    /// Reserves the memory.
    ///
    /// # Errors
    /// The kernel does not reserve so much address space.
    pub fn new(config: SendConfig) -> Result<SendMemory, ReserveError> {
        Ok(SendMemory { config })
    }

    /// Asks for the line of the connection's oldest chunk, which an acknowledgment will read. `tcb` is in the cache already.
    #[inline]
    pub fn prefetch(&self, tcb: &Tcb) {
        let _ = (self.config, tcb);
    }

    /// Bytes that connections hold now; 0 when all have ended.
    pub fn used_bytes(&self) -> usize {
        0
    }
}

/// What a segment with ACK says to the send side. The caller has checked that the segment is acceptable (RFC 9293 section 3.10.7.4,
/// first to fifth), so that `ack` is at most `snd_nxt`; it may be before `snd_una`.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// SEG.ACK.
    pub ack: Seq,
    /// SEG.SEQ.
    pub seq: Seq,
    /// SEG.WND in bytes, scaled.
    pub wnd: u32,
    /// Ranges of the SACK option, in the order of the option; the first may be a duplicate (RFC 2883).
    pub sack: &'a [(Seq, Seq)],
    /// Tick at which the segment was sent that the timestamps option echoes.
    pub ts_echo: Option<u32>,
    /// The segment has ECE (and is no SYN).
    pub ece: bool,
    /// Bytes of data in the segment, plus SYN and FIN: a segment that has any is no duplicate acknowledgment.
    pub len: u32,
}

/// What an acknowledgment changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Bytes of data that were acknowledged.
    pub bytes_acked: u32,
    /// The SYN was acknowledged.
    pub syn_acked: bool,
    /// The FIN was acknowledged.
    pub fin_acked: bool,
    /// There is room, and a write was cut short before: `sendable` is due. `SEND_BLOCKED` is cleared.
    pub room_again: bool,
}

/// A segment that leaves now.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// SEG.SEQ.
    pub seq: Seq,
    /// The data; the longest is [`Tcb::payload_max`].
    pub data: &'a [u8],
    /// PSH.
    pub push: bool,
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// The segment was sent before.
    pub retransmission: bool,
    /// CWR (RFC 3168).
    pub cwr: bool,
}

/// What a deadline changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOutcome {
    /// Nothing was due.
    Nothing,
    /// `next_segment` may have something.
    Send,
    /// The peer did not answer for too long (R2): the connection ends.
    GiveUp,
}

/// The SYN of this side is to be sent: `snd_una` and `snd_nxt` are the initial sequence number.
pub fn open(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) {
    let _ = (tcb, memory, now);
}

/// The handshake is over.
pub fn established(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) {
    let _ = (tcb, memory, now);
}

/// Takes bytes to be sent and returns how many: as many as the send buffer and the budget have room for. If these are not all,
/// `SEND_BLOCKED` is set. Also before the handshake is over; 0 after `close`.
pub fn write(tcb: &mut Tcb, memory: &mut SendMemory, bytes: &[u8], now: Now) -> usize {
    let _ = (tcb, memory, bytes, now);
    0
}

/// Bytes that `write` would take now.
pub fn room(tcb: &Tcb, memory: &SendMemory) -> usize {
    let _ = (tcb, memory);
    0
}

/// A FIN follows the bytes that were written.
pub fn close(tcb: &mut Tcb, memory: &mut SendMemory) {
    let _ = (tcb, memory);
}

/// Takes an acknowledgment and updates the window.
pub fn on_ack(tcb: &mut Tcb, memory: &mut SendMemory, ack: &Ack<'_>, now: Now) -> AckOutcome {
    let _ = (tcb, memory, ack, now);
    AckOutcome::default()
}

/// The next segment that may leave now: by Nagle, the peer's window, the congestion window, recovery, and probes. The caller sends it.
pub fn next_segment<'a>(tcb: &mut Tcb, memory: &'a mut SendMemory, now: Now) -> Option<Outgoing<'a>> {
    let _ = (tcb, memory, now);
    None
}

/// The tick at which `on_timer` is due; 0 if there is none.
#[inline]
pub fn deadline(tcb: &Tcb) -> u32 {
    tcb.send_deadline
}

/// Does what is due now: time-outs, probes, reordering timers.
pub fn on_timer(tcb: &mut Tcb, memory: &mut SendMemory, now: Now) -> TimerOutcome {
    let _ = (tcb, memory, now);
    TimerOutcome::Nothing
}

/// The path takes segments of at most `mss` bytes from now on. What was sent in longer ones is sent again in shorter ones.
pub fn mtu_changed(tcb: &mut Tcb, memory: &mut SendMemory, mss: u16, now: Now) {
    let _ = (memory, now);
    tcb.mss = mss;
}

/// The retransmission time-out in milliseconds, with its back-off.
pub fn rto_ms(tcb: &Tcb, memory: &SendMemory) -> u32 {
    let _ = (tcb, memory);
    1000
}

/// The connection is gone: its memory is given back.
pub fn ended(tcb: &mut Tcb, memory: &mut SendMemory) {
    let _ = (tcb, memory);
}
