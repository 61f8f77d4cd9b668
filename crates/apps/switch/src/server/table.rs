//! Settings of the switch itself that change while it runs: the time of ageing, and the size of the MAC table.

use std::collections::BTreeMap;

use linerate_l2::{Resize, SpareTable, SwitchConfig};
use serde_json::{Value, json};

use crate::protocol::Refusal;
use crate::words::{Word, scaled, span_ns};

use super::Server;

/// Buckets that the worker moves between two rounds: packets wait for about as long as a round takes.
const BUCKETS_AT_ONCE: usize = 256;

/// What of the switch is to change.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    age_s: Option<u32>,
    entries: Option<usize>,
}

impl Changes {
    fn read(words: &BTreeMap<String, Word>) -> Result<Changes, Refusal> {
        let mut changes = Changes::default();
        for (key, Word(text)) in words {
            match key.as_str() {
                "ageing" => changes.age_s = Some(age_s(text)?),
                "table-size" => changes.entries = Some(entries(text)?),
                _ => {
                    let hint = "there are ageing and table-size; write PORT.KEY=VALUE for a port";
                    return Err(Refusal::new(format!("the switch has no setting {key}"), hint));
                }
            }
        }
        Ok(changes)
    }
}

/// Seconds of ageing, from words; at least one.
pub(crate) fn age_s(text: &str) -> Result<u32, Refusal> {
    if text == "default" {
        return Ok(SwitchConfig::default().age_s);
    }
    let span_ns = span_ns(text).map_err(|problem| Refusal::new(format!("ageing: {problem}"), ""))?;
    Ok(span_ns.div_ceil(1_000_000_000).max(1) as u32)
}

fn entries(text: &str) -> Result<usize, Refusal> {
    if text == "default" {
        return Ok(SwitchConfig::default().mac_entries);
    }
    let number = scaled(text, &[]).map_err(|problem| Refusal::new(format!("table-size: {problem}"), ""))?;
    usize::try_from(number).map_err(|error| Refusal::new(format!("table-size: {error}"), ""))
}

impl Server {
    /// Changes all of it, or, where one is refused, nothing.
    pub(super) fn set_switch(&mut self, words: &BTreeMap<String, Word>) -> Result<Value, Refusal> {
        let changes = Changes::read(words)?;
        if let Some(entries) = changes.entries {
            self.resize_table(entries)?;
        }
        if let Some(age_s) = changes.age_s {
            self.handle.call(move |hub| hub.switch.set_age_s(age_s))?;
        }
        Ok(json!({}))
    }

    /// The memory is set aside, and that of the old table freed, on this thread. The worker moves the entries, some at a time.
    fn resize_table(&self, entries: usize) -> Result<(), Refusal> {
        let spare = SpareTable::new(entries).map_err(|error| Refusal::new(error.to_string(), ""))?;
        let replaced = self.handle.call(move |hub| hub.switch.begin_resize(spare))?;
        drop(replaced);
        loop {
            match self.handle.call(|hub| hub.switch.resize_step(BUCKETS_AT_ONCE))? {
                Resize::GoesOn => {}
                Resize::Idle | Resize::Done(_) => return Ok(()),
                Resize::Refused(_) => {
                    let cause = format!("a table of {entries} entries has no place for the static ones");
                    return Err(Refusal::new(cause, "choose a larger one, or remove-mac some"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Result<Changes, Refusal> {
        Changes::read(&list.iter().map(|(key, value)| (key.to_string(), Word(value.to_string()))).collect())
    }

    #[test]
    fn words_of_the_switch() {
        assert_eq!(read(&[("ageing", "60s")]), Ok(Changes { age_s: Some(60), entries: None }));
        assert_eq!(read(&[("ageing", "500ms")]), Ok(Changes { age_s: Some(1), entries: None }));
        let both = Changes { age_s: Some(300), entries: Some(64_000) };
        assert_eq!(read(&[("ageing", "default"), ("table-size", "64k")]), Ok(both));
        for (key, value) in [("ageing", "soon"), ("table-size", "-1"), ("table-size", "many"), ("access", "10")] {
            assert!(read(&[(key, value)]).is_err(), "{key}={value}");
        }
    }
}
