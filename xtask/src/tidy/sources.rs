//! What a source file may say.

use super::Complaint;
use super::lexer::{Source, has_word};
use super::tree::TextFile;

/// Most lines of a file, tests not counted.
const LINES_MAX: usize = 600;

/// Files that may be longer, with their limit and the reason. Short, and meant to stay so.
const LONGER: &[(&str, usize, &str)] = &[];

/// What an engine must not say outside of its tests, and why.
const ENGINE_BANS: &[(&str, &str)] = &[
    ("std::net", "an engine has no sockets"),
    ("Instant::now", "time is a parameter"),
    ("SystemTime", "time is a parameter"),
    ("now_ns(", "time is a parameter"),
    ("thread::sleep", "an engine does not wait"),
    ("thread::spawn", "an engine has no threads"),
];

/// Where ports are waited for: the one worker, in its rounds, its pauses and its end, and the ports themselves with what checks them.
const WAITS: [&str; 6] = [
    "crates/run/worker/src/ports.rs",
    "crates/run/worker/src/pause.rs",
    "crates/run/worker/src/rest.rs",
    "crates/run/worker/src/ending.rs",
    "crates/ports/",
    "crates/port/",
];

/// Files that wait for a port by themselves: in how many places, and the reason. Short, and meant to stay so.
const WAITS_TOO: &[(&str, usize, &str)] = &[
    (
        "crates/apps/recorder-loop/src/batch.rs",
        1,
        "the thread of a capture walks rings in place, which no datapath can",
    ),
    ("crates/apps/pktgen-loop/src/ping.rs", 1, "sends by a schedule"),
    ("crates/apps/pktgen-loop/src/replay.rs", 1, "asks whether a file is at its end"),
    ("crates/apps/pktgen-loop/src/fragment.rs", 1, "is a port in front of another one"),
    ("crates/apps/pktgen-loop/src/dump.rs", 1, "is a port in front of another one"),
    ("crates/lab/tester/src/memory.rs", 1, "looks before a trial whether the peers have come"),
    ("crates/lab/tester-loop/src/ports.rs", 1, "asks before a trial whether the peers have come"),
    ("crates/run/worker/src/replay.rs", 1, "asks whether a file is at its end"),
    ("crates/run/worker/src/wait.rs", 1, "senders by a schedule sleep until a full port has room"),
];

/// Layers in which no crate has anything unsafe.
const SAFE_LAYERS: [&str; 4] = ["crates/port/", "crates/engines/", "crates/lab/search/", "crates/lab/report/"];

/// Every breach in one source file.
pub fn check(file: &TextFile) -> Vec<Complaint> {
    let (path, source) = (file.path.as_str(), file.source());
    let mut complaints = super::backends::check(path, source);
    let mut complain = |line: usize, what: String| complaints.push(Complaint::new(path, line, what));
    check_head(path, source, &mut complain);
    check_length(path, source, &mut complain);
    check_unsafe(path, source, &mut complain);
    if path.starts_with("crates/engines/") && !is_test_file(path) {
        for (line, code) in source.production() {
            for (ban, reason) in ENGINE_BANS.iter().filter(|(ban, _)| code.contains(ban)) {
                complain(line, format!("`{ban}` in an engine: {reason}"));
            }
        }
    }
    check_waits(path, source, &mut complaints);
    complaints
}

/// One loop waits for ports.
fn check_waits(path: &str, source: &Source, complaints: &mut Vec<Complaint>) {
    let allowed = WAITS.iter().any(|folder| path.starts_with(folder)) || !path.starts_with("crates/");
    if allowed || is_test_file(path) {
        return;
    }
    let waits: Vec<usize> = source
        .production()
        .filter(|(line, code)| is_wait(code, source.code.get(*line).map_or("", String::as_str)))
        .map(|(line, _)| line)
        .collect();
    let known = WAITS_TOO.iter().find(|(file, ..)| *file == path).map_or(0, |(_, places, _)| *places);
    let mut complain = |line: usize, what: String| complaints.push(Complaint::new(path, line, what));
    if let Some(line) = waits.get(known) {
        complain(*line, "waits for a port; the one loop that does is the worker's (crates/run/worker)".into());
    } else if waits.len() < known {
        complain(0, format!("waits for a port in {} places, not in {known} any more (WAITS_TOO)", waits.len()));
    }
}

/// Calls of `Port::wait` and `Port::arm_wakeup`, not of other things that can be waited for. A call may go on in the `next` line.
fn is_wait(code: &str, next: &str) -> bool {
    let begins =
        |text: &str| ["Interest::", "interest", "linerate_port::Interest"].iter().any(|word| text.starts_with(word));
    let mut arguments = code.split(".wait(").skip(1).map(|rest| if rest.is_empty() { next.trim_start() } else { rest });
    arguments.any(begins) || code.contains("Port::wait(") || code.contains(".arm_wakeup(")
}

