//! The connections of a program, as a document: read from the stack, and written as JSON and read from it in this crate, because they may be
//! millions.

use linerate_tcp::{Info, Io, Origin, State};
use serde::{Deserialize, Serialize};

/// What is known of connections from index `after` on, of `most` at most, and the index to go on from; `None` after the last one. A job of the
/// worker: free places cost a look each, so the looks are bounded, too, by `64 * most`.
pub fn connections(io: &Io<'_>, after: u32, most: u32) -> (Vec<Info>, Option<u32>) {
    let indexes = io.connection_indexes();
    let last = indexes.min(after.saturating_add(64 * most));
    let mut infos = Vec::new();
    for index in after..last {
        if infos.len() >= most as usize {
            return (infos, Some(index));
        }
        infos.extend(io.connection_at(index).and_then(|conn| io.info(conn)));
    }
    (infos, (last < indexes).then_some(last))
}

/// The document of these connections, as JSON.
pub fn document_text(infos: &[Info], next: Option<u32>) -> String {
    json(&ConnectionsDocument { connections: infos.iter().map(ConnectionDocument::new).collect(), next })
}

/// Connections as a JSON array.
pub fn list_text(connections: &[ConnectionDocument]) -> String {
    json(connections)
}

/// The document in the line of a reply of the control socket; `None` if the line is something else.
pub fn read_reply(line: &[u8]) -> Option<ConnectionsDocument> {
    #[derive(Deserialize)]
    struct Reply {
        ok: ConnectionsDocument,
    }
    serde_json::from_slice(line).ok().map(|Reply { ok }| ok)
}

/// Numbers, texts and lists of them are always JSON.
fn json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Some connections.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionsDocument {
    /// The connections.
    pub connections: Vec<ConnectionDocument>,
    /// Where the next request goes on; `None` after the last one.
    pub next: Option<u32>,
}

/// A connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionDocument {
    /// `ESTAB` and the like, as `ss` writes them.
    pub state: String,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// True if this side began it.
    pub connected: bool,
    /// Bytes that arrived and wait for the program.
    pub receive_queued: u32,
    /// Bytes that were written and are not acknowledged.
    pub send_queued: u32,
    /// Bytes in flight.
    pub in_flight: u32,
    /// Most bytes of data in a segment.
    pub mss: u16,
    /// Smoothed round-trip time in microseconds; 0 before the first measurement.
    pub rtt_us: u32,
    /// Its variation in microseconds.
    pub rtt_variation_us: u32,
    /// Retransmission time-out in milliseconds.
    pub rto_ms: u32,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start threshold in bytes; `None` before the first loss.
    pub ssthresh: Option<u32>,
    /// Window of the peer in bytes.
    pub send_window: u32,
    /// Window of this side in bytes.
    pub receive_window: u32,
    /// Window scales: of the peer, of this side.
    pub window_scales: (u8, u8),
    /// `ts`, `sack`, `ecn`: the options that both sides use.
    pub options: Vec<String>,
    /// Time-outs in a row.
    pub backoffs: u8,
}

impl ConnectionDocument {
    fn new(info: &Info) -> ConnectionDocument {
        let state = match info.state {
            State::Closed => "CLOSED",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECV",
            State::Established => "ESTAB",
            State::CloseWait => "CLOSE-WAIT",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        };
        let options = [("ts", info.timestamps), ("sack", info.sack), ("ecn", info.ecn)];
        ConnectionDocument {
            state: state.into(),
            local: info.local.to_string(),
            remote: info.remote.to_string(),
            connected: info.origin == Origin::Connected,
            receive_queued: info.receive_queued,
            send_queued: info.queued,
            in_flight: info.in_flight,
            mss: info.mss,
            rtt_us: info.srtt_us,
            rtt_variation_us: info.rttvar_us,
            rto_ms: info.rto_ms,
            cwnd: info.cwnd,
            ssthresh: (info.ssthresh != u32::MAX).then_some(info.ssthresh),
            send_window: info.send_window,
            receive_window: info.receive_window,
            window_scales: info.scales,
            options: options.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect(),
            backoffs: info.backoffs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_survive_the_way() {
        let one = ConnectionDocument {
            state: "ESTAB".into(),
            local: "[fd00::1]:80".into(),
            remote: "198.18.5.2:40000".into(),
            connected: true,
            rto_ms: u32::MAX,
            ssthresh: Some(7),
            window_scales: (14, 7),
            options: vec!["ts".into(), "sack".into()],
            ..ConnectionDocument::default()
        };
        let wanted =
            ConnectionsDocument { connections: vec![one.clone(), ConnectionDocument::default()], next: Some(9) };
        let text = json(&wanted);
        assert_eq!(read_reply(format!("{{\"id\":[1],\"ok\":{text},\"v\":1}}\n").as_bytes()), Some(wanted.clone()));
        assert_eq!(
            serde_json::from_str::<Vec<ConnectionDocument>>(&list_text(&wanted.connections)).unwrap(),
            wanted.connections
        );
        assert_eq!(document_text(&[], None), r#"{"connections":[],"next":null}"#);
        for other in
            [&b""[..], b"{}", b"null", br#"{"v":1,"error":{"cause":"x","hint":""}}"#, br#"{"v":1,"ok":{"next":1}}"#]
        {
            assert_eq!(read_reply(other), None);
        }
    }
}
