//! What loss recovery knows of a connection: made at the first sign of loss, so most connections have none.

use super::cubic::Cubic;
use super::prr::Prr;
use super::rack::{Context, Rack};
use crate::{Flags, NONE, Seq, Tcb};

/// Probes in a row without an answer, each after twice the time of the one before it; then only the time-out is left.
pub(super) const PROBES_MAX: u8 = 4;

/// What the congestion window is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// It grows: slow start or congestion avoidance.
    #[default]
    Open,
    /// It was reduced without a loss to repair (ECN, a tail loss probe), and is held for a round trip.
    Reduced,
    /// Fast recovery from a loss.
    Recovery,
    /// Recovery from a retransmission time-out.
    Loss,
}

/// State of loss recovery of one connection. Counts are in sequence numbers (bytes, with SYN and FIN).
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    pub phase: Phase,
    /// End of what had been sent when the phase began (recovery point, `recover` of RFC 6582).
    pub point: Seq,
    /// SACKed; without SACK, what duplicate acknowledgments stand for.
    pub sacked: u32,
    /// Chunks that are SACKed.
    pub sacked_segments: u32,
    /// Taken for lost.
    pub lost: u32,
    /// Taken for lost and not sent again yet.
    pub to_resend: u32,
    /// Sent again and in flight.
    pub resent: u32,
    /// No chunk before this one waits to be sent again; [`NONE`] if none does at all.
    pub resend_from: u32,
    /// Duplicate acknowledgments in a row, where SACK is not agreed.
    pub dup_acks: u32,
    /// Time-outs, or probes of a closed window, in a row.
    pub backoffs: u8,
    /// Tick of the first of them; 0 if there is none.
    pub stuck_since: u32,
    /// R2 of this connection in milliseconds, if the program set it.
    pub patience_ms: Option<u32>,
    pub rack: Rack,
    pub prr: Prr,
    pub cubic: Cubic,
    /// What the last reduction changed, as long as it may turn out to be spurious.
    pub undo: Option<Undo>,
    /// A tail loss probe that is not judged yet.
    pub probe: Option<TailProbe>,
    /// A tail loss probe leaves next.
    pub probe_due: bool,
    /// Probes that left since something last arrived at the peer.
    pub probes: u8,
    /// A round trip was measured since a probe left: probes must not keep a path that became slower from being known as such.
    pub is_measured: bool,
    /// End of the segment that a probe sent again last. That it came twice says that the path or its acknowledgment was slow, and nothing of reordering.
    pub probed: Option<Seq>,
    /// F-RTO (RFC 5682).
    pub frto: Frto,
    /// What is lost is no sign of congestion: it was too long for the path, or the peer took its window back.
    pub is_harmless: bool,
    /// The SYN was sent again.
    pub syn_resent: bool,
    /// Segments that were sent again, over the life of this state.
    pub retransmissions: u32,
    /// The search for the longest segment of the path.
    pub mtu: MtuSearch,
}

/// What a reduction changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub cwnd: u32,
    pub ssthresh: u32,
    pub cubic: Cubic,
    /// Tick of the first retransmission; 0 before it.
    pub resent_at: u32,
    /// Segments that were sent again since.
    pub resent: u32,
    /// Segments of these that the peer reported as duplicates.
    pub duplicates: u32,
    /// The phase is over; the undo is dropped when this is acknowledged.
    pub until: Option<Seq>,
}

/// A tail loss probe (RFC 8985 section 7.4).
#[derive(Clone, Copy, Debug)]
pub(super) struct TailProbe {
    /// `snd_nxt` behind it (TLP.end_seq).
    pub end: Seq,
    /// It was a retransmission (TLP.is_retrans).
    pub is_resent: bool,
}

/// What a connection knows of the search for the longest segment of its path (RFC 8899).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MtuSearch {
    /// MSS before the path was found to take less: no segment may be longer. 0 if that never happened.
    pub mss_max: u16,
    /// MSS that is to be tried next; 0 if none is.
    pub target: u16,
    /// A probe in flight.
    pub probe: Option<MtuProbe>,
    /// The last probe, by the MSS that it tried, and whether it arrived.
    pub fate: Option<(u16, bool)>,
}

