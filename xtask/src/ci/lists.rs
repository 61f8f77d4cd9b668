//! Two lists in the tree: the tests that may be skipped even where a machine allows everything, and those that were unsteady before.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::test_output::Skip;

/// The skips that are permitted, in the workspace.
pub const SKIPS: &str = "xtask/skips.txt";
/// Names of tests that failed beside others and passed by themselves, in the workspace.
pub const UNSTEADY: &str = "xtask/unsteady.txt";

/// A line of [`SKIPS`]: the name of a test, or `*` for any, and a part of the reason that it gives.
#[derive(Debug, PartialEq, Eq)]
pub struct Permitted {
    test: String,
    why: String,
}

/// The lists, and whether skips are held against theirs.
#[derive(Debug)]
pub struct Lists {
    permitted: Vec<Permitted>,
    /// Why a skip that is not permitted is no failure here: this machine or this user may not do what the tests do.
    pub lenient: Option<String>,
    unsteady: Vec<String>,
    unsteady_path: PathBuf,
}

impl Lists {
    /// Reads the lists of the workspace.
    pub fn read(root: &Path) -> Result<Lists> {
        let text = |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("reading {name}"));
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Ok(Lists {
            permitted: permitted(&text(SKIPS)?)?,
            lenient: restricted(&status, &users),
            unsteady: lines(&text(UNSTEADY)?).map(str::to_string).collect(),
            unsteady_path: root.join(UNSTEADY),
        })
    }

    #[cfg(test)]
    pub fn of(skips: &str, lenient: Option<&str>, unsteady: &[&str]) -> Lists {
        let unsteady = unsteady.iter().map(|name| name.to_string()).collect();
        let permitted = permitted(skips).expect("a list");
        Lists { permitted, lenient: lenient.map(str::to_string), unsteady, unsteady_path: PathBuf::new() }
    }

    /// The skips that are on no line.
    pub fn not_permitted<'a>(&self, skipped: &'a [Skip]) -> Vec<&'a Skip> {
        let allows = |skip: &Skip, line: &Permitted| {
            (line.test == "*" || line.test == skip.test) && skip.why.contains(&line.why)
        };
        skipped.iter().filter(|skip| !self.permitted.iter().any(|line| allows(skip, line))).collect()
    }

    /// Whether the test was unsteady before.
    pub fn was_unsteady(&self, test: &str) -> bool {
        self.unsteady.iter().any(|name| name == test)
    }

    /// Writes the names of tests that are unsteady for the first time into the list, so that the next time is a failure.
    pub fn add_unsteady(&self, tests: &[String]) -> Result<()> {
        let mut file = fs::File::options().append(true).open(&self.unsteady_path)?;
        tests.iter().try_for_each(|test| writeln!(file, "{test}"))?;
        Ok(())
    }
}

/// The lines of a list, without its comments.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A name or reason that is empty would permit everything.
fn permitted(text: &str) -> Result<Vec<Permitted>> {
    let one = |line: &str| {
        let (test, why) = line.split_once(": ").filter(|(test, why)| !test.is_empty() && !why.trim().is_empty())?;
        Some(Permitted { test: test.into(), why: why.trim().into() })
    };
    lines(text).map(|line| one(line).with_context(|| format!("{SKIPS}: not `TEST: WHY`: {line}"))).collect()
}

/// Why the tests may not do here what they do, by /proc/PID/status and user_namespaces(7); `None` for root of the machine.
fn restricted(status: &str, users: &str) -> Option<String> {
    const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];
    let word = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1));
    if word("Uid:") != Some("0") {
        return Some("not run as root".into());
    }
    if users.split_whitespace().ne(["0", "0", "4294967295"]) {
        return Some("root of a user namespace only".into());
    }
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = capabilities.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or_default();
    let missing = NEEDED.iter().find(|(bit, _)| held & 1 << bit == 0)?;
    Some(format!("root without {}", missing.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_permitted_by_its_test_and_its_reason() {
        let skip = |test: &str, why: &str| Skip { test: test.into(), why: why.into(), in_part: false };
        let skips = [
            skip("x::a", "tshark is not installed"),
            skip("x::b", "no veth pair: Invalid argument"),
            skip("x::b", "one core"),
        ];
        let list = Lists::of("# a comment\n\n*: is not installed\nx::b: one core\n", None, &["c"]);
        assert_eq!(list.not_permitted(&skips), [&skips[1]]);
        assert!(list.was_unsteady("c") && !list.was_unsteady("a"));
        for bad in ["x::b", "x::b:", "x::b: ", ": why"] {
            assert!(permitted(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_unsteady_tests_are_added_to_the_list() {
        let path = std::env::temp_dir().join(format!("xtask-{}-unsteady.txt", std::process::id()));
        fs::write(&path, "# names\n").unwrap();
        let list = Lists { unsteady_path: path.clone(), ..Lists::of("", None, &[]) };
        list.add_unsteady(&["a".into(), "x::b".into()]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(lines(&text).collect::<Vec<_>>(), ["a", "x::b"]);
    }

    #[test]
    fn only_root_of_the_machine_may_do_everything() {
        let status = |uid: &str, held: &str| format!("Name:\txtask\nUid:\t1000\t{uid}\t0\t0\nCapEff:\t{held}\n");
        let (all, some) = ("000001ffffffffff", "00000000a80425fb");
        let machine = "         0          0 4294967295\n";
        assert_eq!(restricted(&status("0", all), machine), None);
        assert_eq!(restricted(&status("1000", all), machine).as_deref(), Some("not run as root"));
        assert_eq!(restricted(&status("0", some), machine).as_deref(), Some("root without CAP_NET_ADMIN"));
        assert!(restricted(&status("0", all), "0 1000 1\n").is_some_and(|why| why.contains("user namespace")));
    }

    #[test]
    fn the_lists_of_the_tree_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Lists::read(root).unwrap();
    }
}
