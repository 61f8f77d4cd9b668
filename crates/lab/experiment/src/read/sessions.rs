//! Tests of TCP connections and requests.

use crate::section::{self, SHARE_BELOW_1, Section, is_share_below_1};
use crate::{EchoOrder, EchoStack, Experiment, FlowIp, SessionKind, Sessions, TestKind};

const SECOND_NS: u64 = 1_000_000_000;
/// Most connections at a time.
const CONNECTIONS_MAX: u64 = 16_000_000;
/// Longest request.
const BYTES_MAX: u64 = 1 << 20;
/// Highest rate.
const LOAD_MAX: f64 = 1e9;

/// Without `connections`: requests of a rate go over so many, and of concurrent connections so many are tried at most.
fn connections_default(of: SessionKind) -> u64 {
    match of {
        SessionKind::RequestRate => 100,
        SessionKind::ConnectionRate | SessionKind::ConcurrentConnections => 100_000,
    }
}

pub(crate) fn sessions(table: &Section<'_>, of: SessionKind) -> TestKind {
    let mut loads: Vec<f64> = Vec::new();
    if table.has("loads") {
        let is_load = |load: f64| (1.0..=LOAD_MAX).contains(&load);
        for value in table.list("loads", 1..=100).unwrap_or_default() {
            loads.extend(section::number(value, "loads", is_load, "a number from 1 to 1e9", table.log));
        }
    } else {
        table.value("loads");
    }
    let resolution = table.number("resolution", is_share_below_1, SHARE_BELOW_1).filter(|share| *share > 0.0);
    TestKind::Sessions(Sessions {
        of,
        connections: table.integer("connections", 1..=CONNECTIONS_MAX).unwrap_or(connections_default(of)) as u32,
        bytes: table.integer("bytes", 1..=BYTES_MAX).unwrap_or(64),
        timeout_ns: table.span_ns("timeout", 1_000_000..=600 * SECOND_NS).unwrap_or(SECOND_NS),
        loads,
        resolution: resolution.unwrap_or(0.05),
    })
}

const STACKS: [(&str, EchoStack); 4] = [
    ("linerate", EchoStack::Linerate),
    ("linux", EchoStack::Linux),
    ("smoltcp", EchoStack::Smoltcp),
    ("lwip", EchoStack::Lwip),
];

pub(crate) fn echo(table: &Section<'_>) -> TestKind {
    const ORDERS: [(&str, EchoOrder); 2] = [("reply", EchoOrder::Reply), ("round-robin", EchoOrder::RoundRobin)];
    let mut orders: Vec<EchoOrder> = Vec::new();
    if table.has("orders") {
        for value in table.list("orders", 1..=ORDERS.len()).unwrap_or_default() {
            let Some(order) = section::word(value, "order", &ORDERS, table.log) else { continue };
            if orders.contains(&order) {
                table.log.error(value.span(), format!("{} is in `orders` twice; expected each once", order.word()));
            }
            orders.push(order);
        }
    } else {
        table.value("orders");
        orders = ORDERS.map(|(_, order)| order).to_vec();
    }
    let stack = table.word("stack", "stack", &STACKS).unwrap_or_default();
    TestKind::TcpEcho { orders, stack }
}

/// The tester's ends are either stacks or what sends packets by a schedule: in one experiment all tests are of one sort.
pub(crate) fn check(file: &Section<'_>, experiment: &Experiment) {
    let of_tcp = experiment.tests.iter().filter(|test| test.kind.is_of_tcp()).count();
    if of_tcp > 0 && of_tcp < experiment.tests.len() {
        file.error("test", "tests of TCP and tests of packets are in one experiment; expected a file for each");
    }
    if of_tcp > 0 && experiment.flows.iter().any(|flows| flows.ip != FlowIp::V4) {
        file.error("matrix", "tests of TCP are made over IPv4; expected flows without `ip`, or with ip = \"4\"");
    }
    if of_tcp == 0 && experiment.testers.iter().any(|ports| ports.direct_link().is_some()) {
        file.error("matrix", "the tester's ports are pipe or memif only in tests of TCP");
    }
}
