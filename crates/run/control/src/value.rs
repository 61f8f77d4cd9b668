//! SettingValues of settings: the same in a flag (`--set a.trunk=10,20-30`), in a file (`trunk = [10, "20-30"]`) and in a request.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// The value of a setting as text. Read from a file or a request it may also be a number, a boolean or a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct SettingValue(pub String);

impl<'de> Deserialize<'de> for SettingValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SettingValue, D::Error> {
        from.deserialize_any(SettingValueVisitor)
    }
}

struct SettingValueVisitor;

impl<'de> Visitor<'de> for SettingValueVisitor {
    type Value = SettingValue;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text, a whole number, true or false, or a list of them")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SettingValue, E> {
        Ok(SettingValue(text.into()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<SettingValue, E> {
        Ok(SettingValue(if value { "yes" } else { "no" }.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<SettingValue, E> {
        Ok(SettingValue(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<SettingValue, E> {
        Ok(SettingValue(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<SettingValue, A::Error> {
        let mut all: Vec<String> = Vec::new();
        while let Some(SettingValue(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(SettingValue(all.join(",")))
    }
}

/// Settings by key.
pub type Settings = BTreeMap<String, SettingValue>;

/// Settings with some changed. The value `default` removes a setting.
pub fn merged(settings: &Settings, changes: &Settings) -> Settings {
    let mut merged = settings.clone();
    merged.extend(changes.iter().map(|(key, value)| (key.clone(), value.clone())));
    merged.retain(|_, value| value.0 != "default");
    merged
}

/// `yes` or `no` (`true`, `false`).
///
/// # Errors
/// It is something else.
pub fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "on" => Ok(true),
        "no" | "false" | "off" => Ok(false),
        _ => Err(format!("not yes or no: `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_request_say_the_same_words() {
        let expected = [("trunk", "10,20-30"), ("isolated", "yes"), ("access", "7"), ("rate", "1G")];
        let expected: Settings = expected.map(|(key, value)| (key.into(), SettingValue(value.into()))).into();
        let file = "trunk = [10, \"20-30\"]\nisolated = true\naccess = 7\nrate = \"1G\"\n";
        assert_eq!(toml::from_str::<Settings>(file).unwrap(), expected);
        let request = r#"{"trunk":[10,"20-30"],"isolated":true,"access":7,"rate":"1G"}"#;
        assert_eq!(serde_json::from_str::<Settings>(request).unwrap(), expected);
        assert!(
            serde_json::from_str::<SettingValue>("1.5").is_err() && serde_json::from_str::<SettingValue>("{}").is_err()
        );
    }

    #[test]
    fn the_value_default_takes_a_setting_back() {
        let settings = |list: &[(&str, &str)]| -> Settings {
            list.iter().map(|(key, value)| (key.to_string(), SettingValue(value.to_string()))).collect()
        };
        let changes = settings(&[("access", "default"), ("trunk", "all")]);
        assert_eq!(
            merged(&settings(&[("access", "10"), ("rate", "1G")]), &changes),
            settings(&[("rate", "1G"), ("trunk", "all")])
        );
    }
}
