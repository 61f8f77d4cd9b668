//! The control block of a connection: two cache lines, in one [`linerate_slab::Slab`] by `u32` index.

use linerate_ip::HopId;

use crate::Seq;

/// The handle that stands for "none" in every field that holds one.
pub const NONE: u32 = u32::MAX;

/// States of RFC 9293 section 3.3.2, but for LISTEN, which listeners are in, and TIME-WAIT, which has records of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum State {
    /// There is no connection: the block is free.
    #[default]
    Closed,
    /// A SYN was sent by `connect`.
    SynSent,
    /// A SYN was received, and answered with a SYN.
    SynReceived,
    /// Data passes in both directions.
    Established,
    /// The peer closed its direction; this side may still send.
    CloseWait,
    /// This side closed; the peer has not acknowledged that yet.
    FinWait1,
    /// This side closed, and the peer knows; it may still send.
    FinWait2,
    /// Both sides closed at the same time; the peer has not acknowledged the FIN of this side.
    Closing,
    /// The peer closed first, then this side; the peer has not acknowledged that.
    LastAck,
    /// The last one: what `info` shows for a connection that ended in TIME-WAIT.
    TimeWait,
}

impl State {
    /// True if the handshake has begun, and is not over.
    #[inline]
    pub fn is_attempt(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived)
    }
}

/// A set of bits about a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// The addresses are IPv6: `remote` is the index of the pair in a side table.
    pub const V6: Flags = Flags(1);
    /// Both sides send the timestamps option (RFC 7323).
    pub const TIMESTAMPS: Flags = Flags(1 << 1);
    /// Both sides may send SACK (RFC 2018).
    pub const SACK: Flags = Flags(1 << 2);
    /// Both sides scale windows (RFC 7323).
    pub const WINDOW_SCALE: Flags = Flags(1 << 6);
    /// Both sides do ECN (RFC 3168).
    pub const ECN: Flags = Flags(1 << 3);
    /// The connection was accepted by a listener.
    pub const PASSIVE: Flags = Flags(1 << 4);
    /// Segments leave without waiting for acknowledgments (Nagle's algorithm is off).
    pub const NODELAY: Flags = Flags(1 << 5);

    // Send side, owned by `send`.
    /// The congestion window held the sender back when it last had something to send.
    pub const CWND_LIMITED: Flags = Flags(1 << 8);
    /// This side closed: a FIN follows the bytes that were written.
    pub const FIN_QUEUED: Flags = Flags(1 << 9);
    /// The FIN was sent: it is the last number before `snd_nxt`.
    pub const FIN_SENT: Flags = Flags(1 << 10);
    /// A write was cut short; `sendable` is owed.
    pub const SEND_BLOCKED: Flags = Flags(1 << 11);
    /// A probe of the peer's window leaves next.
    pub const WINDOW_PROBE: Flags = Flags(1 << 12);
    /// CWR is owed to the peer (RFC 3168).
    pub const CWR_OWED: Flags = Flags(1 << 13);
    /// With `TIMER_HIGH`: what `send_deadline` is for.
    pub const TIMER_LOW: Flags = Flags(1 << 14);
    /// See `TIMER_LOW`.
    pub const TIMER_HIGH: Flags = Flags(1 << 15);
    /// This side closed, but there was no memory for the FIN yet.
    pub const FIN_OWED: Flags = Flags(1 << 31);

    // Receive side and the rest.
    /// The connection is in the list of those that may have something to send.
    pub const TOUCHED: Flags = Flags(1 << 16);
    /// An ACK leaves with the next emission, even without data.
    pub const ACK_NOW: Flags = Flags(1 << 17);
    /// An acknowledgment is owed at `ack_due` at the latest.
    pub const ACK_DELAYED: Flags = Flags(1 << 18);
    /// ECE is sent until the peer's CWR (RFC 3168).
    pub const ECE_OWED: Flags = Flags(1 << 19);
    /// The peer's FIN was received in order.
    pub const FIN_RECEIVED: Flags = Flags(1 << 20);
    /// The application knows the connection: `closed` is owed to it.
    pub const KNOWN: Flags = Flags(1 << 21);
    /// The application did not take all bytes; the rest waits in `recv`.
    pub const PAUSED: Flags = Flags(1 << 22);
    /// The connection is in the queue of delayed acknowledgments.
    pub const ACK_FILED: Flags = Flags(1 << 23);
    /// The application knows that the peer closed.
    pub const CLOSE_TOLD: Flags = Flags(1 << 24);
    /// A delayed acknowledgment left without data: the program answers small segments later than the delay, or not at all, so the next
    /// ones are acknowledged at once.
    pub const ACK_AT_ONCE: Flags = Flags(1 << 26);

    /// The peer has been silent for so long that its timestamps may be older than the last one (RFC 7323 section 5.5).
    pub const SILENT: Flags = Flags(1 << 25);

    /// True if all bits of `other` are set.
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if a bit of `other` is set.
    #[inline]
    pub const fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// Sets the bits of `other`.
    #[inline]
    pub const fn set(&mut self, other: Flags) {
        self.0 |= other.0;
    }

    /// Clears the bits of `other`.
    #[inline]
    pub const fn clear(&mut self, other: Flags) {
        self.0 &= !other.0;
    }

    /// Sets the bits of `other` if `on`, else clears them.
    #[inline]
    pub const fn put(&mut self, other: Flags, on: bool) {
        if on { self.set(other) } else { self.clear(other) }
    }
}

