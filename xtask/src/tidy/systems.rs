//! Where a source may ask which operating system it is compiled for: in the list of a crate's modules, and of the crates that it stands on.

use super::Complaint;
use super::tree::TextFile;

/// The files that choose, with what. Short, and meant to stay so.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/base/sys/src/lib.rs", "what differs between systems"),
    ("crates/base/mem/src/lib.rs", "pages"),
    ("crates/ports/netmap/src/sys.rs", "numbers of requests, the scheduler"),
    ("crates/ports/all/src/lib.rs", "the table of backends"),
    ("crates/ports/all/Cargo.toml", "the backends"),
    ("crates/apps/console/src/lib.rs", "valeS:P names, locks of cores, what drivers tell"),
    ("crates/apps/traffic/src/lib.rs", "neighbours"),
    ("crates/apps/cli/src/lib.rs", "the list of subcommands"),
    ("crates/apps/cli/src/cmd/mod.rs", "the subcommands"),
    ("crates/apps/cli/Cargo.toml", "the crates of the subcommands"),
];

/// Every breach in one file.
pub fn check(file: &TextFile) -> Vec<Complaint> {
    let path = file.path.as_str();
    let (is_source, is_manifest) = (path.ends_with(".rs"), path.ends_with("/Cargo.toml"));
    if !path.starts_with("crates/") || !(is_source || is_manifest) {
        return Vec::new();
    }
    // Most files do not have the word, in comments and literals neither.
    if !file.text.contains("target_os") {
        return Vec::new();
    }
    let lines: Vec<String> = if is_source { Vec::new() } else { file.text.lines().map(str::to_string).collect() };
    let code = if is_source { &file.source().code } else { &lines };
    let allowed = ALLOWED.iter().any(|(file, _)| *file == path);
    let asks = (0..code.len()).filter(|line| code[*line].contains("target_os"));
    let breach = |line: usize| match allowed {
        false => Some("asks for the operating system; modules are chosen in one place (xtask/src/tidy/systems.rs)"),
        true if is_source && !is_module(code, line) => Some("chooses something else than a whole module by the system"),
        true => None,
    };
    asks.filter_map(|line| breach(line).map(|what| Complaint::new(path, line + 1, what))).collect()
}

/// True if the attribute in `line` is one of a module, or of what a module hands on.
fn is_module(code: &[String], line: usize) -> bool {
    let attributed = code[line + 1..].iter().find(|code| !code.trim().is_empty() && !code.starts_with("#["));
    let words = ["mod ", "pub mod ", "pub use "];
    code[line].starts_with("#[") && attributed.is_some_and(|code| words.iter().any(|word| code.starts_with(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&TextFile::new(path, text)).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn modules_are_chosen_where_they_are_listed() {
        let (listed, other) = ("crates/base/sys/src/lib.rs", "crates/base/sys/src/poll.rs");
        let module = "//! Head.\n#[cfg(target_os = \"linux\")]\npub mod a;\n";
        assert_eq!(complaints(listed, module), [""; 0]);
        let by_path = "//! Head.\n#[cfg_attr(target_os = \"freebsd\", path = \"freebsd/a.rs\")]\nmod a;\n";
        assert_eq!(complaints(listed, by_path), [""; 0]);
        for (path, text, words) in [
            (other, module, "poll.rs:2: asks for the operating system"),
            (other, "//! Head.\nfn a() {\n    if cfg!(target_os = \"linux\") {}\n}\n", "poll.rs:3: asks"),
            (listed, "//! Head.\n#[cfg(target_os = \"linux\")]\nfn a() {}\n", "lib.rs:2: chooses something else"),
            (listed, "//! Head.\nmod a {\n    #[cfg(target_os = \"linux\")]\n    pub mod b;\n}\n", "lib.rs:3: chooses"),
            ("crates/base/ring/Cargo.toml", "[target.'cfg(target_os = \"linux\")'.dependencies]\n", "toml:1: asks"),
        ] {
            let found = complaints(path, text);
            assert!(found.len() == 1 && found[0].contains(words), "{path}: wanted {words:?}, found {found:?}");
        }
        assert_eq!(complaints(other, "//! Head: target_os.\nconst A: &str = \"target_os\";\n"), [""; 0]);
        assert_eq!(
            complaints("crates/ports/all/Cargo.toml", "[target.'cfg(target_os = \"linux\")'.dependencies]\n"),
            [""; 0]
        );
        assert_eq!(complaints("xtask/src/main.rs", module), [""; 0]);
    }
}
