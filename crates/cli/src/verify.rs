//! `burn-virtual verify`: the same training on placements and backends, compared.

use burn_virtual::models::{Digit, Digits};
use burn_virtual::nodes::{Task, Verify, VerifyReport, VerifySettings};

use crate::args::{Model, VerifyArgs};
use crate::backend::{Hardware, Kind, OnBackend};
use crate::error::RunError;
use crate::output::{self, complain};
use crate::process::Process;
use crate::task::{Cnn, Mlp};
use crate::verify_report::VerifyOutput;

/// Ranks of the widest placement.
const RANKS: usize = 3;

/// Verifies and prints the result.
pub(crate) fn run(args: &VerifyArgs) -> Result<(), RunError> {
    Process::check_alone("verify")?;
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
    let mut verify = Verify::new(task, epoch.items()).held_out(digits.held_out());
    for kind in backends(args)? {
        // Every rank runs at least one virtual node.
        let ranks = RANKS.min(args.virtual_nodes.get());
        verify = kind.run(On {
            verify,
            settings: settings.clone(),
            ranks,
        })?;
    }
    Ok(verify.report())
}

/// The backends that were asked for, which must be there; or all that are.
fn backends(args: &VerifyArgs) -> Result<Vec<Kind>, RunError> {
    let mut present = Vec::new();
    let asked = !args.backends.is_empty();
    for kind in if asked { &args.backends } else { Kind::ALL } {
        match kind.run(Missing) {
            None => present.push(*kind),
            Some(reason) if asked => {
                let device = format!("{kind}:0");
                return Err(RunError::Missing { device, reason });
            }
            Some(reason) => complain(&format!("{kind} is left out: {reason}")),
        }
    }
    Ok(present)
}

/// Why the first device of a backend can't be used.
struct Missing;

impl OnBackend for Missing {
    type Output = Option<String>;

    fn run<B: Hardware>(self) -> Self::Output {
        B::missing(&B::device(0))
    }
}

struct On<'a, T: Task> {
    verify: Verify<'a, T>,
    settings: VerifySettings,
    ranks: usize,
}

impl<'a, T: Task> OnBackend for On<'a, T> {
    type Output = Result<Verify<'a, T>, RunError>;

    fn run<B: Hardware>(self) -> Self::Output {
        let settings = VerifySettings {
            tolerance: B::TOLERANCE,
            ..self.settings
        };
        let verify = self.verify.settings(settings);
        Ok(if B::REPEATS {
            verify.backend::<B>(B::NAME, (0..self.ranks).map(|_| B::device(0)))?
        } else {
            verify.inexact_backend::<B>(B::NAME, B::device(0))?
        })
    }
}
