//! Circles between the modules of a crate: modules that need each other cannot be read, tested or moved one by one.
//!
//! ```text
//! src/a.rs, src/a/b.rs, src/c.rs     a (with all that is below it) and c are neighbours; b is below a
//! crate::c::X in src/a/b.rs          an arrow from a to c
//! ```
//! The rule holds for each folder by itself: the arrows between neighbours form no circle. A module and the modules below it may name
//! each other. A name that a module only passes on (`pub use`) belongs to the module that it comes from. Tests are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::sources::is_test_file;
use super::tree::TextFile;

/// Circles that may stay: the crate's folder, the modules of the circle in order, and the reason.
const PERMITTED: &[(&str, &[&str], &str)] = &[
    ("crates/apps/switch", &["mirrors", "service"], SPLIT_OF_ONE_TYPE),
    ("crates/base/mem", &["batch", "ownership", "pool"], "a pool fills batches, a batch returns its slots to the pool"),
    ("crates/lab/tester", &["endpoint", "ends", "outcome", "sink"], SPLIT_OF_ONE_TYPE),
    ("crates/lab/tester", &["load_run", "trial"], SPLIT_OF_ONE_TYPE),
    ("crates/ports/all", &["choose", "open"], "a bare interface is opened as the first candidate that opens"),
    ("crates/ports/packet", &["port", "receive", "ring"], SPLIT_OF_ONE_TYPE),
    ("crates/ports/shm", &["link", "sys"], SPLIT_OF_ONE_TYPE),
    ("crates/ports/vhost", &["device", "interrupts", "ring"], SPLIT_OF_ONE_TYPE),
    ("crates/run/control", &["ports", "service"], SPLIT_OF_ONE_TYPE),
    ("crates/run/worker", &["job", "ports", "rest", "worker"], SPLIT_OF_ONE_TYPE),
];

const SPLIT_OF_ONE_TYPE: &str = "the files hold parts of one type, which would be one long file otherwise";

/// Names of a module from the crate's root down.
type ModulePath = Vec<String>;

/// The modules of one crate.
#[derive(Default)]
struct Crate {
    /// File and code of each module; lines are kept.
    modules: BTreeMap<ModulePath, (String, String)>,
    /// Names that a module takes from elsewhere: (module, name) to the module that it comes from.
    imported: BTreeMap<(ModulePath, String), ModulePath>,
}

/// Neighbours that reach each other.
struct Circle {
    /// In order.
    modules: Vec<String>,
    /// The arrows between them, in words.
    arrows: Vec<String>,
}

/// An arrow between neighbours, with the first line that shows it.
type Arrows = BTreeMap<(String, String), (String, usize)>;

/// Every circle in the crates under `crates/`.
pub fn check(files: &[TextFile]) -> Vec<Complaint> {
    complaints(&circles(files), PERMITTED)
}

/// The circles, each with the folder of its crate.
fn circles(files: &[TextFile]) -> Vec<(String, Circle)> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.starts_with("crates/") && !is_test_file(&file.path)) {
        let Some((folder, inner)) = file.path.split_once("/src/") else { continue };
        let Some(path) = module_path(inner) else { continue };
        let source = file.source();
        let lines = source.code.iter().zip(&source.in_tests);
        let code: Vec<&str> = lines.map(|(code, test)| if *test { "" } else { code.as_str() }).collect();
        crates.entry(folder.into()).or_default().modules.insert(path, (file.path.clone(), code.join("\n")));
    }
    let of_crate =
        |(folder, found): (String, Crate)| found.circles().into_iter().map(move |circle| (folder.clone(), circle));
    crates.into_iter().flat_map(of_crate).collect()
}

/// One complaint for each circle that is not permitted, and for each permitted one that is not there any more.
fn complaints(found: &[(String, Circle)], permitted: &[(&str, &[&str], &str)]) -> Vec<Complaint> {
    let is = |circle: &(String, Circle), known: &(&str, &[&str], &str)| {
        circle.0 == known.0 && circle.1.modules.iter().map(String::as_str).eq(known.1.iter().copied())
    };
    let new = found.iter().filter(|circle| !permitted.iter().any(|known| is(circle, known)));
    let gone = permitted.iter().filter(|known| !found.iter().any(|circle| is(circle, known)));
    let new = new.map(|(folder, circle)| {
        let text = format!("modules in a circle: {}; give what they share a file below them", circle.arrows.join(", "));
        Complaint::new(folder, 0, text)
    });
    let gone = gone.map(|(folder, modules, _)| {
        Complaint::new(*folder, 0, format!("{} are no circle any more; take them out of PERMITTED", modules.join(", ")))
    });
    new.chain(gone).collect()
}

