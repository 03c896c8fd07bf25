//! The same training under several placements and on several backends, compared.
//!
//! Two promises are checked. Of one backend that repeats its bits: weights are bit-identical for
//! every placement, and from run to run. Between backends: initial weights are bit-identical, and
//! the gradients of the first step agree within a tolerance; where they don't, the layer is named.

mod compare;
mod report;
mod run;
mod settings;

pub use report::{BackendReport, LayerReport, PlacementReport, VerifyReport};
pub use settings::VerifySettings;

use std::fmt;

use crate::{Task, TrainError, VirtualAutodiff};
use run::{Exactness, Job, Trained};

/// Trains a task several times over, and compares.
///
/// The first backend is the reference of the others. As a test of a task of your own, on placements of
/// one to three ranks and on a second backend:
///
/// ```
/// # use burn::backend::Autodiff;
/// # use burn::nn::{Linear, LinearConfig};
/// # use burn::tensor::backend::{AutodiffBackend, Backend};
/// # use burn::tensor::{Tensor, TensorData};
/// # use burn_flex::{Flex, FlexDevice as Cpu};
/// # use burn_virtual_backend::VirtualBackend;
/// # use burn_virtual_train::*;
/// # struct MyTask;
/// # impl Task for MyTask {
/// #     type Item = f32;
/// #     type Prediction = f32;
/// #     type Model<B: AutodiffBackend> = Linear<B>;
/// #     type Batch<B: Backend> = Tensor<B, 2>;
/// #     fn model<B: AutodiffBackend>(&self, device: &B::Device) -> Linear<B> {
/// #         LinearConfig::new(1, 1).init(device)
/// #     }
/// #     fn batch<B: Backend>(&self, items: Vec<f32>, device: &B::Device) -> Tensor<B, 2> {
/// #         let rows = items.len();
/// #         Tensor::from_data(TensorData::new(items, [rows, 1]), device)
/// #     }
/// #     fn loss<B: AutodiffBackend>(&self, model: &Linear<B>, batch: Tensor<B, 2>) -> Result<LossSum<B>, LossError> {
/// #         squared_error_sum(model.forward(batch.clone()), batch)
/// #     }
/// #     fn predict<B: AutodiffBackend>(&self, model: &ValidModel<Self, B>, batch: Tensor<B::InnerBackend, 2>) -> Vec<f32> {
/// #         model.forward(batch).into_data().iter().collect()
/// #     }
/// #     fn score(&self, item: &f32, prediction: &f32) -> f64 {
/// #         f64::from(item - prediction)
/// #     }
/// # }
/// # type OtherBackend = Flex;
/// # let items = [0.5, 1.0, -1.0, 2.0, 3.0, 0.1, 0.2, 0.3];
/// let report = Verify::new(&MyTask, &items)
///     .backend::<Autodiff<VirtualBackend<Flex>>>("flex", [Cpu, Cpu, Cpu])?
///     .backend::<Autodiff<VirtualBackend<OtherBackend>>>("other", [Cpu, Cpu])?
///     .report();
/// assert!(report.holds(), "{report}");
/// # Ok::<(), TrainError>(())
/// ```
pub struct Verify<'a, T: Task> {
    job: Job<'a, T>,
    report: VerifyReport,
    reference: Option<Trained>,
}

impl<'a, T: Task> Verify<'a, T> {
    /// A comparison of trainings on these items, in this order, with the
    /// [default settings](VerifySettings::default).
    pub fn new(task: &'a T, items: &'a [T::Item]) -> Self {
        Self {
            job: Job {
                task,
                items,
                held_out: &[],
                settings: VerifySettings::default(),
            },
            report: VerifyReport::default(),
            reference: None,
        }
    }

    /// With other settings.
    pub fn settings(mut self, settings: VerifySettings) -> Self {
        self.job.settings = settings;
        self
    }

    /// Also scores every trained model on these items.
    pub fn held_out(mut self, items: &'a [T::Item]) -> Self {
        self.job.held_out = items;
        self
    }

    /// Trains on a backend that repeats its bits: twice on the first of `devices`, then on all of
    /// them, evenly and unevenly.
    ///
    /// # Errors
    /// [`TrainError::EmptyBatch`] for no items, and as [`VirtualNodes::start`] and
    /// [`Session::backward`].
    ///
    /// [`VirtualNodes::start`]: crate::VirtualNodes::start
    /// [`Session::backward`]: crate::Session::backward
    pub fn backend<B: VirtualAutodiff>(
        self,
        name: impl Into<String>,
        devices: impl IntoIterator<Item = B::Device>,
    ) -> Result<Self, TrainError> {
        let devices: Vec<_> = devices.into_iter().collect();
        let (first, model) =
            self.job
                .train::<B>(&devices[..devices.len().min(1)], None, Exactness::Bits)?;
        let (again, _) = self.job.train::<B>(&devices[..1], None, Exactness::Bits)?;
        let mut report = self.compared(name.into(), &first);
        report.score = self.job.score::<B>(&model, &devices[0], Exactness::Bits)?;
        report.repeats = Some(again.same_bits(&first));
        report.add_placement(&first, &first);
        if devices.len() > 1 {
            for shares in [None, Some(self.uneven(devices.len()))] {
                let (trained, _) = self.job.train::<B>(&devices, shares, Exactness::Bits)?;
                report.add_placement(&trained, &first);
            }
        }
        Ok(self.add(report, first))
    }

    /// Trains once on a backend that doesn't promise to repeat its bits, as one that fuses kernels:
    /// only the tolerance holds.
    ///
    /// # Errors
    /// As [`backend`](Self::backend).
    pub fn inexact_backend<B: VirtualAutodiff>(
        self,
        name: impl Into<String>,
        device: B::Device,
    ) -> Result<Self, TrainError> {
        let one = std::slice::from_ref(&device);
        let (trained, model) = self.job.train::<B>(one, None, Exactness::Tolerance)?;
        let mut report = self.compared(name.into(), &trained);
        report.score = self.job.score::<B>(&model, &device, Exactness::Tolerance)?;
        Ok(self.add(report, trained))
    }

    /// What it came to.
    pub fn report(self) -> VerifyReport {
        self.report
    }

    /// As many virtual nodes on the first rank as leave one to each other.
    fn uneven(&self, ranks: usize) -> Vec<usize> {
        let others = ranks - 1;
        let first = self.job.settings.virtual_nodes.saturating_sub(others);
        let mut shares = vec![1; ranks];
        shares[0] = first;
        shares
    }

    fn compared(&self, name: String, trained: &Trained) -> BackendReport {
        let reference = self.reference.as_ref().unwrap_or(trained);
        compare::with_reference(name, trained, reference, self.job.settings.tolerance)
    }

    fn add(mut self, report: BackendReport, trained: Trained) -> Self {
        self.report.backends.push(report);
        self.reference.get_or_insert(trained);
        self
    }
}

impl<T: Task> fmt::Debug for Verify<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verify")
            .field("settings", &self.job.settings)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
