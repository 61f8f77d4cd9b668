//! Help, completions and man pages, which are made from the same definitions.

use std::process::{Command, Output};

fn linerate(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linerate")).args(line.split_whitespace()).output().unwrap()
}

/// What a run prints that is to end well.
fn stdout(line: &str) -> String {
    let output = linerate(line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const COMMANDS: [&str; 16] = [
    "bench", "lab", "compare", "report", "send", "receive", "capture", "read", "bridge", "lb", "switch", "ofswitch",
    "tcp", "ports", "doctor", "man",
];

#[test]
fn help_fits_a_hundred_columns() {
    for command in COMMANDS {
        let text = stdout(&format!("{command} --help"));
        // A word, a path or a list of values without a space stays whole.
        let long = text.lines().find(|line| {
            let start = line.len() - line.trim_start().len();
            line.chars().count() > 100 && line[start..].contains(' ')
        });
        assert_eq!(long, None, "{command}");
    }
    // Each setting of a switch is a row, and its explanation stands beside it.
    let text = stdout("switch --help");
    let row = text.lines().find(|line| line.trim_start().starts_with("isolated=yes")).unwrap();
    assert!(row.ends_with("nothing to other isolated ports"), "{row}");
}

#[test]
fn shells_get_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&format!("completions {shell}"));
        for word in COMMANDS.into_iter().chain(["--snaplen", "--dry-run", "pkt-gen"]) {
            assert!(script.contains(word.trim_start_matches('-')), "{shell}: {word}");
        }
    }
    assert_eq!(linerate("completions nosuch").status.code(), Some(2));
    // bash itself takes the script, and completes by it.
    let script = format!(
        "source <({} completions bash); COMP_WORDS=(linerate capt); COMP_CWORD=1; _linerate linerate capt linerate; \
         echo \"${{COMPREPLY[@]}}\"",
        env!("CARGO_BIN_EXE_linerate")
    );
    match Command::new("bash").args(["-c", &script]).output() {
        Err(error) => eprintln!("skipped: bash: {error}"),
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "capture", "{output:?}"),
    }
}

#[test]
fn there_is_a_man_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    stdout(&format!("man {}", path.display()));
    for command in COMMANDS {
        let page = std::fs::read_to_string(path.join(format!("linerate-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{command}");
    }
    let capture = std::fs::read_to_string(path.join("linerate-capture.1")).unwrap();
    assert!(capture.contains("snaplen") && capture.contains("Bytes kept of each packet"));
    assert!(stdout("man").contains(".SH SUBCOMMANDS"));
    assert_eq!(linerate("man /dev/null/x").status.code(), Some(2));
}

#[test]
fn a_port_without_its_flag_is_pointed_out() {
    for line in ["switch tap:a tap:b", "switch -q tap:a", "ofswitch tap:a"] {
        let output = linerate(line);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let command = line.split_whitespace().next().unwrap();
        assert!(text.starts_with(&format!("linerate {command}: is tap:a a port?")), "{text}");
        assert!(text.contains(&format!("linerate {command} -p tap:a")) && output.status.code() == Some(2), "{text}");
    }
    // What is no port gets no such hint, and help is no error.
    for line in ["switch --no-such-flag", "switch ctl nosuch"] {
        assert!(!String::from_utf8_lossy(&linerate(line).stderr).contains("a port?"), "{line}");
    }
    assert!(linerate("switch --help").status.success());
}
