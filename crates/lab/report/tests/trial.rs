//! Trials: balanced, whole after writing and reading, and fit for any terminal.

#[path = "common/trial.rs"]
mod common;

use common::{any_account, any_trial, baseline, overload, search};
use linerate_report::*;
use proptest::prelude::*;
use serde_json::Value;
use std::fs;

/// Removes what colours add.
fn without_colour(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

fn assert_balanced(trial: &Value) {
    let number = |key: &str| i128::from(trial[key].as_i64().unwrap());
    let lost: i128 =
        trial["lost"].as_array().unwrap().iter().map(|loss| i128::from(loss["packets"].as_u64().unwrap())).sum();
    assert_eq!(number("intended"), number("unsent") + number("sent"));
    assert_eq!(number("sent"), number("delivered") + lost + number("unexplained"));
}

#[test]
fn ledger_at_80_and_120_columns_is_as_expected() {
    for columns in [80, 120] {
        let path = format!("{}/tests/expected/ledger-{columns}.txt", env!("CARGO_MANIFEST_DIR"));
        let text =
            [overload(), search(1, 3_100_000, 1_730_112), baseline()].map(|trial| ledger(&trial, columns, false));
        let text = text.join("\n");
        if std::env::var_os("LINERATE_BLESS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&path).unwrap(), "set LINERATE_BLESS=1 to accept the new text");
    }
}

#[test]
fn every_number_of_a_trial_is_shown() {
    let text = ledger(&overload(), 80, false);
    for number in ["9,000,000", "487,655", "8,512,345", "5,782,300", "2,730,001"] {
        assert!(text.contains(number), "{number} is not in\n{text}");
    }
    let (dut, ip) = (text.find("receive queue full (rx_dropped").unwrap(), text.find("no route to").unwrap());
    assert!(dut < ip, "not in path order\n{text}");
}

#[test]
fn account_written_by_hand_must_balance() {
    let good = r#"{"intended":10,"unsent":1,"sent":9,"delivered":6,"duplicated":0,"reordered":0,
                   "lost":[{"place":"dut0","cause":"queue full","packets":2}],"unexplained":1}"#;
    let account: Account = serde_json::from_str(good).unwrap();
    assert_eq!((account.unsent(), account.unexplained()), (1, 1));
    for (from, to) in [
        (r#""unsent":1"#, r#""unsent":2"#),
        (r#""unexplained":1"#, r#""unexplained":0"#),
        (r#""packets":2"#, r#""packets":3"#),
        (r#""sent":9"#, r#""sent":11"#),
        (r#""packets":2"#, r#""packets":-2"#),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(good, bad);
        assert!(serde_json::from_str::<Account>(&bad).is_err(), "{bad}");
    }
}

#[test]
fn what_follows_from_other_fields_is_not_read_back() {
    let mut value = serde_json::to_value(overload()).unwrap();
    value["rates"]["delivered_pps"] = 1e12.into();
    value["size"] = 1.into();
    value["tester_limited"] = true.into();
    assert_eq!(serde_json::from_value::<Trial>(value).unwrap(), overload());
}

#[test]
fn fields_of_later_versions_are_ignored() {
    let mut value = serde_json::to_value(overload()).unwrap();
    value["added_later"] = "x".into();
    assert_eq!(serde_json::from_value::<Trial>(value).unwrap(), overload());
}

#[test]
fn tester_limit_is_five_percent_from_the_baseline() {
    let mut trial = search(2, 1_363_000, 0);
    assert_eq!(trial.rates().unwrap().delivered_pps, 681_500.0);
    for (baseline_pps, limited) in
        [(Some(681_500.0), true), (Some(717_000.0), true), (Some(718_000.0), false), (Some(1.0), true)]
    {
        trial.baseline_pps = baseline_pps;
        assert_eq!(trial.is_tester_limited(), limited, "{baseline_pps:?}");
    }
    for baseline_pps in [None, Some(0.0), Some(f64::NAN)] {
        trial.baseline_pps = baseline_pps;
        assert!(!trial.is_tester_limited());
    }
    trial.baseline_pps = Some(1.0);
    trial.purpose = Purpose::Baseline;
    assert!(!trial.is_tester_limited());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_account_balances_written_and_read(account in any_account()) {
        let value = serde_json::to_value(&account).unwrap();
        assert_balanced(&value);
        prop_assert_eq!(serde_json::from_value::<Account>(value).unwrap(), account);
    }

    #[test]
    fn no_counts_make_an_unbalanced_account(counts: [u64; 3], packets: Vec<u64>) {
        let counted = Counted { intended: counts[0], sent: counts[1], delivered: counts[2], ..Counted::default() };
        let lost = packets.iter().enumerate().map(|(number, packets)| Loss::new("p", number.to_string(), *packets)).collect();
        if let Ok(account) = Account::new(counted, lost) {
            let sent = i128::from(account.delivered()) + i128::from(account.lost_total()) + i128::from(account.unexplained());
            prop_assert_eq!(i128::from(account.sent()), sent);
            prop_assert_eq!(account.intended(), account.unsent() + account.sent());
        }
    }

    #[test]
    fn any_trial_is_written_and_read_back(trial in any_trial()) {
        let text = serde_json::to_string(&trial).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_balanced(&value);
        let loaded: Trial = serde_json::from_str(&text).unwrap();
        // NaN is not equal to itself, so texts are compared: what was null stays null.
        prop_assert_eq!(serde_json::to_string(&loaded).unwrap(), text);
    }

    #[test]
    fn any_ledger_fits_any_terminal(trial in any_trial(), columns in 0usize..200) {
        let plain = ledger(&trial, columns, false);
        for line in plain.lines() {
            prop_assert!(line.chars().count() <= columns.max(40), "{} columns: {:?}", columns, line);
            prop_assert!(!line.chars().any(char::is_control), "{:?}", line);
        }
        prop_assert_eq!(without_colour(&ledger(&trial, columns, true)), plain);
    }

    #[test]
    fn every_trial_shows_its_whole_account(trial in any_trial(), columns in 40usize..200) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<std::collections::HashSet<_>>();
        let text = words(&ledger(&trial, columns, false));
        let account = &trial.account;
        for packets in [account.intended(), account.unsent(), account.sent(), account.delivered()] {
            prop_assert!(text.contains(&units::count(packets)), "{}", packets);
        }
        for loss in account.lost().iter().chain(account.unsent_by()).filter(|loss| loss.packets > 0) {
            prop_assert!(text.contains(&units::count(loss.packets)), "{:?}", loss);
        }
        prop_assert!(text.contains(&units::signed_count(account.unexplained())));
    }
}
