//! Where the output of each process goes.

use std::path::PathBuf;

use super::redirect::{Redirect, Which};

/// Where the output of each process goes.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The folder of log files.
    pub(super) log_dir: Option<PathBuf>,
    /// What goes to files only.
    pub(super) redirects: Redirect,
    /// What goes to files and is shown.
    pub(super) tee: Redirect,
    /// The local ranks that are shown; all if there are none.
    pub(super) filter: Vec<usize>,
    /// Whether the last line of rank 0 is the result, to be printed at the very end as it is.
    pub(super) hold_result: bool,
    /// Whether nothing is shown but rank 0's stdout, as it is.
    pub(super) only_result: bool,
}

impl Output {
    pub(super) fn to_file(&self, local_rank: usize, which: Which) -> bool {
        self.redirects.has(local_rank, which) || self.tee.has(local_rank, which)
    }

    /// What lines begin with where they are shown; none where they aren't.
    pub(super) fn prefix(&self, rank: usize, local_rank: usize, which: Which) -> Option<String> {
        if self.only_result {
            return (rank == 0 && which == Which::Stdout).then(String::new);
        }
        let redirected = self.redirects.has(local_rank, which) && !self.tee.has(local_rank, which);
        let filtered = !self.filter.is_empty() && !self.filter.contains(&local_rank);
        (!redirected && !filtered).then(|| format!("[rank{rank}]: "))
    }
}
