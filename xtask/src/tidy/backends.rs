//! Who may name a backend, and who may put a port's name together: `ports/all`, and a few who read names that users write.

use super::Complaint;
use super::lexer::{Source, has_word};

/// The backends, and the words before the colon of a port's name.
const BACKENDS: [&str; 15] = [
    "pipe", "null", "file", "packet", "xdp", "xdplive", "pcap", "tap", "memif", "vhost", "shm", "vxlan", "gre", "dpdk",
    "netmap",
];
/// Those of them that mean nothing else in English or in a format, so that the bare word is a backend.
const UNAMBIGUOUS: [&str; 5] = ["xdp", "xdplive", "memif", "vhost", "shm"];

/// Where a name may stand, by the start of the path, and why.
const NAMES_ALLOWED: &[(&str, &str)] = &[
    ("crates/ports/", "each backend has its own name, and ports/all has them all"),
    ("crates/apps/pktgen/src/interface.rs", "the names of netmap's pkt-gen are translated there"),
    ("crates/apps/console/src/freebsd/attach.rs", "names of switches are netmap's there"),
    ("crates/apps/cli/src/cmd/bench_capture.rs", "the values of --tool are backends"),
    ("crates/lab/experiment/src/", "experiment files say which backends they compare"),
    ("crates/lab/testbed/src/dut/", "the words of experiment files are read there, and become port names"),
    ("crates/lab/runner/src/lab.rs", "the ports of a tester that the experiment file leaves open"),
];

/// Where a text may begin with a comma and an option, and why.
const OPTIONS_ALLOWED: &[(&str, &str)] = &[
    ("crates/engines/openflow-text/src/", "words of flows and groups, as ovs-ofctl and Lagopus print them"),
    ("crates/apps/switch/src/config.rs", "`,vlan=` and `,to=` are words of --mac and --mirror"),
    ("crates/apps/ofswitch/src/target.rs", "`,aux=` is a word of --controller"),
    ("crates/apps/cli/src/cmd/bridge.rs", "`,rx` and `,tx` are words of --monitor"),
    ("crates/lab/testbed/src/dut/ovs/", "arguments of DPDK's devices, which Open vSwitch opens"),
];

/// Every breach in the source file `path`.
pub fn check(path: &str, source: &Source) -> Vec<Complaint> {
    let is_product = path.starts_with("crates/") && path.contains("/src/") && !super::sources::is_test_file(path);
    if !is_product {
        return Vec::new();
    }
    let allowed = |list: &[(&str, &str)]| list.iter().any(|(start, _)| path.starts_with(start));
    let (names, options) = (allowed(NAMES_ALLOWED), allowed(OPTIONS_ALLOWED) || path.starts_with("crates/port/port/"));
    let mut complaints = Vec::new();
    let mut above = Above::default();
    for (line, code) in source.production() {
        let head = above.head(code);
        for text in literals(code, &source.written[line - 1]) {
            if !names && names_backend(&text, &[code, head]) {
                let rule = "names a backend; ask linerate_ports (far_side, access, file, ...) or the port's Caps";
                complaints.push(Complaint::new(path, line, format!("`{text}` {rule}")));
            }
            if !options && is_option(&text) {
                complaints.push(Complaint::new(path, line, format!("`{text}` {GLUED}")));
            }
        }
        if !options && (joins_literals(source, line) || appends_comma(code, &source.written[line - 1])) {
            complaints.push(Complaint::new(path, line, format!("what a comma is put before {GLUED}")));
        }
    }
    complaints
}

const GLUED: &str = "is an option glued to a port's name; use OpenOptions, or PortSpec::with";

/// The texts between quotes of a line; `code` is the line with these blanked out.
fn literals(code: &str, written: &str) -> Vec<String> {
    let written: Vec<char> = written.chars().collect();
    let quotes: Vec<usize> = code.chars().enumerate().filter(|(_, letter)| *letter == '"').map(|(at, _)| at).collect();
    quotes
        .chunks_exact(2)
        .filter_map(|pair| written.get(pair[0] + 1..pair[1]))
        .map(|text| text.iter().collect())
        .collect()
}

/// The lines that the next one is indented below.
#[derive(Default)]
struct Above<'a>(Vec<(usize, &'a str)>);

