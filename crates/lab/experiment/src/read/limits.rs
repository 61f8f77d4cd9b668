//! Limits that a user sets on the figures of a test: `at_least`, `loss_at_most`, `p99_at_most`, `within`.

use toml::de::DeValue;

use crate::section::{self, SHARE_BELOW_1, Section, is_share_below_1};
use crate::{Limit, LimitOf, Search, TestKind};

const SPAN_NS_MAX: u64 = 3_600_000_000_000;
const LATENCIES: [(&str, LimitOf); 3] =
    [("p50_at_most", LimitOf::P50), ("p99_at_most", LimitOf::P99), ("p999_at_most", LimitOf::P999)];

/// Those that a test of this kind can have.
pub(crate) fn read(test: &Section<'_>, kind: &TestKind) -> Vec<Limit> {
    let mut limits = Vec::new();
    let mut add = |of, bound: Option<f64>| limits.extend(bound.map(|bound| Limit { of, goal: None, bound }));
    let span = |key| test.span_ns(key, 1..=SPAN_NS_MAX).map(|ns| ns as f64);
    let loss = || test.number("loss_at_most", is_share_below_1, SHARE_BELOW_1);
    match kind {
        TestKind::Throughput { search: Search::Mlr { .. }, .. } => {
            add(LimitOf::Rate, test.rate_pps("at_least"));
            limits.extend(of_goals(test));
        }
        TestKind::Throughput { search: Search::Bisection { .. }, .. }
        | TestKind::MaxForwardingRate
        | TestKind::Capacity { .. }
        | TestKind::NoLoss { .. } => {
            add(LimitOf::Rate, test.rate_pps("at_least"));
        }
        TestKind::Load { .. } => {
            add(LimitOf::Rate, test.rate_pps("at_least"));
            add(LimitOf::Loss, loss());
        }
        TestKind::Soak { .. } => add(LimitOf::Loss, loss()),
        TestKind::Latency { .. } | TestKind::Ping { .. } => {
            LATENCIES.into_iter().for_each(|(key, of)| add(of, span(key)))
        }
        TestKind::SystemRecovery | TestKind::Reset => add(LimitOf::Outage, span("within")),
        TestKind::FrameLoss { .. }
        | TestKind::BackToBack { .. }
        | TestKind::Capture { .. }
        | TestKind::Sessions(_)
        | TestKind::TcpEcho { .. }
        | TestKind::UdpLoop => {}
    }
    limits
}

/// `at_least` in the tables of `goals`.
fn of_goals(test: &Section<'_>) -> Vec<Limit> {
    let values = test.value("goals").and_then(|value| value.get_ref().as_array());
    let of_goal = |value: &section::Value<'_>| {
        let DeValue::Table(table) = value.get_ref() else { return None };
        let name = table.get("name")?.get_ref().as_str()?.to_owned();
        let bound = section::rate_pps(table.get("at_least")?, "at_least", test.log)?;
        Some(Limit { of: LimitOf::Rate, goal: Some(name), bound })
    };
    values.into_iter().flat_map(|values| values.iter()).filter_map(of_goal).collect()
}
