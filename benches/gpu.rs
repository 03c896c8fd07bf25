//! The same step on GPU backends: through a session with one virtual node against a loop by hand on
//! the bare backend.
//!
//! Bar: at most 2 % slower. A session downloads its gradient and uploads the combined one, which a
//! plain loop on one device doesn't; that is part of the price. For information, eight virtual nodes
//! against one: what splitting costs where kernels are small.

#[cfg(not(feature = "overlap"))]
mod support;
#[cfg(not(feature = "overlap"))]
#[allow(dead_code, reason = "other benches use the rest")]
#[path = "support/training.rs"]
mod training;

#[cfg(not(feature = "overlap"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(feature = "wgpu")]
    comparison::run::<burn_virtual::backend::Wgpu>("wgpu")?;
    #[cfg(feature = "cuda")]
    comparison::run::<burn_virtual::backend::Cuda>("cuda")?;
    Ok(())
}

#[cfg(feature = "overlap")]
fn main() {
    eprintln!("a plain `Autodiff` doesn't compile with `overlap`: run this bench without it");
}

#[cfg(not(feature = "overlap"))]
mod comparison {
    use std::error::Error;
    use std::time::Duration;

    use burn::backend::Autodiff;
    use burn::tensor::backend::Backend;
    use burn_virtual::backend::{Gpu, VirtualBackend};

    use crate::support::{self, paired};
    use crate::training::{by_hand, digits, on_virtual_nodes};

    const BATCH: usize = 64;
    const VIRTUAL_NODES: usize = 8;
    const PAIRS: usize = 30;
    const AT_MOST: f64 = 1.02;

    pub(crate) fn run<B: Backend<Device: Gpu>>(name: &str) -> Result<(), Box<dyn Error>> {
        let device = B::Device::default();
        if let Some(reason) = device.missing() {
            println!("{name} is left out: {reason}");
            return Ok(());
        }
        let items = digits(BATCH)?;
        let mut one = on_virtual_nodes::<Autodiff<VirtualBackend<B>>>(1, &items, &device)?;
        let mut split =
            on_virtual_nodes::<Autodiff<VirtualBackend<B>>>(VIRTUAL_NODES, &items, &device)?;
        let mut bare = by_hand::<Autodiff<B>>(&items, &device);
        let title = format!("step on {name}, DigitsCnn, batch {BATCH}");
        if support::measures() {
            let bare = ("by hand on the bare backend", &mut bare);
            paired(
                &title,
                PAIRS,
                Some(AT_MOST),
                bare,
                ("one virtual node", &mut one),
            );
            let one = ("one virtual node", &mut one);
            paired(&title, PAIRS, None, one, ("eight", &mut split));
        }
        let mut criterion = support::criterion(Duration::from_secs(5));
        let mut group = criterion.benchmark_group(title);
        group.bench_function("by hand on the bare backend", |bencher| {
            bencher.iter(&mut bare)
        });
        group.bench_function("one virtual node", |bencher| bencher.iter(&mut one));
        group.finish();
        criterion.final_summary();
        Ok(())
    }
}
