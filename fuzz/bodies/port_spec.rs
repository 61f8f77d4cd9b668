//! Body of the fuzz target `port_spec`: any text as the name of a port. Also run by the tests of `linerate-port`.

use linerate_port::{OpenOptions, PortSpec};

/// Most bytes of a name.
const LEN_MAX: usize = 4096;

/// Reads the name, takes it apart, and puts it together again.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(spec) = text.parse::<PortSpec>() else { return };
    assert_eq!(spec.to_string(), text);
    if let Some(backend) = &spec.backend {
        let again = written(backend, &spec);
        // With backslashes it may be longer than a name can be.
        if again.to_string().len() <= LEN_MAX {
            let read: PortSpec = again.to_string().parse().expect("what was read can be written");
            assert_eq!((&read.backend, &read.target, &read.own), (&spec.backend, &spec.target, &spec.own));
            assert_eq!(read, again);
        }
    }
    let queue = spec.at_queue(7);
    if queue.len() <= LEN_MAX {
        let alone: PortSpec = queue.parse().expect("the name of a queue's port");
        assert_eq!((alone.options.first_queue, &alone.own), (Some(7), &spec.own));
    }
    let mut taken = spec.clone();
    for (key, value) in &spec.own {
        let _ = taken.clone().take_number(key, 0, 100);
        let _ = taken.clone().take_flag(key);
        assert_eq!(taken.take(key).as_ref(), Some(value));
    }
    let shared = spec.options != OpenOptions::default();
    assert!(shared || taken.own.is_empty());
    assert!(!shared && spec.own.is_empty() || spec.finish(&[]).is_err());
}

/// The name with its queue and its backend's options, put together anew.
fn written(backend: &str, spec: &PortSpec) -> PortSpec {
    let queue = spec.options.first_queue.map(|queue| ("@".to_string(), queue.to_string()));
    let options = queue.into_iter().chain(spec.own.iter().cloned());
    let start = PortSpec::new(backend, &spec.target);
    options.fold(start, |made, (key, value)| made.with(&key, &value).expect("it was read"))
}
