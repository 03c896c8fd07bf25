//! Eight virtual nodes on one device against plain gradient accumulation over the same eight
//! micro-batches.
//!
//! Bar: at least 0.95 of the samples per second of a loop with Burn's `GradientsAccumulator` on
//! plain `Autodiff<Flex>`.

#[cfg(not(feature = "overlap"))]
mod support;
#[cfg(not(feature = "overlap"))]
#[allow(dead_code, reason = "other benches use the rest")]
#[path = "support/training.rs"]
mod training;

#[cfg(feature = "overlap")]
fn main() {
    eprintln!("plain `Autodiff<Flex>` doesn't compile with `overlap`: run this bench without it");
}

#[cfg(not(feature = "overlap"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    comparison::run()
}

#[cfg(not(feature = "overlap"))]
mod comparison {
    use std::error::Error;
    use std::time::Duration;

    use burn::backend::Autodiff;
    use burn::optim::{AdamConfig, GradientsAccumulator, GradientsParams, Optimizer};
    use burn_flex::{Flex, FlexDevice};
    use burn_virtual::models::{Digit, DigitsCnn};

    use crate::support::{self, paired};
    use crate::training::{LEARNING_RATE, Virtual, digits, mean_loss, model, on_virtual_nodes};

    type Plain = Autodiff<Flex>;

    const BATCH: usize = 64;
    const MICRO_BATCHES: usize = 8;
    const PAIRS: usize = 40;
    const SAMPLES_PER_S: f64 = 0.95;

    pub(crate) fn run() -> Result<(), Box<dyn Error>> {
        let items = digits(BATCH)?;
        let mut plain = accumulation(&items);
        let mut nodes = on_virtual_nodes::<Virtual>(MICRO_BATCHES, &items, &FlexDevice)?;

        if support::measures() {
            let result = paired(
                "step, DigitsCnn, batch 64 = 8 x 8",
                PAIRS,
                Some(1.0 / SAMPLES_PER_S),
                ("gradient accumulation on plain Flex", &mut plain),
                ("8 virtual nodes", &mut nodes),
            );
            let share = 1.0 / result.ratio();
            println!("samples/s of 8 virtual nodes: {share:.3} of gradient accumulation's");
        }

        let mut criterion = support::criterion(Duration::from_secs(3));
        let mut group = criterion.benchmark_group("accumulation");
        group.throughput(criterion::Throughput::Elements(BATCH as u64));
        group.bench_function("plain Flex", |bencher| bencher.iter(&mut plain));
        group.bench_function("8 virtual nodes", |bencher| bencher.iter(&mut nodes));
        group.finish();
        criterion.final_summary();
        Ok(())
    }

    /// A plain loop: each micro-batch's mean loss has its share of the mean over the batch.
    fn accumulation(items: &[Digit]) -> impl FnMut() {
        let device = FlexDevice;
        let mut optim = AdamConfig::new().init();
        let mut trained = Some(model::<Plain>(&device));
        move || {
            trained = trained.take().map(|model: DigitsCnn<Plain>| {
                let mut accumulator = GradientsAccumulator::new();
                for micro in items.chunks(BATCH / MICRO_BATCHES) {
                    let loss = mean_loss(&model, micro, &device) / MICRO_BATCHES as f64;
                    let gradients = GradientsParams::from_grads(loss.backward(), &model);
                    accumulator.accumulate(&model, gradients);
                }
                optim.step(LEARNING_RATE, model, accumulator.grads())
            });
        }
    }
}
