//! What must hold between any two calls: the list, the counts against a naive count of the marks, the deadline.

use crate::send::SendMemory;
use crate::send::chunk::Marks;
use crate::send::recovery::Recovery;
use crate::{NONE, Tcb};

/// Panics if something does not hold.
pub fn check(tcb: &Tcb, memory: &SendMemory) {
    assert!(tcb.snd_una.at_most(tcb.snd_nxt), "una {:?} > nxt {:?}", tcb.snd_una, tcb.snd_nxt);
    assert!(tcb.queued >= tcb.in_flight());
    let (mut at, mut last, mut seq) = (tcb.head, NONE, tcb.snd_una);
    let (mut sacked, mut segments, mut lost, mut waiting, mut resent) = (0, 0, 0, 0, 0);
    let (mut last_sent, mut bytes, mut first_waiting) = (NONE, 0, None);
    while at != NONE {
        let header = memory.header(at);
        assert_eq!(header.seq, seq, "chunks follow each other");
        assert!(header.len as usize <= memory.room(at) && header.span() > 0);
        let marks = header.marks;
        if header.transmissions > 0 {
            assert!(header.end().at_most(tcb.snd_nxt) && (last_sent == last || last == NONE));
            last_sent = at;
        } else {
            assert!(!marks.has(Marks::SACKED) && !marks.has(Marks::LOST) && !marks.has(Marks::RESENT));
        }
        if marks.has(Marks::SACKED) {
            assert!(!marks.has(Marks::LOST) && !marks.has(Marks::RESENT));
            assert!(memory.header(header.stamp).marks.has(Marks::SACKED), "a run of SACKED chunks ends in one");
            assert!(memory.header(header.stamp).seq.at_least(header.seq));
            sacked += header.span();
            segments += 1;
        }
        if marks.has(Marks::LOST) {
            lost += header.span();
            if !marks.has(Marks::RESENT) {
                waiting += header.span();
                first_waiting = first_waiting.or(Some(header.seq));
            }
        }
        if marks.has(Marks::RESENT) {
            resent += header.span();
        }
        bytes += memory.room(at) + 16;
        (seq, last, at) = (header.end(), at, header.next);
    }
    assert_eq!((seq, last), (tcb.snd_una + tcb.queued, tcb.tail));
    assert_eq!(last_sent, tcb.last_sent, "the last chunk that was sent");
    assert_eq!(bytes, memory.used_bytes(), "memory of this connection alone");
    if tcb.in_flight() > 0 {
        assert_ne!(tcb.send_deadline, 0, "something is in flight and no deadline is set");
    }
    let Some(recovery) = (tcb.cold != NONE).then(|| memory.recoveries[tcb.cold]) else {
        assert_eq!((sacked, lost, resent), (0, 0, 0), "marks without state");
        return;
    };
    if Recovery::has_sack(tcb) {
        assert_eq!((recovery.sacked, recovery.sacked_segments), (sacked, segments), "{recovery:?}");
    }
    assert_eq!((recovery.lost, recovery.to_resend, recovery.resent), (lost, waiting, resent), "{recovery:?}");
    if let Some(first) = first_waiting {
        assert_ne!(recovery.resend_from, NONE);
        assert!(memory.header(recovery.resend_from).seq.at_most(first), "a chunk that waits would be passed over");
    }
}
