//! Values of a connection and of the stack by name, for the `check` lines of scenarios. Times are nanoseconds.

use linerate_tcp::{Counters, Info, Origin};

/// Value `name` of a connection's account.
pub fn of_connection(info: &Info, name: &str) -> Option<String> {
    let ms = |ms: u32| u64::from(ms) * 1_000_000;
    let us = |us: u32| u64::from(us) * 1_000;
    Some(match name {
        "state" => format!("{:?}", info.state),
        "origin" => (if info.origin == Origin::Accepted { "accepted" } else { "connected" }).to_string(),
        "srtt" => us(info.srtt_us).to_string(),
        "rttvar" => us(info.rttvar_us).to_string(),
        "rto" => ms(info.rto_ms).to_string(),
        "cwnd" => info.cwnd.to_string(),
        "ssthresh" => info.ssthresh.to_string(),
        "mss" => info.mss.to_string(),
        "in_flight" => info.in_flight.to_string(),
        "queued" => info.queued.to_string(),
        "receive_queued" => info.receive_queued.to_string(),
        "send_window" => info.send_window.to_string(),
        "receive_window" => info.receive_window.to_string(),
        "timestamps" => info.timestamps.to_string(),
        "sack" => info.sack.to_string(),
        "ecn" => info.ecn.to_string(),
        "backoffs" => info.backoffs.to_string(),
        "local_port" => info.local.port().to_string(),
        _ => return None,
    })
}

/// Counter `name`, as `nstat` calls it.
pub fn of_stack(counters: &Counters, name: &str) -> Option<String> {
    counters.each().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
}