/// A segment in flight that is longer than the path is known to take.
#[derive(Clone, Copy, Debug)]
pub(super) struct MtuProbe {
    /// Its chunk.
    pub handle: u32,
    pub end: Seq,
    /// The MSS that it tries.
    pub mss: u16,
}

/// Steps of F-RTO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Frto {
    /// Not in use.
    #[default]
    Off,
    /// The first segment was sent again; the next acknowledgment decides what leaves (step 2).
    Resent,
    /// New data leaves, in place of retransmissions; the next acknowledgment decides (step 3).
    NewData,
}

impl Recovery {
    /// The state at the first sign of loss.
    pub fn new(tcb: &Tcb) -> Recovery {
        Recovery {
            phase: Phase::Open,
            point: tcb.snd_una - 1,
            sacked: 0,
            sacked_segments: 0,
            lost: 0,
            to_resend: 0,
            resent: 0,
            resend_from: NONE,
            dup_acks: 0,
            backoffs: 0,
            stuck_since: 0,
            patience_ms: None,
            rack: Rack::new(tcb.snd_una, tcb.srtt_us),
            prr: Prr::default(),
            cubic: Cubic::default(),
            undo: None,
            probe: None,
            probe_due: false,
            probes: 0,
            is_measured: true,
            probed: None,
            frto: Frto::Off,
            is_harmless: false,
            syn_resent: false,
            retransmissions: 0,
            mtu: MtuSearch::default(),
        }
    }

    /// What is in flight by the best knowledge (`pipe` of RFC 6675).
    pub fn pipe(&self, tcb: &Tcb) -> u32 {
        (tcb.in_flight() + self.resent).saturating_sub(self.sacked + self.lost)
    }

    /// What RACK's reordering window depends on.
    pub fn context(&self, tcb: &Tcb) -> Context {
        Context {
            in_recovery: matches!(self.phase, Phase::Recovery | Phase::Loss),
            sacked_segments: self.sacked_segments,
            srtt_us: tcb.srtt_us,
        }
    }

    /// True if a probe may be scheduled: a tail loss probe (RFC 8985 section 7.2), another if that one is taken for lost, or one that
    /// finds out what became of a retransmission. The RFC leaves the last two to the time-out.
    pub fn may_probe(&self) -> bool {
        let nothing_lost = self.phase == Phase::Open && self.sacked == 0 && self.lost == 0;
        let may_begin = self.is_measured || self.probes > 0;
        (nothing_lost || self.is_repairing())
            && may_begin
            && !self.probe_due
            && self.backoffs == 0
            && self.probes < PROBES_MAX
    }

    /// True while retransmissions may be in flight of which only a probe or a time-out can say whether they arrived.
    pub fn is_repairing(&self) -> bool {
        match self.phase {
            Phase::Recovery => true,
            Phase::Loss => self.frto == Frto::Off,
            Phase::Open | Phase::Reduced => false,
        }
    }

    /// A segment was sent again: what an undo wants to know.
    pub fn note_resent(&mut self, tick: u32) {
        self.retransmissions = self.retransmissions.saturating_add(1);
        if let Some(undo) = &mut self.undo {
            undo.resent += 1;
            if undo.resent_at == 0 {
                undo.resent_at = tick.max(1);
            }
        }
    }

    /// True if the acknowledgment, which brought `snd_una` on, was for a first transmission: it echoes a timestamp from before the first
    /// retransmission (Eifel detection, RFC 3522), or nothing was sent again at all.
    pub fn is_spurious(&self, ts_echo: Option<u32>) -> bool {
        match (&self.undo, ts_echo) {
            (Some(undo), _) if undo.resent == 0 => true,
            (Some(undo), Some(echo)) => (echo.wrapping_sub(undo.resent_at) as i32) < 0,
            _ => false,
        }
    }

    /// True if all that was sent again came twice at the peer.
    pub fn was_all_in_vain(&self) -> bool {
        self.undo.is_some_and(|undo| undo.resent > 0 && undo.duplicates >= undo.resent)
    }

    /// True if the peer's SACK is counted by marks on chunks, rather than by duplicate acknowledgments.
    pub fn has_sack(tcb: &Tcb) -> bool {
        tcb.flags.has(Flags::SACK)
    }
}