/// `a/b.rs` and `a/b/mod.rs` are the module `a::b`; programs of their own (`main.rs`, `bin/`) have no neighbours.
fn module_path(inner: &str) -> Option<ModulePath> {
    let name = inner.strip_suffix(".rs")?;
    if name == "main" || name.starts_with("bin/") {
        return None;
    }
    let name = name.strip_suffix("/mod").unwrap_or(name);
    Some(if name == "lib" { Vec::new() } else { name.split('/').map(str::to_string).collect() })
}

impl Crate {
    fn circles(mut self) -> Vec<Circle> {
        self.find_imports();
        let mut levels: BTreeMap<ModulePath, Arrows> = BTreeMap::new();
        for (path, (file, code)) in &self.modules {
            for (at, named) in named_paths(code) {
                let Some(target) = self.resolve(path, &named, 0) else { continue };
                let level = path.iter().zip(&target).take_while(|(from, to)| from == to).count();
                if let (Some(from), Some(to)) = (path.get(level), target.get(level)) {
                    let line = code[..at].matches('\n').count() + 1;
                    let arrows = levels.entry(path[..level].to_vec()).or_default();
                    arrows.entry((from.clone(), to.clone())).or_insert_with(|| (file.clone(), line));
                }
            }
        }
        levels.values().flat_map(circles_of).collect()
    }

    /// Notes where the names come from that modules take with `use`.
    fn find_imports(&mut self) {
        // Twice, because a name may be passed on by two modules.
        for _ in 0..2 {
            let mut found = Vec::new();
            for (path, (_, code)) in &self.modules {
                for named in code.split(';').filter_map(use_tree).flat_map(paths_of) {
                    let Some((name, target)) = named.last().cloned().zip(self.resolve(path, &named, 0)) else {
                        continue;
                    };
                    if target != *path {
                        found.push(((path.clone(), name), target));
                    }
                }
            }
            self.imported.extend(found);
        }
    }

    /// The module that a path named in `module` leads to; `None` if it leads out of the crate.
    fn resolve(&self, module: &[String], named: &[String], depth: usize) -> Option<ModulePath> {
        let mut at: ModulePath;
        let mut rest = named;
        match named.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &rest[1..]),
            "self" => (at, rest) = (module.to_vec(), &rest[1..]),
            "super" => at = module.to_vec(),
            child => {
                at = module.to_vec();
                if !self.modules.contains_key(&[module, &[child.to_string()]].concat()) {
                    return None;
                }
            }
        }
        while rest.first().is_some_and(|word| word == "super") {
            at.pop();
            rest = &rest[1..];
        }
        for word in rest {
            let below = [at.as_slice(), std::slice::from_ref(word)].concat();
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            if let Some(source) = self.imported.get(&(at.clone(), word.clone())).filter(|_| depth < 4) {
                at = source.clone();
            }
            break;
        }
        Some(at)
    }
}

/// The tree of a `use` declaration, if the statement ends in one.
fn use_tree(statement: &str) -> Option<&str> {
    let at =
        statement.rfind("use ").filter(|at| !statement[..*at].ends_with(|before: char| before.is_alphanumeric()))?;
    Some(statement[at + 4..].trim()).filter(|tree| !tree.contains(['(', '=']))
}

/// Every path in code that begins with `crate`, `self` or `super`, with where it begins.
fn named_paths(code: &str) -> Vec<(usize, ModulePath)> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | ':' | '$')) {
                continue;
            }
            found.extend(paths_of(&code[at..]).into_iter().map(|path| (at, path)));
        }
    }
    found.sort();
    found
}

/// The paths of a `use` tree, or the one path that begins a text.
fn paths_of(text: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    walk(text, &mut Vec::new(), &mut found);
    found
}

/// Reads one tree, adds its paths with `before` in front, and returns the text behind it.
fn walk<'a>(text: &'a str, before: &mut ModulePath, found: &mut Vec<ModulePath>) -> &'a str {
    let depth = before.len();
    let mut rest = text.trim_start();
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            loop {
                inner = walk(inner, before, found).trim_start();
                match inner.strip_prefix(',') {
                    Some(next) if !next.trim_start().starts_with('}') => inner = next,
                    next => break inner = next.unwrap_or(inner),
                }
            }
            before.truncate(depth);
            return inner.trim_start().strip_prefix('}').unwrap_or(inner);
        }
        let end = rest.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if !word.is_empty() {
            before.push(word.into());
        }
        let Some(next) = behind.strip_prefix("::").filter(|_| !word.is_empty()) else {
            found.push(before.clone());
            before.truncate(depth);
            // `as another_name` and `*` end a tree, too.
            return behind.find([',', '}', ';']).map_or("", |at| &behind[at..]);
        };
        rest = next;
    }
}