/// Files that hold nothing but tests.
pub(super) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.contains("_tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// A file begins with what it is.
fn check_head(path: &str, source: &Source, complain: &mut impl FnMut(usize, String)) {
    let head = source.written.iter().find(|line| !line.trim().is_empty());
    let fuzz_target = path.starts_with("fuzz/fuzz_targets/");
    if !head.is_some_and(|line| line.starts_with("//!")) && !fuzz_target {
        complain(1, "begins without a `//!` line that says what the file is".into());
    }
    let is_root = path.ends_with("/src/lib.rs");
    let safe_layer = SAFE_LAYERS.iter().any(|layer| path.starts_with(layer));
    let forbids = source.code.iter().any(|code| code.contains("#![forbid(unsafe_code)]"));
    if is_root && safe_layer && !forbids {
        complain(1, "`#![forbid(unsafe_code)]` is missing: nothing in this layer is unsafe".into());
    }
}

fn check_length(path: &str, source: &Source, complain: &mut impl FnMut(usize, String)) {
    if is_test_file(path) {
        return;
    }
    let limit = LONGER.iter().find(|(file, ..)| *file == path).map_or(LINES_MAX, |(_, limit, _)| *limit);
    let lines = source.production().count();
    if lines > limit {
        complain(0, format!("{lines} lines without tests, more than {limit}; split it by concept"));
    }
}

/// Places where unsafe code may be: the ground layer, one module of each backend, and what is nothing but a C interface.
fn may_be_unsafe(path: &str) -> bool {
    let is_sys = path.ends_with("/sys.rs") || path.contains("/src/sys/");
    path.starts_with("crates/base/") && !path.starts_with("crates/base/wire/")
        || path.starts_with("crates/ports/") && is_sys
        || path.starts_with("crates/apps/packetdrill/src/abi/")
}

fn check_unsafe(path: &str, source: &Source, complain: &mut impl FnMut(usize, String)) {
    for (number, code) in source.code.iter().enumerate() {
        let unsafe_here = has_word(code, "unsafe");
        let allowed_here = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
        if (unsafe_here || allowed_here) && !may_be_unsafe(path) {
            complain(number + 1, "unsafe code outside of crates/base, a backend's sys.rs and a C interface".into());
        } else if unsafe_here && !is_explained(source, number) {
            complain(number + 1, "unsafe without a `// SAFETY:` line (or a `# Safety` section) above it".into());
        }
    }
}

/// Lines above an `unsafe` in which its reason is looked for: a long comment, attributes, the start of the statement.
const REASON_LINES: usize = 12;

/// A block or impl is explained by `SAFETY:`, a function or trait by a `# Safety` section, a function type not at all.
fn is_explained(source: &Source, line: usize) -> bool {
    let code = &source.code[line];
    if code.contains("unsafe extern \"") && code.contains("fn(") {
        return true;
    }
    let start = line.saturating_sub(REASON_LINES);
    source.written[start..=line].iter().any(|written| {
        let comment = written.trim_start();
        written.contains("// SAFETY:") || comment.starts_with("/// # Safety")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&TextFile::new(path, text)).iter().map(Complaint::to_string).collect()
    }

    /// The only complaint about the text has these words.
    fn assert_found(path: &str, text: &str, words: &str) {
        let found = complaints(path, text);
        assert!(found.len() == 1 && found[0].contains(words), "{path}: wanted {words:?}, found {found:?}");
    }

    #[test]
    fn engines_have_no_clock_and_no_sockets() {
        let path = "crates/engines/gen/src/pace.rs";
        for line in [
            "use std::net::UdpSocket;",
            "let a = Instant::now();",
            "let a = std::time::SystemTime::UNIX_EPOCH;",
            "let a = clock::now_ns();",
            "std::thread::sleep(a);",
            "thread::spawn(run);",
        ] {
            assert_found(path, &format!("//! Head.\nfn a() {{\n{line}\n}}\n"), "pace.rs:3: `");
            let in_tests = format!("//! Head.\n#[cfg(test)]\nmod tests {{\n{line}\n}}\n");
            assert_eq!(complaints(path, &in_tests), [""; 0]);
            assert_eq!(complaints("crates/engines/gen/tests/pace.rs", &format!("//! Head.\n{line}\n")), [""; 0]);
            assert_eq!(complaints("crates/lab/tester-loop/src/lanes.rs", &format!("//! Head.\n{line}\n")), [""; 0]);
        }
        assert_eq!(complaints(path, "//! Head.\nfn a(now_ns: u64) {} // Instant::now\n"), [""; 0]);
    }

    #[test]
    fn one_loop_waits_for_ports() {
        let text = "//! Head.\nfn a() {\n    port.wait(Interest::Receive, 0);\n}\n";
        for path in [
            "crates/apps/bridge-loop/src/balance.rs",
            "crates/lab/tester-loop/src/lanes.rs",
            "crates/apps/switch/src/run.rs",
        ] {
            assert_found(path, text, ":3: waits for a port");
        }
        for path in ["crates/run/worker/src/ports.rs", "crates/ports/xdp/src/port.rs", "crates/apps/cli/tests/a.rs"] {
            assert_eq!(complaints(path, text), [""; 0]);
        }
        for line in [
            "while port.wait(interest, 0).is_ok() {}",
            "port.wait(linerate_port::Interest::Receive, 0);",
            "Port::wait(port, interest, 0);",
            "port.wait(\n        Interest::Receive,\n        0);",
            "port.arm_wakeup(Interest::Receive);",
        ] {
            let text = format!("//! Head.\nfn a() {{\n    {line}\n}}\n");
            assert_found("crates/run/worker/src/other.rs", &text, ":3: waits for a port");
        }
        assert_eq!(complaints("crates/apps/cli/src/a.rs", "//! Head.\nfn a() {\n    child.wait();\n}\n"), [""; 0]);
        let (excused, places, _) = WAITS_TOO[0];
        let waits = |times| format!("//! Head.\nfn a() {{\n{}}}\n", "    port.wait(interest, 0);\n".repeat(times));
        assert_eq!(complaints(excused, &waits(places)), [""; 0]);
        assert_found(excused, &waits(places + 1), ":4: waits for a port");
        assert_found(excused, &waits(places - 1), "any more");
    }

    #[test]
    fn unsafe_code_has_its_places_and_its_reasons() {
        let block = "//! Head.\nfn a() {\n    // SAFETY: it is.\n    unsafe { b() }\n}\n";
        let bare = "//! Head.\nfn a() {\n    unsafe { b() }\n}\n";
        for path in [
            "crates/base/mem/src/pool.rs",
            "crates/ports/xdp/src/sys.rs",
            "crates/ports/xdp/src/sys/ring.rs",
            "crates/base/bpf/tests/common/sys.rs",
        ] {
            assert_eq!(complaints(path, block), [""; 0], "{path}");
            assert_found(path, bare, ":3: unsafe without");
        }
        for path in [
            "crates/base/wire/src/tcp.rs",
            "crates/port/port/src/port.rs",
            "crates/ports/xdp/src/port.rs",
            "crates/engines/gen/src/sys.rs",
            "crates/lab/testbed/src/sys.rs",
            "crates/apps/cli/src/main.rs",
            "xtask/src/main.rs",
        ] {
            assert_found(path, block, ":4: unsafe code outside");
        }
        assert_found("crates/ports/xdp/src/port.rs", "//! Head.\n#![allow(unsafe_code)]\n", ":2: unsafe code outside");
        let documented = "//! Head.\n/// Does.\n///\n/// # Safety\n/// Not now.\npub unsafe fn a() {}\n";
        assert_eq!(complaints("crates/base/mem/src/pool.rs", documented), [""; 0]);
        assert_eq!(complaints("crates/engines/gen/src/a.rs", "//! Head, unsafe.\n// unsafe\n"), [""; 0]);
    }

    #[test]
    fn files_have_a_head_and_a_length() {
        assert_found("crates/base/mem/src/a.rs", "use std::fs;\n", "begins without");
        assert_found("crates/base/mem/src/a.rs", "", "begins without");
        let long = format!("//! Head.\n{}", "fn a() {}\n".repeat(LINES_MAX));
        assert_found("crates/base/mem/src/a.rs", &long, "601 lines");
        assert_eq!(complaints("crates/base/mem/tests/a.rs", &long), [""; 0]);
        let tested = format!("//! Head.\n#[cfg(test)]\nmod tests {{\n{}}}\n", "fn a() {}\n".repeat(LINES_MAX));
        assert_eq!(complaints("crates/base/mem/src/a.rs", &tested), [""; 0]);
    }

    #[test]
    fn safe_layers_say_so() {
        assert_found("crates/engines/gen/src/lib.rs", "//! Head.\n", "forbid(unsafe_code)");
        assert_eq!(complaints("crates/engines/gen/src/lib.rs", "//! Head.\n#![forbid(unsafe_code)]\n"), [""; 0]);
        assert_eq!(complaints("crates/base/mem/src/lib.rs", "//! Head.\n"), [""; 0]);
    }
}
