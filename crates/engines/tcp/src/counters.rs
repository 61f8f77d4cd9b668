//! Counters of a stack: what `nstat` shows of a kernel's, by the kernel's names.

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident = $name:literal,)*) => {
        /// Totals since the stack was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl Counters {
            /// Each counter with the name that `nstat` has for it.
            pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$(($name, self.$field)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Connections begun by `connect`.
    active_opens = "TcpActiveOpens",
    /// Connections begun by peers.
    passive_opens = "TcpPassiveOpens",
    /// Attempts that failed: in SYN-SENT or SYN-RECEIVED.
    attempt_fails = "TcpAttemptFails",
    /// Resets of connections that stood.
    estab_resets = "TcpEstabResets",
    /// Segments received, also bad ones.
    in_segs = "TcpInSegs",
    /// Segments sent, without retransmissions.
    out_segs = "TcpOutSegs",
    /// Segments sent again.
    retrans_segs = "TcpRetransSegs",
    /// Segments with a bad header or checksum.
    in_errs = "TcpInErrs",
    /// Segments with RST sent.
    out_rsts = "TcpOutRsts",
    /// SYN cookies sent.
    syncookies_sent = "TcpExtSyncookiesSent",
    /// SYN cookies that came back.
    syncookies_recv = "TcpExtSyncookiesRecv",
    /// Acknowledgments to listeners that are no SYN cookie of this stack, or an old one.
    syncookies_failed = "TcpExtSyncookiesFailed",
    /// SYN segments to listeners that were dropped.
    listen_drops = "TcpExtListenDrops",
    /// Connections that ended in TIME-WAIT.
    time_wait = "TcpExtTW",
    /// TIME-WAIT records that made room for newer ones.
    time_wait_overflow = "TcpExtTCPTimeWaitOverflow",
    /// TIME-WAIT records that a new connection took over.
    time_wait_recycled = "TcpExtTWRecycled",
    /// Acknowledgments that were delayed.
    delayed_acks = "TcpExtDelayedACKs",
    /// Acknowledgments without data sent.
    pure_acks_out = "TcpExtTCPPureAcksOut",
    /// Acknowledgments without data received.
    pure_acks = "TcpExtTCPPureAcks",
    /// Segments that the fast path took.
    fast_path = "TcpExtTCPHPHits",
    /// Segments that PAWS refused.
    paws_rejected = "TcpExtPAWSEstab",
    /// Challenge acknowledgments (RFC 5961).
    challenge_acks = "TcpExtTCPChallengeACK",
    /// SYN segments in synchronized states.
    syn_challenges = "TcpExtTCPSYNChallenge",
    /// Segments that were queued out of order.
    ofo_queue = "TcpExtTCPOFOQueue",
    /// Segments out of order that no memory was left for.
    ofo_drop = "TcpExtTCPOFODrop",
    /// Segments in order that no memory was left for.
    rcvq_drop = "TcpExtTCPRcvQDrop",
    /// Duplicate SACKs sent.
    dsack_sent = "TcpExtTCPDSACKOldSent",
    /// Connections that keep-alive ended.
    keepalive_fails = "TcpExtTCPAbortOnTimeout",
    /// Keep-alive probes sent.
    keepalive_probes = "TcpExtTCPKeepAlive",
    /// Probes of longer segments that arrived (RFC 8899).
    mtu_probes_arrived = "TcpExtTCPMTUPSuccess",
    /// Probes of longer segments that were lost.
    mtu_probes_lost = "TcpExtTCPMTUPFail",
    /// Paths that were suspected of losing long segments without a word.
    mtu_black_holes = "TcpExtTCPMTUPBlackHole",
    /// Connections refused because the table was full.
    table_full = "TcpExtTCPReqQFullDrop",
    /// Segments that found no connection and no listener.
    no_connection = "TcpExtTCPNoConnection",
    /// Segments that waited for a frame or room in the output.
    output_stalls = "TcpExtTCPOutputStalls",
    /// Segments that carried a congestion mark (CE).
    ecn_ce = "IpExtInCEPkts",
}
