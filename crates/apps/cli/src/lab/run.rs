//! One run: begin or go on, measure, end.

use std::path::{Path, PathBuf};

use linerate_report::{Results, ResultsFolder};
use linerate_runner::lab::Lab;
use linerate_runner::{self as runner, End, RunError};

use super::file::Plan;
use super::view::View;

/// How to run.
pub struct Options {
    /// Folder of all runs.
    pub results: PathBuf,
    /// Cells left in.
    pub only: Option<String>,
    /// Does not go on with a stopped run.
    pub fresh: bool,
    /// Plain lines on a terminal, too.
    pub plain: bool,
    /// Whether programs may be loaded into the kernel.
    pub as_root: bool,
    /// Why no namespaces can be made, if so.
    pub no_namespaces: Option<String>,
}

/// What became of it.
pub struct Ended {
    /// All that was found.
    pub results: Results,
    /// Where it is kept.
    pub folder: PathBuf,
    /// How it ended, or why it could not go on.
    pub end: Result<End, RunError>,
}

/// Measures what the plan asks for and a stopped run of the same plan has not found yet.
///
/// # Errors
/// Nothing can be measured, in words.
pub fn run(plan: &Plan, options: &Options) -> Result<Ended, String> {
    let (mut folder, mut results) = open(plan, options)?;
    let mut lab = Lab::new(&plan.experiment, options.as_root, options.no_namespaces.clone());
    let mut view = View::new(options.plain);
    let end = runner::run(&plan.experiment, &mut results, &mut lab, &mut folder, &mut |event| view.see(&event));
    drop(view);
    let end = match (end, folder.finish(&results)) {
        (Ok(_), Err(error)) => Err(error.into()),
        (end, _) => end,
    };
    Ok(Ended { folder: folder.path().to_owned(), results, end })
}

fn open(plan: &Plan, options: &Options) -> Result<(ResultsFolder, Results), String> {
    let dir = &options.results;
    if !options.fresh
        && let Some((folder, results)) =
            ResultsFolder::resume(dir, &plan.text).map_err(|error| unwritable(dir, &error))?
    {
        linerate_console::tell!("going on with {}, which was stopped (--fresh starts anew)", folder.path().display());
        return Ok((folder, results));
    }
    let only = options.only.as_deref();
    let results = runner::begin(&plan.experiment, &plan.text, only, env!("CARGO_PKG_VERSION"));
    let results = results.map_err(|error| error.to_string())?;
    let folder = ResultsFolder::create(dir, &results).map_err(|error| unwritable(dir, &error))?;
    Ok((folder, results))
}

fn unwritable(dir: &Path, error: &std::io::Error) -> String {
    format!("the results folder {} cannot be used: {error}; --results names another one", dir.display())
}
