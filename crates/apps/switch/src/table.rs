//! Settings of the switch itself that change while it runs: the time of ageing, and the size of the MAC table.

use linerate_control::{ControlError, SettingValue, Settings, View};
use linerate_l2::{Resize, SpareTable, SwitchConfig};
use linerate_switch_loop::SteeredSwitch;
use linerate_units as units;

/// Buckets that the worker moves between two rounds: packets wait for about as long as a round takes.
const BUCKETS_AT_ONCE: usize = 256;

/// Settings of the switch that change.
#[derive(Debug, Default, PartialEq, Eq)]
struct Changes {
    age_s: Option<u32>,
    entries: Option<usize>,
}

impl Changes {
    fn read(settings: &Settings) -> Result<Changes, ControlError> {
        let mut changes = Changes::default();
        for (key, SettingValue(text)) in settings {
            match key.as_str() {
                "ageing" => changes.age_s = Some(age_s(text)?),
                "table-size" => changes.entries = Some(entries(text)?),
                _ => {
                    let hint = "valid keys: ageing, table-size; write PORT.KEY=VALUE for a port";
                    return Err(ControlError::new(format!("the switch has no setting {key}"), hint));
                }
            }
        }
        Ok(changes)
    }
}

/// Seconds of ageing, at least one.
pub(crate) fn age_s(text: &str) -> Result<u32, ControlError> {
    if text == "default" {
        return Ok(SwitchConfig::default().age_s);
    }
    let age_ns = units::duration_ns(text).map_err(|error| ControlError::new(format!("ageing: {error}"), ""))?;
    Ok(age_ns.div_ceil(1_000_000_000).max(1) as u32)
}

fn entries(text: &str) -> Result<usize, ControlError> {
    if text == "default" {
        return Ok(SwitchConfig::default().mac_entries);
    }
    let number = units::count(text).map_err(|error| ControlError::new(format!("table-size: {error}"), ""))?;
    usize::try_from(number).map_err(|error| ControlError::new(format!("table-size: {error}"), ""))
}

/// Changes all of it, or, if there is an error, nothing.
pub(crate) fn set(view: &View<SteeredSwitch>, settings: &Settings) -> Result<(), ControlError> {
    let changes = Changes::read(settings)?;
    if let Some(entries) = changes.entries {
        resize(view, entries)?;
    }
    if let Some(age_s) = changes.age_s {
        view.call(move |worker| worker.datapath.set_age_s(age_s))?;
    }
    Ok(())
}

/// Sets the memory aside, and frees that of the old table, on this thread. The worker moves the entries, some at a time.
fn resize(view: &View<SteeredSwitch>, entries: usize) -> Result<(), ControlError> {
    let spare = SpareTable::new(entries).map_err(|error| ControlError::new(error.to_string(), ""))?;
    drop(view.call(move |worker| worker.datapath.begin_resize(spare))?);
    loop {
        match view.call(|worker| worker.datapath.resize_step(BUCKETS_AT_ONCE))? {
            Resize::GoesOn => {}
            Resize::Idle | Resize::Done(_) => return Ok(()),
            Resize::Refused(_) => {
                let cause = format!("a table of {entries} entries has no place for the static ones");
                return Err(ControlError::new(cause, "choose a larger one, or remove-mac some"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Result<Changes, ControlError> {
        Changes::read(&list.iter().map(|(key, value)| (key.to_string(), SettingValue(value.to_string()))).collect())
    }

    #[test]
    fn settings_of_the_switch() {
        assert_eq!(read(&[("ageing", "60s")]), Ok(Changes { age_s: Some(60), entries: None }));
        assert_eq!(read(&[("ageing", "500ms")]), Ok(Changes { age_s: Some(1), entries: None }));
        let both = Changes { age_s: Some(300), entries: Some(64_000) };
        assert_eq!(read(&[("ageing", "default"), ("table-size", "64k")]), Ok(both));
        for (key, value) in
            [("ageing", "soon"), ("ageing", "10"), ("table-size", "-1"), ("table-size", "many"), ("access", "10")]
        {
            assert!(read(&[(key, value)]).is_err(), "{key}={value}");
        }
    }
}
