//! Who may depend on whom. Folders under `crates/` are the layers; arrows only point down, and some stay out altogether.

use std::path::Path;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, MetadataCommand};

use super::Complaint;

/// From the ground up.
const LAYERS: [&str; 7] = ["base", "port", "ports", "engines", "run", "lab", "apps"];
/// What an engine may stand on: memory, rings, headers, formats of files, filters, numbers, lookups, the port trait, other engines. Not `sys`,
/// which has the clock.
const ENGINE_BASE: [&str; 10] =
    ["mem", "ring", "measure", "wire", "pcapng", "filter", "units", "classify", "slab", "reassembly"];
/// Crates of others that bring sockets, threads of their own or a clock.
const ENGINE_STRANGERS: [&str; 8] = ["libc", "nix", "rustix", "mio", "socket2", "tokio", "libloading", "chrono"];

/// One crate of the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crate {
    /// Package name.
    pub name: String,
    /// Folder from the workspace's root, e.g. `crates/ports/pipe`.
    pub folder: String,
    /// Normal and build dependencies, by package name. What only tests need may be anything.
    pub dependencies: Vec<String>,
    /// Text of its manifest.
    pub manifest: String,
}

impl Crate {
    /// Layer and folder name inside it; `None` for what is no part of the tree (xtask, benches).
    fn place(&self) -> Option<(usize, &str)> {
        let (layer, name) = self.folder.strip_prefix("crates/")?.split_once('/')?;
        Some((LAYERS.iter().position(|known| *known == layer)?, name))
    }
}

/// Asks cargo for the crates of the workspace.
pub fn read(root: &Path) -> Result<Vec<Crate>> {
    let mut command = MetadataCommand::new();
    command.manifest_path(root.join("Cargo.toml")).no_deps();
    let metadata = command.exec().context("cargo metadata")?;
    let mut crates = Vec::new();
    for package in metadata.workspace_packages() {
        let folder = package.manifest_path.parent().context("a manifest without a folder")?;
        let folder = folder.strip_prefix(&metadata.workspace_root).unwrap_or(folder).as_str().replace('\\', "/");
        let needed = package.dependencies.iter().filter(|needed| needed.kind != DependencyKind::Development);
        let dependencies = needed.map(|needed| needed.name.clone()).collect();
        let manifest = std::fs::read_to_string(&package.manifest_path)
            .with_context(|| format!("reading {}", package.manifest_path))?;
        crates.push(Crate { name: package.name.to_string(), folder, dependencies, manifest });
    }
    Ok(crates)
}

/// Every breach of the layering.
pub fn check(crates: &[Crate]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for member in crates {
        let mut complain = |text: String| complaints.push(Complaint::new(&member.folder, 0, text));
        if !member.manifest.contains("[lints]\nworkspace = true") {
            complain("the manifest does not take the lints of the workspace: [lints] workspace = true".into());
        }
        let Some((layer, folder)) = member.place() else {
            if member.folder.starts_with("crates/") {
                complain(format!("is in no layer; the layers are {}", LAYERS.join(", ")));
            }
            continue;
        };
        let wanted = package_name(LAYERS[layer], folder);
        if member.name != wanted {
            complain(format!("is called {}; a crate in this folder is called {wanted}", member.name));
        }
        for name in &member.dependencies {
            match crates.iter().find(|other| other.name == *name) {
                Some(other) => inside(member, other).into_iter().for_each(&mut complain),
                None => outside(member, name).into_iter().for_each(&mut complain),
            }
        }
    }
    complaints
}

/// Name of the package in a folder.
fn package_name(layer: &str, folder: &str) -> String {
    match (layer, folder) {
        ("ports", "all") => "linerate-ports".into(),
        ("ports", name) => format!("linerate-port-{name}"),
        ("apps", "cli") => "linerate".into(),
        (_, name) => format!("linerate-{name}"),
    }
}

/// What is wrong with `member` depending on `other` of this workspace.
fn inside(member: &Crate, other: &Crate) -> Option<String> {
    let (layer, folder) = member.place()?;
    let name = &other.name;
    let Some((below, other_folder)) = other.place() else {
        return Some(format!("depends on {name}, which is a tool of the workspace, not a part of it"));
    };
    if matches!((LAYERS[layer], folder), ("base", "wire") | ("lab", "search")) {
        return Some(format!("depends on {name}; {folder} knows no other crate of the workspace"));
    }
    if below > layer {
        return Some(format!("depends on {name} of the layer {} above it; arrows only point down", LAYERS[below]));
    }
    match (LAYERS[layer], LAYERS[below]) {
        ("ports", "ports") if folder != "all" => Some(format!("depends on {name}; no backend knows another")),
        ("engines", "ports") => Some(format!("depends on {name}; an engine knows no backend")),
        ("engines", "base") if !ENGINE_BASE.contains(&other_folder) => {
            Some(format!("depends on {name}; an engine has no clock, no socket and no kernel"))
        }
        ("lab", "port" | "ports") if folder == "report" => Some(format!("depends on {name}; report knows no ports")),
        // `send` and `receive` write latencies as the lab does.
        ("apps", "lab") if folder != "cli" && !(folder == "traffic" && other_folder == "report") => {
            Some(format!("depends on {name}; a program that moves packets knows no lab"))
        }
        ("port", "port") if folder == "port" => Some(format!("depends on {name}; port is the waist")),
        _ => None,
    }
}

