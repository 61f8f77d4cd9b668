//! Arguments of a subcommand that are defined when the subcommand is asked for: a start defines those of one subcommand, not of all. For man pages
//! and completions, which show all of them, they are defined at once.

use std::ops::Deref;

use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::help;

/// The arguments `A` of a subcommand, defined by [`Command::defer`] while help fits the terminal.
pub struct Deferred<A>(Box<A>);

impl<A> Deref for Deferred<A> {
    type Target = A;

    fn deref(&self) -> &A {
        &self.0
    }
}

impl<A: Args> Args for Deferred<A> {
    fn augment_args(command: Command) -> Command {
        match help::is_fitted() {
            true => command.defer(|command| defined(command, A::augment_args)),
            false => defined(command, A::augment_args),
        }
    }

    fn augment_args_for_update(command: Command) -> Command {
        defined(command, A::augment_args_for_update)
    }
}

impl<A: FromArgMatches> FromArgMatches for Deferred<A> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches(matches).map(|arguments| Deferred(Box::new(arguments)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        A::from_arg_matches_mut(matches).map(|arguments| Deferred(Box::new(arguments)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}

/// The command with arguments, whose type has a description of its own, which is not the subcommand's.
fn defined(command: Command, augment: fn(Command) -> Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    help::fitted(augment(command).about(about).long_about(None))
}
