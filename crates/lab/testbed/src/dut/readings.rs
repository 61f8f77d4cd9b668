//! Counters that a command prints: one `name value` a line.

use std::collections::BTreeMap;
use std::time::Duration;

use super::DutError;
use super::tools::Place;

/// Runs the command and reads what it prints; without a command, nothing.
///
/// # Errors
/// When it fails, and when it prints no counter at all.
pub(super) fn read(
    place: &Place<'_>,
    command: &[String],
    at_most: Duration,
) -> Result<BTreeMap<String, u64>, DutError> {
    if command.is_empty() {
        return Ok(BTreeMap::new());
    }
    let printed = place.run_for(command, None, at_most)?;
    let counters = parse(&printed);
    match counters.is_empty() {
        true => {
            let how = "printed no line of the form `name value`".to_owned();
            Err(DutError::Command { command: command.join(" "), how, output: printed })
        }
        false => Ok(counters),
    }
}

/// Lines whose last word is a number, by the words before it. Others are passed over; of two lines with one name, the sum.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let mut counters = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.trim().rsplit_once(|c: char| c.is_whitespace() || c == '=' || c == ':') else {
            continue;
        };
        let name = name.trim().trim_end_matches([':', '=']).trim_end();
        if let (Ok(value), false) = (value.parse::<u64>(), name.is_empty()) {
            let counter: &mut u64 = counters.entry(name.to_owned()).or_default();
            *counter = counter.saturating_add(value);
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_have_spaces_and_separators_and_the_rest_is_passed_over() {
        let text =
            "rx_packets 12\nrx packets: 7\nin=3\n\nnothing here\n  5\n= 6\nbig 18446744073709551616\n-1 -1\nin 4\n";
        let found = parse(text);
        let expected = [("in", 7), ("rx packets", 7), ("rx_packets", 12)].map(|(name, value)| (name.to_owned(), value));
        assert_eq!(found, BTreeMap::from(expected));
        assert_eq!(parse("a 18446744073709551615\na 1")["a"], u64::MAX);
    }

    #[test]
    fn a_command_that_counts_nothing_is_an_error_with_what_it_printed() {
        let command = ["echo", "no", "numbers"].map(str::to_owned);
        let error = read(&Place::default(), &command, Duration::from_secs(10)).expect_err("nothing").to_string();
        assert!(error.contains("name value") && error.ends_with("no numbers"), "{error}");
    }
}