/// What is wrong with `member` depending on a crate of others.
fn outside(member: &Crate, name: &str) -> Option<String> {
    let (layer, _) = member.place()?;
    (LAYERS[layer] == "engines" && ENGINE_STRANGERS.contains(&name))
        .then(|| format!("depends on {name}; an engine has no clock, no socket and no kernel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(folder: &str, dependencies: &[&str]) -> Crate {
        let mut parts = folder.split('/').skip(1);
        let name = match (parts.next(), parts.next()) {
            (Some(layer), Some(folder)) => package_name(layer, folder),
            _ => folder.to_string(),
        };
        let dependencies = dependencies.iter().map(|name| name.to_string()).collect();
        Crate { name, folder: folder.into(), dependencies, manifest: "[lints]\nworkspace = true\n".into() }
    }

    fn tree() -> Vec<Crate> {
        vec![
            member("crates/base/ring", &[]),
            member("crates/base/mem", &["linerate-ring", "libc"]),
            member("crates/base/sys", &["libc"]),
            member("crates/base/wire", &[]),
            member("crates/port/port", &["linerate-mem"]),
            member("crates/port/testkit", &["linerate-port", "linerate-mem"]),
            member("crates/ports/pipe", &["linerate-port", "linerate-mem"]),
            member("crates/ports/xdp", &["linerate-port", "linerate-sys"]),
            member("crates/ports/all", &["linerate-port-pipe", "linerate-port-xdp"]),
            member("crates/engines/gen", &["linerate-port", "linerate-wire", "serde"]),
            member("crates/run/worker", &["linerate-port", "linerate-sys"]),
            member("crates/lab/search", &[]),
            member("crates/lab/report", &["serde"]),
            member("crates/lab/testbed", &["linerate-ports", "linerate-sys"]),
            member("crates/lab/ledger", &["linerate-testbed", "linerate-report"]),
            member("crates/lab/tester", &["linerate-ledger", "linerate-gen", "linerate-ports"]),
            member("crates/lab/runner", &["linerate-tester", "linerate-search"]),
            member("crates/apps/cli", &["linerate-runner", "linerate-ports"]),
            member("crates/apps/bridge", &["linerate-ports"]),
            member("xtask", &["anyhow"]),
        ]
    }

    /// The complaints about the tree when `folder` also depends on `name`.
    fn with(folder: &str, name: &str) -> Vec<String> {
        let mut crates = tree();
        let changed = crates.iter_mut().find(|member| member.folder == folder).unwrap();
        changed.dependencies.push(name.into());
        check(&crates).iter().map(Complaint::to_string).collect()
    }

    #[test]
    fn the_tree_as_designed_is_right() {
        assert_eq!(check(&tree()), []);
    }

    #[test]
    fn every_wrong_arrow_is_found() {
        for (folder, name, words) in [
            ("crates/base/mem", "linerate-port", "layer port above"),
            ("crates/port/port", "linerate-port-pipe", "layer ports above"),
            ("crates/port/port", "linerate-testkit", "waist"),
            ("crates/ports/pipe", "linerate-port-xdp", "no backend knows another"),
            ("crates/ports/pipe", "linerate-ports", "no backend knows another"),
            ("crates/ports/pipe", "linerate-gen", "layer engines above"),
            ("crates/engines/gen", "linerate-port-pipe", "knows no backend"),
            ("crates/engines/gen", "linerate-ports", "knows no backend"),
            ("crates/engines/gen", "linerate-sys", "no clock"),
            ("crates/engines/gen", "libc", "no clock"),
            ("crates/engines/gen", "tokio", "no clock"),
            ("crates/engines/gen", "linerate-tester", "layer lab above"),
            ("crates/engines/gen", "linerate-worker", "layer run above"),
            ("crates/run/worker", "linerate-ledger", "layer lab above"),
            ("crates/base/wire", "linerate-mem", "knows no other crate"),
            ("crates/lab/search", "linerate-report", "knows no other crate"),
            ("crates/lab/report", "linerate-port", "knows no ports"),
            ("crates/lab/report", "linerate-ports", "knows no ports"),
            ("crates/lab/runner", "linerate", "layer apps above"),
            ("crates/apps/cli", "xtask", "tool of the workspace"),
            ("crates/apps/bridge", "linerate-report", "knows no lab"),
        ] {
            let complaints = with(folder, name);
            assert_eq!(complaints.len(), 1, "{folder} -> {name}: {complaints:?}");
            assert!(complaints[0].starts_with(folder) && complaints[0].contains(words), "{complaints:?}");
        }
    }

    #[test]
    fn names_lints_and_folders_are_checked() {
        let mut crates = tree();
        crates[0].name = "linerate-rings".into();
        crates[2].manifest.clear();
        crates.push(member("crates/odd/thing", &[]));
        let complaints: Vec<String> = check(&crates).iter().map(Complaint::to_string).collect();
        for words in ["is called linerate-rings", "crates/base/sys: the manifest", "crates/odd/thing: is in no layer"] {
            assert!(complaints.iter().any(|complaint| complaint.contains(words)), "{words}: {complaints:?}");
        }
    }

    #[test]
    fn this_workspace_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let crates = read(root).unwrap();
        let port = crates.iter().find(|member| member.folder == "crates/port/port").unwrap();
        assert!(port.dependencies.contains(&"linerate-mem".to_string()));
        // Dependencies of tests are left out.
        assert!(!port.dependencies.contains(&"proptest".to_string()));
    }
}