/// The sets of neighbours that reach each other.
fn circles_of(arrows: &Arrows) -> Vec<Circle> {
    let names: BTreeSet<&String> = arrows.keys().flat_map(|(from, to)| [from, to]).collect();
    let reach: BTreeMap<&String, BTreeSet<&String>> = names.iter().map(|name| (*name, reached(name, arrows))).collect();
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for name in names {
        let circle: BTreeSet<&String> =
            reach[name].iter().copied().filter(|other| reach[*other].contains(name)).collect();
        if circle.is_empty() || !done.insert(circle.clone()) {
            continue;
        }
        let inside = arrows.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
        let words = inside.map(|((from, to), (file, line))| format!("{from} -> {to} ({file}:{line})"));
        found.push(Circle { arrows: words.collect(), modules: circle.into_iter().cloned().collect() });
    }
    found
}

/// The neighbours that arrows lead to from `name`.
fn reached<'a>(name: &str, arrows: &'a Arrows) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open = vec![name];
    while let Some(from) = open.pop() {
        for (_, to) in arrows.keys().filter(|(start, _)| start == from) {
            if found.insert(to) {
                open.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(files: &[(&str, &str)], permitted: &[(&str, &[&str], &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| TextFile::new(format!("crates/base/x/src/{path}"), *text);
        let found = circles(&files.iter().map(file).collect::<Vec<_>>());
        complaints(&found, permitted).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn two_files_that_name_each_other_are_a_circle() {
        let there = ("a.rs", "use crate::{b::{C, D as E}, Other};\n");
        let found = told(&[there, ("b.rs", "fn f() {\n    super::a::g();\n}\n")], &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("a -> b (crates/base/x/src/a.rs:1)"), "{found:?}");
        assert!(found[0].contains("b -> a (crates/base/x/src/b.rs:2)"), "{found:?}");
        assert_eq!(told(&[there, ("b.rs", "use std::fmt;\n")], &[]), [""; 0]);
        let in_tests = "#[cfg(test)]\nmod tests {\n    use crate::a::G;\n}\n";
        assert_eq!(told(&[there, ("b.rs", in_tests)], &[]), [""; 0]);
        assert_eq!(told(&[there, ("b.rs", "// crate::a::g, \"crate::a\"\n")], &[]), [""; 0]);
    }

    #[test]
    fn a_name_that_is_passed_on_belongs_to_where_it_comes_from() {
        let root = ("lib.rs", "mod a;\nmod b;\npub use a::{G, H};\npub use b::C;\n");
        let found = told(&[root, ("a.rs", "use crate::C;\n"), ("b.rs", "use crate::{fmt, G};\n")], &[]);
        assert!(found.len() == 1 && found[0].contains("a -> b"), "{found:?}");
        assert_eq!(told(&[root, ("a.rs", "use crate::C;\n"), ("b.rs", "use crate::own;\n")], &[]), [""; 0]);
    }

    #[test]
    fn folders_are_taken_with_all_that_is_below_them() {
        let deep = ("a/deep.rs", "use crate::b::C;\n");
        let found = told(&[("a.rs", ""), deep, ("b.rs", ""), ("b/low.rs", "use crate::a::deep::D;\n")], &[]);
        assert!(found.len() == 1 && found[0].contains("a -> b (crates/base/x/src/a/deep.rs:1)"), "{found:?}");
        // A module and those below it may name each other; three in a row are no circle.
        assert_eq!(told(&[("a.rs", "use self::deep::D;\n"), ("a/deep.rs", "use super::X;\n")], &[]), [""; 0]);
        let row = [("a.rs", "use crate::b::C;\n"), ("b.rs", "use crate::c::D;\n"), ("c.rs", "")];
        assert_eq!(told(&row, &[]), [""; 0]);
        let closed = [row[0], row[1], ("c.rs", "use crate::a::E;\n")];
        assert_eq!(told(&closed, &[]).len(), 1);
    }

    #[test]
    fn permitted_circles_must_be_there() {
        let files = [("a.rs", "use crate::b::C;\n"), ("b.rs", "use crate::a::D;\n")];
        let permitted: &[(&str, &[&str], &str)] = &[("crates/base/x", &["a", "b"], "a reason")];
        assert_eq!(told(&files, permitted), [""; 0]);
        let gone = told(&[files[0], ("b.rs", "")], permitted);
        assert!(gone.len() == 1 && gone[0].contains("a, b are no circle any more"), "{gone:?}");
    }
}
