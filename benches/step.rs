//! One training step through a session with one virtual node against a loop by hand.
//!
//! Bar: on the same backend, at most 2 % slower than by hand. It is the price of being able to
//! split at all, with nothing split. Against plain Burn, without `VirtualBackend`, for information.

mod support;
#[path = "support/training.rs"]
mod training;

use std::error::Error;
use std::time::Duration;

use burn_flex::FlexDevice;
use support::paired;
use training::{Virtual, by_hand, digits, on_virtual_nodes};

const BATCH: usize = 64;
const PAIRS: usize = 40;
const AT_MOST: f64 = 1.02;

fn main() -> Result<(), Box<dyn Error>> {
    let items = digits(BATCH)?;
    let mut hand = by_hand::<Virtual>(&items, &FlexDevice);
    let mut nodes = on_virtual_nodes::<Virtual>(1, &items, &FlexDevice)?;
    #[cfg(not(feature = "overlap"))]
    let mut plain = by_hand::<burn::backend::Autodiff<burn_flex::Flex>>(&items, &FlexDevice);

    if support::measures() {
        paired(
            "step, DigitsCnn, batch 64",
            PAIRS,
            Some(AT_MOST),
            ("by hand", &mut hand),
            ("one virtual node", &mut nodes),
        );
        #[cfg(not(feature = "overlap"))]
        paired(
            "step, DigitsCnn, batch 64",
            PAIRS,
            None,
            ("by hand on plain Flex", &mut plain),
            ("one virtual node", &mut nodes),
        );
    }

    let mut criterion = support::criterion(Duration::from_secs(3));
    let mut group = criterion.benchmark_group("step");
    group.bench_function("by hand", |bencher| bencher.iter(&mut hand));
    group.bench_function("one virtual node", |bencher| bencher.iter(&mut nodes));
    #[cfg(not(feature = "overlap"))]
    group.bench_function("by hand on plain Flex", |bencher| {
        bencher.iter(&mut plain);
    });
    group.finish();
    criterion.final_summary();
    Ok(())
}
