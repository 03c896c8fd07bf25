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
    /// Whether of stdout nothing is shown but rank 0's, as it is.
    pub(super) only_result: bool,
}

impl Output {
    pub(super) fn to_file(&self, local_rank: usize, which: Which) -> bool {
        self.redirects.has(local_rank, which) || self.tee.has(local_rank, which)
    }

    /// What lines begin with where they are shown; none where they aren't.
    pub(super) fn prefix(&self, rank: usize, local_rank: usize, which: Which) -> Option<String> {
        if self.only_result {
            return match which {
                Which::Stdout => (rank == 0).then(String::new),
                Which::Stderr => Some(format!("[rank{rank}]: ")),
            };
        }
        let redirected = self.redirects.has(local_rank, which) && !self.tee.has(local_rank, which);
        let filtered = !self.filter.is_empty() && !self.filter.contains(&local_rank);
        (!redirected && !filtered).then(|| format!("[rank{rank}]: "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stdout_is_that_of_rank_0_where_the_result_is_all() {
        let output = Output {
            only_result: true,
            ..Output::default()
        };
        let of = |rank| Which::BOTH.map(|which| output.prefix(rank, rank, which));
        assert_eq!(of(0), [Some(String::new()), Some("[rank0]: ".into())]);
        assert_eq!(of(1), [None, Some("[rank1]: ".into())]);
    }
}
