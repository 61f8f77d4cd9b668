//! What a load tells of itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use linerate_load::{Pacing, Plan};
use linerate_measure::LogLinear;
use serde::{Deserialize, Serialize};

use super::account::{Account, Tally};
use super::client::{Client, Stage};
use super::meters::Meters;
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
    /// What was wrong with the first wrong answer.
    #[serde(default)]
    pub first_wrong_answer: Option<String>,
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
    /// Bits of answers per second of that time.
    #[serde(default)]
    pub answer_bits_per_second: f64,
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

/// What a load tells on one core.
pub struct LoadReading {
    plan: Arc<Plan>,
    connections: Account,
    requests: Account,
    meters: Meters,
    measured_ns: u64,
    is_done: bool,
}

impl Reports for Client {
    type Document = LoadDocument;
    type Reading = LoadReading;
    const SCHEMA: &'static str = LOAD_SCHEMA;
    const SAVES_CPU: bool = true;

    fn reading(&self, now_ns: u64) -> LoadReading {
        let (connections, requests) = self.accounts();
        LoadReading {
            plan: Arc::clone(&self.plan),
            connections,
            requests,
            meters: self.meters().clone(),
            measured_ns: self.measured_ns(now_ns),
            is_done: self.stage() == Stage::Done,
        }
    }

    fn document(readings: &[LoadReading]) -> LoadDocument {
        let kinds = readings.first().map_or(0, |reading| reading.plan.kinds.len());
        let (mut meters, nothing) = (Meters::new(kinds), Account::new(&Tally::default(), 0));
        let (mut connections, mut requests) = (nothing.clone(), nothing);
        let (mut measured_ns, mut requests_per_second, mut answer_bits_per_second) = (0, 0.0, 0.0);
        for reading in readings {
            meters.add(&reading.meters);
            connections.add(&reading.connections);
            requests.add(&reading.requests);
            // Each core has begun at its own time.
            measured_ns = measured_ns.max(reading.measured_ns);
            if reading.measured_ns > 0 {
                let seconds = reading.measured_ns as f64 / 1e9;
                requests_per_second += reading.meters.answered as f64 / seconds;
                answer_bits_per_second += reading.meters.measured_rx_bytes as f64 * 8.0 / seconds;
            }
        }
        let plan = readings.first().map(|reading| &reading.plan);
        let names = plan.into_iter().flat_map(|plan| &plan.kinds);
        let kinds = names.zip(&meters.kinds).take(KINDS_MAX).map(|(kind, meters)| KindDocument {
            name: kind.name.clone(),
            completed: meters.completed,
            errors: meters.errors,
            latency: meters.latency.as_ref().map(Times::of),
        });
        let pacing = match plan.map(|plan| &plan.pacing) {
            None | Some(Pacing::Closed) => "closed",
            Some(Pacing::Requests(_)) => "requests",
            Some(Pacing::Connections(_)) => "connections",
        };
        LoadDocument {
            pacing: pacing.into(),
            connections,
            requests,
            errors: meters.errors(),
            stray_datagrams: meters.strays,
            tx_bytes: meters.tx_bytes,
            rx_bytes: meters.rx_bytes,
            measured_seconds: measured_ns as f64 / 1e9,
            requests_per_second,
            answer_bits_per_second,
            latency: Times::of(&meters.latency),
            handshakes: Times::of(&meters.handshakes),
            kinds: kinds.collect(),
            done: readings.iter().all(|reading| reading.is_done),
            first_wrong_answer: meters.first_wrong.map(|first| first.what),
            refusals: meters.refusals,
            statuses: meters.statuses,
        }
    }
}