impl<'a> Above<'a> {
    /// The head of the block that a line is in, if it is that of a `match`; lines are given in order.
    fn head(&mut self, code: &'a str) -> &'a str {
        let indent = code.len() - code.trim_start().len();
        if code.trim().is_empty() {
            return "";
        }
        self.0.retain(|(above, _)| *above < indent);
        let head = self.0.last().map_or("", |(_, head)| head);
        self.0.push((indent, code));
        if has_word(head, "match") { head } else { "" }
    }
}

/// A whole port name, or the bare word where it can mean nothing else or is compared with a backend in one of these lines.
fn names_backend(text: &str, code: &[&str]) -> bool {
    let named = |(word, rest): (&str, &str)| BACKENDS.contains(&word) && !rest.starts_with([' ', ':']);
    text.split_once(':').is_some_and(named)
        || UNAMBIGUOUS.contains(&text)
        || BACKENDS.contains(&text) && code.iter().any(|line| line.contains("backend"))
}

/// `,key`, `,key=` or `{spec},key=`, without a space: no list of words. Also what is written behind `{spec}`, whatever it is.
fn is_option(text: &str) -> bool {
    let glued = text.strip_prefix(',').or_else(|| text.split_once("},").map(|(_, rest)| rest));
    let key_ends = |rest: &str| {
        let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap_or(rest.len());
        end > 0 && (end == rest.len() || rest[end..].starts_with(['=', ',']))
    };
    let behind_spec = |glue: &str| text.contains(&format!("{{spec}}{glue}"));
    !text.contains(' ') && (glued.is_some_and(key_ends) || behind_spec(",") || behind_spec("@"))
}

/// A list with a literal among its words that is joined by commas in this line: `[spec, "tx_only"].join(",")`. The list may begin in a line above.
fn joins_literals(source: &Source, line: usize) -> bool {
    let Some(at) = source.written[line - 1].find(".join(\",\")") else { return false };
    let ends = |code: &String| code.trim_end().ends_with([';', '{', '}']);
    let above = source.code[..line - 1].iter().rev().take_while(|code| !ends(code)).count();
    let mut statement = source.code[line - 1 - above..line - 1].join(" ");
    statement.extend(source.code[line - 1].chars().take(source.written[line - 1][..at].chars().count()));
    let is_list = |(at, _): &(usize, &str)| {
        let before = statement[..*at].trim_end().chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | ')' | ']' | '#'))
    };
    statement.match_indices('[').filter(is_list).any(|(at, _)| list_at(&statement[at..]).contains('"'))
}

/// The list that begins a text, without what is in calls.
fn list_at(text: &str) -> String {
    let mut depth = 0i32;
    let mut list = String::new();
    for letter in text.chars() {
        match letter {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth -= 1,
            _ if depth == 1 => list.push(letter),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    list
}

/// A text gets a comma: `spec + ","`, `spec += ","`, `spec.push_str(",")`, `[spec, ",", "tx_only"]`.
fn appends_comma(code: &str, written: &str) -> bool {
    written.match_indices("\",\"").any(|(at, _)| {
        let before = code.chars().take(written[..at].chars().count()).collect::<String>();
        let before = before.trim_end();
        code.chars().nth(written[..at].chars().count()) == Some('"') && before.ends_with(['+', '=', ','])
            || before.ends_with(".push_str(")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, line: &str) -> usize {
        check(path, &Source::new(&format!("//! Head.\nfn a() {{\n{line}\n}}\n"))).len()
    }

    const PATH: &str = "crates/apps/cli/src/a.rs";

    #[test]
    fn only_ports_all_names_backends() {
        for line in [
            r#"if spec.backend.as_deref() == Some("file") {}"#,
            r#"matches!(caps.backend, "null" | "pcap");"#,
            r#"if kind == "xdp" {}"#,
            r#"open("packet:eth0");"#,
            r#"format!("pipe:{name}");"#,
            r#"text.strip_prefix("memif:");"#,
            "match caps.backend {\n    \"packet\" | \"tap\" => true,\n    _ => false,\n}",
        ] {
            assert!(complaints(PATH, line) > 0, "{line}");
            assert_eq!(complaints("crates/ports/all/src/a.rs", line), 0, "{line}");
            assert_eq!(complaints("crates/apps/cli/tests/a.rs", line), 0, "{line}");
        }
        for line in [
            r#"let what = "file";"#,
            r#"// "xdp""#,
            r#"say("no file: none");"#,
            r#"format!("{path}: pcap");"#,
            r#"flag("packet");"#,
            "match word {\n    \"packet\" => true,\n    _ => false,\n}",
        ] {
            assert_eq!(complaints(PATH, line), 0, "{line}");
        }
        let in_tests = "#[cfg(test)]\nmod tests {\nconst A: &str = \"xdp:eth0\";\n}";
        assert_eq!(complaints(PATH, in_tests), 0);
    }

    #[test]
    fn no_option_is_glued_to_a_name() {
        for line in [
            r#"let a = ",tx_only";"#,
            r#"text += ",promisc=no";"#,
            r#"format!("{spec},write");"#,
            r#"format!("{name}@{queue},rings=2,role=client");"#,
            r#"format!(",ring={}", bytes);"#,
            r#"format!("{spec},{option}");"#,
            r#"format!("{spec}@{queue}");"#,
            r#"[spec, "x"].join(",");"#,
            r#"let text = vec![spec.to_string(), "x=1".into()].join(",");"#,
            r#"let text = [spec, "x"].map(String::from).join(",");"#,
            "let text = [\n    spec,\n    \"x\",\n]\n.join(\",\");",
            r#"let text = spec + "," + option;"#,
            r#"text += ",";"#,
            r#"text.push_str(",");"#,
            r#"[spec, ",", option].concat();"#,
        ] {
            assert!(complaints(PATH, line) > 0, "{line}");
            assert_eq!(complaints("crates/port/port/src/spec.rs", line), 0, "{line}");
        }
        for line in [
            r#"join(",");"#,
            r#"format!("{a}, {b}");"#,
            r#"format!("{a},{b}");"#,
            r#"let a = ", as one";"#,
            r#"words.join(",");"#,
            r#"[a, b].join(",");"#,
            r#"names.map(|name| format!("{name}:1")).collect::<Vec<_>>().join(",");"#,
            r#"fields["a"].join(",");"#,
            r#"text.split(",");"#,
        ] {
            assert_eq!(complaints(PATH, line), 0, "{line}");
        }
    }
}