const _: () = {
    // No two flags are the same bit.
    let flags = [
        Flags::V6,
        Flags::TIMESTAMPS,
        Flags::SACK,
        Flags::WINDOW_SCALE,
        Flags::ECN,
        Flags::PASSIVE,
        Flags::NODELAY,
        Flags::CWND_LIMITED,
        Flags::FIN_QUEUED,
        Flags::FIN_SENT,
        Flags::SEND_BLOCKED,
        Flags::WINDOW_PROBE,
        Flags::CWR_OWED,
        Flags::TIMER_LOW,
        Flags::TIMER_HIGH,
        Flags::FIN_OWED,
        Flags::TOUCHED,
        Flags::ACK_NOW,
        Flags::ACK_DELAYED,
        Flags::ECE_OWED,
        Flags::FIN_RECEIVED,
        Flags::KNOWN,
        Flags::PAUSED,
        Flags::ACK_FILED,
        Flags::CLOSE_TOLD,
        Flags::ACK_AT_ONCE,
        Flags::SILENT,
    ];
    let (mut seen, mut number) = (0, 0);
    while number < flags.len() {
        assert!(flags[number].0.is_power_of_two() && seen & flags[number].0 == 0);
        (seen, number) = (seen | flags[number].0, number + 1);
    }
};

impl std::ops::BitOr for Flags {
    type Output = Flags;

    #[inline]
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// The control block. The first line holds all that a segment in sequence reads; who writes a field stands beside it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Tcb {
    // The first line.
    /// Remote IPv4 address, or index of the pair of IPv6 addresses.
    pub remote: u32,
    /// Local IPv4 address.
    pub local: u32,
    /// Remote port.
    pub remote_port: u16,
    /// Local port.
    pub local_port: u16,
    /// Bits.
    pub flags: Flags,
    /// State.
    pub state: State,
    /// Window scales: the shift of windows that the peer sends in the low four bits, of those that this side sends in the high ones.
    pub scales: u8,
    /// Longest segment that arrived, in bytes of data, at least 536 and at most this side's MSS: what counts as a full segment.
    pub rcv_mss: u16,
    /// Counts how often the block was used again.
    pub generation: u32,
    /// Oldest number that is not acknowledged (`send`).
    pub snd_una: Seq,
    /// Next number to send, behind everything that was ever sent (`send`).
    pub snd_nxt: Seq,
    /// Window of the peer in bytes, from `snd_una` on (`send`).
    pub snd_wnd: u32,
    /// Next number that is expected.
    pub rcv_nxt: Seq,
    /// Right edge of the window that was advertised; it never moves to the left.
    pub rcv_edge: Seq,
    /// `rcv_nxt` as of the last acknowledgment that was sent.
    pub ack_sent: Seq,
    /// Timestamp to echo (TS.Recent of RFC 7323).
    pub ts_recent: u32,
    /// Tick that the block's entry of the timer wheel is filed under; 0 if there is none. It outlives the connection, as the entry does.
    pub filed: u32,
    /// First chunk that is kept until it is acknowledged (`send`).
    pub head: u32,
    /// Last chunk (`send`).
    pub tail: u32,

