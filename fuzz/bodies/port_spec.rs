//! Body of the fuzz target `port_spec`: any text as the name of a port. Also run by the tests of `linerate-port`.

use linerate_port::PortSpec;

/// Most bytes of a name.
const LEN_MAX: usize = 4096;

/// Reads the name, takes it apart, and puts it together again.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = text.parse::<PortSpec>() else { return };
    assert_eq!(spec.to_string(), text);
    // With backslashes it may be longer than a name can be.
    let text = written(&spec);
    if text.len() <= LEN_MAX {
        let again: PortSpec = text.parse().expect("what was read can be written");
        assert_eq!((&spec.backend, &spec.target, spec.queue), (&again.backend, &again.target, again.queue));
        assert_eq!(spec.options, again.options);
    }
    let mut taken = spec.clone();
    for (key, value) in &spec.options {
        let _ = taken.clone().take_number(key, 0, 100);
        let _ = taken.clone().take_flag(key);
        assert_eq!(taken.take(key).as_ref(), Some(value));
    }
    assert!(taken.finish(&[]).is_ok());
    assert_eq!(spec.finish(&["ring"]).is_err(), !spec.options.is_empty());
}

/// The name with a backslash before each letter that could mean something.
fn written(spec: &PortSpec) -> String {
    let escaped = |text: &str| -> String { text.chars().flat_map(|letter| ['\\', letter]).collect() };
    let mut out = spec.backend.as_ref().map_or(String::new(), |backend| format!("{backend}:"));
    out += &escaped(&spec.target);
    if let Some(queue) = spec.queue {
        out += &format!("@{queue}");
    }
    for (key, value) in &spec.options {
        out += &format!(",{key}={}", escaped(value));
    }
    out
}
