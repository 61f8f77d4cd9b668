//! What a load tells of itself.

use std::collections::BTreeMap;

use linerate_measure::LogLinear;
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::client::{Client, Stage};
use super::plan::Pacing;
use crate::reports::Reports;

/// Name and version of the document of a load.
const LOAD_SCHEMA: &str = "linerate.tcp-load/1";
/// Kinds of requests that the document has a row for.
const KINDS_MAX: usize = 1000;

/// What a load tells of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadDocument {
    /// `closed`: connections loop; `requests` or `connections`: a schedule begins these.
    pub pacing: String,
    /// Connections.
    pub connections: Account,
    /// Requests.
    pub requests: Account,
    /// Connections that could not be begun, by what the stack said.
    pub refusals: BTreeMap<String, u64>,
    /// Answers by HTTP status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers with a status of 400 or more.
    pub errors: u64,
    /// Datagrams that answer no request under way: copies, and those that nobody asked for.
    pub stray_datagrams: u64,
    /// Bytes of requests.
    pub tx_bytes: u64,
    /// Bytes of answers.
    pub rx_bytes: u64,
    /// Time that rates are of, in seconds: from the end of the warm-up until nothing was begun any more.
    pub measured_seconds: f64,
    /// Answers per second of that time.
    pub requests_per_second: f64,
    /// From the time a request was due to the last byte of its answer.
    pub latency: Times,
    /// From the time a connection was due to the end of its handshake.
    pub handshakes: Times,
    /// By kind of request; at most 1,000.
    pub kinds: Vec<KindDocument>,
    /// It is over.
    pub done: bool,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindDocument {
    /// Its name.
    pub name: String,
    /// Requests that were answered.
    pub completed: u64,
    /// Requests with an answer of status 400 or more, or that were lost.
    pub errors: u64,
    /// As [`LoadDocument::latency`], if there are 2 to 64 kinds.
    pub latency: Option<Times>,
}

/// Times in microseconds; `None` if there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Shortest.
    pub min_us: Option<f64>,
    /// Mean.
    pub mean_us: Option<f64>,
    /// Half of them take no longer.
    pub p50_us: Option<f64>,
    /// 90 % take no longer.
    pub p90_us: Option<f64>,
    /// 99 % take no longer.
    pub p99_us: Option<f64>,
    /// 99.9 % take no longer.
    pub p99_9_us: Option<f64>,
    /// 99.99 % take no longer.
    pub p99_99_us: Option<f64>,
    /// Longest.
    pub max_us: Option<f64>,
}

impl Times {
    fn of<const BUCKETS: usize>(histogram: &LogLinear<BUCKETS>) -> Times {
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        let percentile = |percent: f64| us(histogram.percentile_ns(percent));
        Times {
            count: histogram.count(),
            min_us: us(histogram.min_ns()),
            mean_us: histogram.mean_ns().map(|ns| ns / 1e3),
            p50_us: percentile(50.0),
            p90_us: percentile(90.0),
            p99_us: percentile(99.0),
            p99_9_us: percentile(99.9),
            p99_99_us: percentile(99.99),
            max_us: us(histogram.max_ns()),
        }
    }
}

impl LoadDocument {
    /// True if all went well: the accounts balance, and every request and connection that was begun came to its end, with a status below 400.
    pub fn is_well(&self) -> bool {
        let accounts = [&self.connections, &self.requests];
        accounts.iter().all(|account| account.balances() && account.lost.is_empty() && account.unbegun == 0)
            && self.errors == 0
            && self.requests.completed > 0
    }
}

impl Reports for Client {
    type Document = LoadDocument;
    const SCHEMA: &'static str = LOAD_SCHEMA;
    const SAVES_CPU: bool = true;

    fn document(&self, now_ns: u64) -> LoadDocument {
        let ((connections, requests), meters) = (self.accounts(), self.meters());
        let measured_seconds = self.measured_ns(now_ns) as f64 / 1e9;
        let kinds = self.plan.kinds.iter().zip(&meters.kinds).take(KINDS_MAX).map(|(kind, meters)| KindDocument {
            name: kind.name.clone(),
            completed: meters.completed,
            errors: meters.errors,
            latency: meters.latency.as_ref().map(Times::of),
        });
        let pacing = match self.plan.pacing {
            Pacing::Closed => "closed",
            Pacing::Requests(_) => "requests",
            Pacing::Connections(_) => "connections",
        };
        LoadDocument {
            pacing: pacing.into(),
            connections,
            requests,
            refusals: meters.refusals.clone(),
            statuses: meters.statuses.clone(),
            errors: meters.errors(),
            stray_datagrams: meters.strays,
            tx_bytes: meters.tx_bytes,
            rx_bytes: meters.rx_bytes,
            measured_seconds,
            requests_per_second: if measured_seconds > 0.0 { meters.answered as f64 / measured_seconds } else { 0.0 },
            latency: Times::of(&meters.latency),
            handshakes: Times::of(&meters.handshakes),
            kinds: kinds.collect(),
            done: self.stage() == Stage::Done,
        }
    }
}
