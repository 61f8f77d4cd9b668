//! Before the first run of a file that is not shipped: the commands that it runs with the caller's rights are shown, and agreed to.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use super::file::Plan;
use super::runs;

/// Shows the commands of the plan and has the user agree to them: by `yes`, by an answer on a terminal, or by an earlier run of the same file
/// in the results folder. Shipped experiments and files without commands need none.
///
/// # Errors
/// The user does not agree, or cannot be asked; in words.
pub fn ask(plan: &Plan, results: &Path, yes: bool) -> Result<(), String> {
    let commands = plan.experiment.commands();
    if plan.is_shipped || commands.is_empty() {
        return Ok(());
    }
    let has_run = || runs::all(results).is_ok_and(|all| all.iter().any(|run| run.results.file == plan.text));
    if !yes && has_run() {
        return Ok(());
    }
    linerate_console::tell!("{}", words(&commands));
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err("it was not agreed that these commands are run: --yes agrees".into());
    }
    linerate_console::tell!("Run them? [y/N]");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(|error| format!("no answer could be read: {error}"))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err("nothing was run".into()),
    }
}

fn words(commands: &[(String, String)]) -> String {
    let mut text = String::from("this file runs commands with your rights:");
    for (dut, command) in commands {
        text += &format!("\n  {dut}: {}", readable(command));
    }
    text
}

/// A command as it stands in the file, but for characters that a terminal obeys or does not show.
fn readable(command: &str) -> String {
    let shown = |character: char| match character {
        '\'' | '"' => character.to_string(),
        other => other.escape_debug().to_string(),
    };
    command.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_they_stand_in_the_file_and_obeyed_by_no_terminal() {
        let commands = [("a".to_owned(), "nft 'add \"b\"'\u{1b}[2J\nrm".to_owned())];
        assert_eq!(words(&commands), "this file runs commands with your rights:\n  a: nft 'add \"b\"'\\u{1b}[2J\\nrm");
    }
}
