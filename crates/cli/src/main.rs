//! The `burn-virtual` command.
//!
//! Exit codes: 0 success, 1 failure, 2 bad usage. Progress and messages go to stderr, the result to
//! stdout.

mod args;
mod backend;
mod bench;
mod devices;
mod error;
mod failure;
#[cfg(unix)]
mod launch;
mod memory;
mod optimizer;
mod output;
mod placement;
mod predict;
mod predict_report;
mod process;
mod resources;
mod tally;
mod task;
mod train;
mod train_report;
mod verify;
mod verify_report;
mod weights;

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;
use std::sync::Mutex;

use clap::Parser;

use crate::args::{Args, Command};
use crate::output::{complain, complain_within};

fn main() -> ExitCode {
    // A panic inside a virtual node comes back as an error that names it; the default hook would
    // print it a second time, with a backtrace. Of any other, the place is worth knowing.
    static PLACE: Mutex<String> = Mutex::new(String::new());
    set_hook(Box::new(|panic| {
        if let (Some(place), Ok(mut last)) = (panic.location(), PLACE.lock()) {
            *last = place.to_string();
        }
    }));
    let Args { command } = Args::parse();
    let run = AssertUnwindSafe(|| match &command {
        Command::Train(args) => train::run(args),
        Command::Predict(args) => predict::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Bench(args) => bench::run(args),
        #[cfg(unix)]
        Command::Launch(args) => Ok(launch::run(args)?),
        #[cfg(unix)]
        Command::Tether(args) => Ok(launch::run_tethered(args)?),
        #[cfg(unix)]
        Command::Guard(args) => {
            launch::run_guard(args);
            Ok(())
        }
    });
    match catch_unwind(run) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            let line = format!("error: {error}");
            match error.patience() {
                Some(patience) => complain_within(line, patience),
                None => complain(&line),
            }
            failure::record(&error.to_string(), error.is_consequence());
            ExitCode::from(error.exit_code())
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let place = PLACE.lock().map(|place| place.clone()).unwrap_or_default();
            let message = format!("internal error at {place}, please report it: {text}");
            complain(&format!("error: {message}"));
            failure::record(&message, false);
            ExitCode::FAILURE
        }
    }
}
