//! What a step needs and a machine may lack: components of the toolchain, a nightly, programs. What rustup can add is added.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::{Context, Outcome, process};

impl Context {
    /// Cargo, in the workspace.
    pub fn cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(&self.root);
        command
    }

    /// Cargo of the nightly toolchain, in the workspace.
    pub fn nightly_cargo<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]).args(arguments).current_dir(&self.root);
        command
    }

    /// `rustc 1.95.0 (59807616e 2026-04-14)`, of the compiler that cargo uses in the workspace.
    pub fn rustc_version(&self) -> Result<String> {
        let output =
            Command::new("rustc").arg("--version").current_dir(&self.root).output().context("running rustc")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// The compiler that `cargo clippy` has cargo run, by the path that it gives, which is part of what cargo knows a build by.
    pub fn clippy_driver(&self) -> Option<PathBuf> {
        let output =
            Command::new("rustc").args(["--print", "sysroot"]).current_dir(&self.root).stderr(Stdio::null()).output();
        let driver = Path::new(str::from_utf8(&output.ok()?.stdout).ok()?.trim()).join("bin/clippy-driver");
        driver.is_file().then_some(driver)
    }

    /// Runs the command with its output on the terminal.
    pub fn outcome_of(&self, command: &mut Command) -> Result<Outcome> {
        println!("$ {}", line_of(command));
        self.outcome(command)
    }

    /// The same, or the output of the command where it has succeeded ahead.
    pub fn outcome_or_ahead(&self, command: &mut Command) -> Result<Outcome> {
        let Some(log) = self.ahead.output_of(command) else { return self.outcome_of(command) };
        println!("$ {}", line_of(command));
        print!("{}", fs::read_to_string(&log).with_context(|| format!("reading {}", log.display()))?);
        Ok(Outcome::Passed(String::new()))
    }

    /// Runs the command with its output in a file, and shows nothing.
    pub fn outcome_quiet(&self, command: &mut Command, log: &Path) -> Result<Outcome> {
        let output = File::create(log).with_context(|| format!("creating {}", log.display()))?;
        self.outcome(command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output))
    }

    fn outcome(&self, command: &mut Command) -> Result<Outcome> {
        let line = line_of(command);
        let ended = process::run(command, self.deadline).with_context(|| format!("running {line}"))?;
        Ok(if ended.succeeded {
            Outcome::Passed(String::new())
        } else {
            Outcome::Failed(format!("{line}: {}", ended.how))
        })
    }

    /// Runs a talkative command with its output in a file, which is shown when the command fails.
    pub fn outcome_logged(&self, command: &mut Command, log: &Path) -> Result<Outcome> {
        println!("$ {}", line_of(command));
        let outcome = self.outcome_quiet(command, log)?;
        if let Outcome::Failed(_) = &outcome {
            println!("{}", String::from_utf8_lossy(&fs::read(log)?));
        }
        Ok(outcome)
    }
}

/// The command as one would type it.
pub fn line_of(command: &Command) -> String {
    // Where programs are looked for is a long list that says little.
    let envs = command.get_envs().filter(|(name, _)| *name != "PATH");
    let set = envs.filter_map(|(name, value)| value.map(|value| format!("{}={value:?}", name.display())));
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    set.chain(words.map(|word| word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

/// True when the command runs and succeeds; its output is not shown.
pub fn works(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// True when a program of this name answers.
pub fn is_installed(program: impl AsRef<OsStr>) -> bool {
    works(Command::new(program).arg("--version"))
}

/// Sees to it that `probe` works, by adding components of a toolchain with rustup where it does not; else says why not.
pub fn component(mut probe: Command, components: &[&str], toolchain: Option<&str>) -> Result<(), String> {
    if works(&mut probe) {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    add.args(["component", "add"]).args(components);
    if let Some(toolchain) = toolchain {
        add.args(["--toolchain", toolchain]);
    }
    let line = line_of(&add);
    println!("{} is missing; trying: {line}", components[0]);
    let added = add.status().is_ok_and(|status| status.success());
    if added && works(&mut probe) { Ok(()) } else { Err(format!("{} is missing, and `{line}` failed", components[0])) }
}

/// Sees to it that there is a nightly toolchain.
pub fn nightly() -> Result<(), String> {
    if works(Command::new("rustup").args(["run", "nightly", "rustc", "--version"])) {
        return Ok(());
    }
    Err("no nightly toolchain; `rustup toolchain install nightly` adds it".into())
}
