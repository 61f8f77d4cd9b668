//! `--vary` and `--set`: a field and its values on the command line, turned into words of a stream file.
//!
//! ```text
//! vary    = field "=" values { "," option }
//! values  = value { "+" value }                     a list, in turn
//!         | first ".." last [ "/" step ]            a range; first above last with option down
//! option  = "random" [ "=" seed ] | "down" | "cycle"
//! set     = layer [ "#" number ] "." field "=" value
//! ```

/// One rule as an inline table of a stream file.
///
/// # Errors
/// What is wrong with the text. Values are not checked here; the stream file's reader does that.
///
/// ```
/// use linerate_traffic::rules::vary;
/// assert_eq!(vary("udp.source=1024..65535,random=3").unwrap(),
///     r#"{ field = "udp.source", first = 1024, last = 65535, order = "random", seed = 3 }"#);
/// assert_eq!(vary("vlan.id=5+7,cycle").unwrap(), r#"{ field = "vlan.id", values = [5, 7], each = "cycle" }"#);
/// ```
pub fn vary(text: &str) -> Result<String, String> {
    let refuse = |why: &str| {
        format!(
            "--vary {text}: {why}; a rule is FIELD=FIRST..LAST[/STEP] or FIELD=VALUE+VALUE, with ,random[=SEED] ,down ,cycle"
        )
    };
    let (field, rest) = text.split_once('=').ok_or_else(|| refuse("there is no ="))?;
    let mut parts = rest.split(',');
    let values = parts.next().filter(|values| !values.is_empty()).ok_or_else(|| refuse("there are no values"))?;
    let mut keys = vec![format!("field = {}", quoted(field))];
    keys.push(match values.split_once("..") {
        Some((first, last)) => {
            let (last, step) = last.split_once('/').map_or((last, None), |(last, step)| (last, Some(step)));
            let step = step.map_or(String::new(), |step| format!(", step = {}", value(step)));
            format!("first = {}, last = {}{step}", value(first), value(last))
        }
        None => {
            let values: Vec<String> = values.split('+').map(value).collect();
            format!("values = [{}]", values.join(", "))
        }
    });
    for option in parts {
        keys.push(match option.split_once('=').unwrap_or((option, "")) {
            ("random", "") => r#"order = "random""#.into(),
            ("random", seed) => format!(r#"order = "random", seed = {}"#, value(seed)),
            ("down", "") => r#"order = "decrement""#.into(),
            ("cycle", "") => r#"each = "cycle""#.into(),
            _ => return Err(refuse(&format!("unknown option {option:?}"))),
        });
    }
    Ok(format!("{{ {} }}", keys.join(", ")))
}

/// A field of a layer that is set to a fixed value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The layer's name.
    pub layer: String,
    /// Which of the layers of that name, from 1.
    pub number: usize,
    /// The field.
    pub field: String,
    /// Its value as TOML.
    pub value: String,
}

/// Takes `layer.field=value` apart.
///
/// # Errors
/// What is wrong with the text.
pub fn set(text: &str) -> Result<Setting, String> {
    let refuse = || format!("--set {text}: it is LAYER.FIELD=VALUE, as ipv4.destination=192.0.2.1 or vlan#2.id=100");
    let (name, given) = text.split_once('=').ok_or_else(refuse)?;
    let (layer, field) = name.split_once('.').ok_or_else(refuse)?;
    let (layer, number) = match layer.split_once('#') {
        Some((layer, number)) => (layer, number.parse().ok().filter(|number| *number > 0).ok_or_else(refuse)?),
        None => (layer, 1),
    };
    let plain =
        |word: &str| !word.is_empty() && word.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    if !plain(layer) || !plain(field) || given.is_empty() {
        return Err(refuse());
    }
    Ok(Setting { layer: layer.into(), number, field: field.into(), value: value(given) })
}

/// A value as TOML: numbers and booleans as they are, all else as text.
pub fn value(text: &str) -> String {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        None => text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit())),
    };
    match number {
        Some(number) => number.to_string(),
        None if matches!(text, "true" | "false") => text.into(),
        None => quoted(text),
    }
}

/// A text as a TOML string.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_apart() {
        let setting = set("vlan#2.id=0x10").unwrap();
        assert_eq!(
            (setting.layer.as_str(), setting.number, setting.field.as_str(), setting.value.as_str()),
            ("vlan", 2, "id", "16")
        );
        assert_eq!(set("ipv6.source=2001:2::7").unwrap().value, "\"2001:2::7\"");
        for bad in ["", "ipv4", "ipv4.ttl", "ttl=3", "ipv4.ttl=", "ipv4#0.ttl=1", "ip v4.ttl=1", ".a=1", "a.b\"=1"] {
            assert!(set(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_keep_their_kind() {
        assert_eq!(value("007"), "7");
        assert_eq!(value("true"), "true");
        assert_eq!(value("-1"), "\"-1\"");
        assert_eq!(value("+1"), "\"+1\"");
        assert_eq!(value("a\"b\\"), toml::Value::String("a\"b\\".into()).to_string());
    }

    #[test]
    fn bad_rules_say_what_a_rule_is() {
        for bad in ["", "udp.source", "udp.source=", "udp.source=1..2,up", "udp.source=1..2,down=3", "udp.source=1,,"] {
            assert!(vary(bad).unwrap_err().contains("FIRST..LAST"), "{bad}");
        }
    }
}
