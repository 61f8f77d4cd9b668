//! Body of the fuzz target `tcp_script`: any text as a script of scenarios. Also run by the tests of `linerate-tcp`.

use linerate_tcpscript::Script;

/// Reads the text. Names of scenarios differ, and every step has a line of the text.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let lines = text.lines().count();
    match Script::parse(text) {
        Ok(script) => {
            let mut names: Vec<&str> = script.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
            let steps = script.scenarios.iter().flat_map(|scenario| &scenario.steps);
            assert!(steps.into_iter().all(|step| (1..=lines).contains(&step.line)));
        }
        Err(error) => assert!((1..=lines).contains(&error.line) && !error.text.is_empty()),
    }
}
