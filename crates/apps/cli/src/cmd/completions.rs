//! `linerate completions` and `linerate man`: made from the definitions that the command line is parsed by.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::status;
use linerate_console::out;

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  linerate completions bash > ~/.local/share/bash-completion/completions/linerate
  linerate completions zsh > ~/.zfunc/_linerate          with `fpath+=~/.zfunc` before compinit in ~/.zshrc
  linerate completions fish > ~/.config/fish/completions/linerate.fish";

/// Arguments of `linerate completions`.
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell whose script is printed
    #[arg(value_enum)]
    shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  linerate man | man -l -
  linerate man ~/.local/share/man/man1                   then: man linerate-send";

/// Arguments of `linerate man`.
#[derive(clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub struct ManArgs {
    /// Folder that gets a page for each command, made if need be [default: the page of linerate itself, on stdout]
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Prints a shell's script.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    let name = command.get_name().to_string();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    out(String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}

/// Writes man pages. Status 2 when a file cannot be written.
pub fn man(args: &ManArgs, command: Command) -> ExitCode {
    let written = match &args.folder {
        Some(folder) => std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(command, folder))
            .map_err(|error| format!("{}: {error}", folder.display())),
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(command).render(&mut page).map_err(|error| error.to_string());
            rendered.map(|()| _ = out(String::from_utf8_lossy(&page).trim_end()))
        }
    };
    status::of("linerate man", written.map(|()| true))
}
