//! `burn-virtual verify`: the same training on placements and backends, compared.

use burn_virtual::models::{Digit, Digits};
use burn_virtual::nodes::{Task, Verify, VerifyReport, VerifySettings};

use crate::args::{Model, VerifyArgs};
use crate::backend::{Hardware, OnBackend};
use crate::error::RunError;
use crate::output;
use crate::task::{Cnn, Mlp};
use crate::verify_report::VerifyOutput;

/// Ranks of the widest placement.
const RANKS: usize = 3;

/// Verifies and prints the result.
pub(crate) fn run(args: &VerifyArgs) -> Result<(), RunError> {
    let report = match args.model {
        Model::DigitsCnn => verify(args, &Cnn)?,
        Model::DigitsMlp => verify(args, &Mlp)?,
    };
    output::print(&VerifyOutput::new(&report), args.json)?;
    if report.holds() {
        Ok(())
    } else {
        Err(RunError::Broken)
    }
}

fn verify<T: Task<Item = Digit>>(args: &VerifyArgs, task: &T) -> Result<VerifyReport, RunError> {
    let digits = Digits::load()?;
    let epoch = digits.epoch(args.seed, 0);
    let settings = VerifySettings {
        steps: args.steps.get(),
        batch_size: args.batch_size.get(),
        virtual_nodes: args.virtual_nodes.get(),
        seed: args.seed,
        ..VerifySettings::default()
    };
    let mut verify = Verify::new(task, epoch.items())
        .settings(settings)
        .held_out(digits.held_out());
    for kind in &args.backends {
        // Every rank runs at least one virtual node.
        let ranks = RANKS.min(args.virtual_nodes.get());
        verify = kind.run(On { verify, ranks })?;
    }
    Ok(verify.report())
}

struct On<'a, T: Task> {
    verify: Verify<'a, T>,
    ranks: usize,
}

impl<'a, T: Task> OnBackend for On<'a, T> {
    type Output = Result<Verify<'a, T>, RunError>;

    fn run<B: Hardware>(self) -> Self::Output {
        Ok(if B::REPEATS {
            self.verify
                .backend::<B>(B::NAME, (0..self.ranks).map(|_| B::device(0)))?
        } else {
            self.verify.inexact_backend::<B>(B::NAME, B::device(0))?
        })
    }
}