    // The second line.
    /// The application's own word.
    pub token: u64,
    /// Smoothed round-trip time in microseconds; 0 before the first measurement (`send`).
    pub srtt_us: u32,
    /// Variation of the round-trip time in microseconds (`send`).
    pub rttvar_us: u32,
    /// Congestion window in bytes (`send`).
    pub cwnd: u32,
    /// Slow start threshold in bytes (`send`).
    pub ssthresh: u32,
    /// Sequence number of the segment that last updated the window (`send`). WL2 of RFC 9293 is not needed: an acceptable
    /// acknowledgment is never before it.
    pub snd_wl1: Seq,
    /// Bytes that were written and are not acknowledged (`send`).
    pub queued: u32,
    /// Tick of the earliest deadline of `send`; 0 if there is none (`send`).
    pub send_deadline: u32,
    /// Difference between the clock of the timestamps option and the tick (RFC 7323 section 5.4).
    pub ts_offset: u32,
    /// Next hop.
    pub hop: HopId,
    /// State of `send` that most connections do not need ([`NONE`] if there is none).
    pub cold: u32,
    /// Last chunk that was sent ([`NONE`] if none of those that are kept was); the next one was never sent (`send`).
    pub last_sent: u32,
    /// State of the receive side that most connections do not need ([`NONE`] if there is none).
    pub recv: u32,
    /// Most bytes of data in a segment to the peer, without options.
    pub mss: u16,
    /// Largest window that the peer ever advertised, unscaled.
    pub max_wnd: u16,
    /// Low 16 bits of the tick at which a delayed acknowledgment leaves, if `ACK_DELAYED`; with `ACK_AT_ONCE`, of the tick at which it would
    /// have left.
    pub ack_due: u16,
    /// When data was last sent, in units of 16 ticks (`send`).
    pub sent_at: u16,
}

const _: () = assert!(size_of::<Tcb>() == 128 && std::mem::offset_of!(Tcb, token) == 64);

impl Default for Tcb {
    /// A free block.
    fn default() -> Tcb {
        Tcb {
            remote: 0,
            local: 0,
            remote_port: 0,
            local_port: 0,
            flags: Flags(0),
            state: State::Closed,
            scales: 0,
            rcv_mss: 536,
            generation: 0,
            snd_una: Seq(0),
            snd_nxt: Seq(0),
            snd_wnd: 0,
            rcv_nxt: Seq(0),
            rcv_edge: Seq(0),
            ack_sent: Seq(0),
            ts_recent: 0,
            filed: 0,
            head: NONE,
            tail: NONE,
            token: 0,
            srtt_us: 0,
            rttvar_us: 0,
            cwnd: 0,
            ssthresh: u32::MAX,
            snd_wl1: Seq(0),
            queued: 0,
            send_deadline: 0,
            ts_offset: 0,
            hop: HopId::NONE,
            cold: NONE,
            last_sent: NONE,
            recv: NONE,
            mss: 536,
            max_wnd: 0,
            ack_due: 0,
            sent_at: 0,
        }
    }
}

impl Tcb {
    /// Shift of the windows that the peer sends.
    #[inline]
    pub fn snd_scale(&self) -> u32 {
        u32::from(self.scales & 15)
    }

    /// Shift of the windows that this side sends.
    #[inline]
    pub fn rcv_scale(&self) -> u32 {
        u32::from(self.scales >> 4)
    }

    /// Largest window that the peer ever advertised, in bytes (MAX.SND.WND).
    #[inline]
    pub fn max_window(&self) -> u32 {
        u32::from(self.max_wnd) << self.snd_scale()
    }

    /// Most bytes of data in a segment now: the MSS less the timestamps option.
    #[inline]
    pub fn payload_max(&self) -> u32 {
        u32::from(self.mss).saturating_sub(if self.flags.has(Flags::TIMESTAMPS) { 12 } else { 0 }).max(1)
    }

    /// True if the three-way handshake is over.
    #[inline]
    pub fn is_synchronized(&self) -> bool {
        self.state >= State::Established
    }

    /// Bytes (and SYN, FIN) that were sent and are not acknowledged.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.snd_nxt - self.snd_una
    }

    /// Puts the connection, whose block has this index, into the list of those that may have something to send.
    #[inline]
    pub(crate) fn touch(&mut self, index: u32, touched: &mut Vec<u32>) {
        if !self.flags.has(Flags::TOUCHED) {
            self.flags.set(Flags::TOUCHED);
            touched.push(index);
        }
    }
}
