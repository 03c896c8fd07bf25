//! Where a rank's bytes are, by the live-bytes meter.

use burn_virtual_backend::{Listening, Meter};

/// The largest bytes that one rank held, since the session started or was resized.
///
/// Parameters and optimizer state live outside the step, on the thread that runs it, and are charged
/// to every rank: on a CPU backend the ranks share them. Everything else is made and dropped inside
/// the step. Partial sums lie in host memory, which on a CPU backend is the same memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankMemory {
    /// Bytes of the model's tensors.
    pub parameters: usize,
    /// Other tensor bytes that were alive when the step began: above all, the optimizer's state.
    pub optimizer: usize,
    /// One gradient on the device.
    pub gradients: usize,
    /// Inputs and activations of one micro-batch, with what the backward pass adds to them.
    pub activations: usize,
    /// Partial sums of the tree, in host memory.
    pub partials: usize,
    /// The peak of live tensor bytes, without `partials`.
    pub peak: usize,
}

impl RankMemory {
    /// The larger of each figure.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            parameters: self.parameters.max(other.parameters),
            optimizer: self.optimizer.max(other.optimizer),
            gradients: self.gradients.max(other.gradients),
            activations: self.activations.max(other.activations),
            partials: self.partials.max(other.partials),
            peak: self.peak.max(other.peak),
        }
    }
}

/// Measures a rank's virtual nodes one after the other.
#[derive(Debug, Default)]
pub(crate) struct NodeMemory {
    meter: Option<Meter>,
    at_start: usize,
    activations: usize,
    peak: usize,
}

impl NodeMemory {
    pub(crate) fn new(meter: Option<Meter>) -> Self {
        Self {
            meter,
            ..Self::default()
        }
    }

    /// Listens on this thread, if the step is metered.
    pub(crate) fn listen(&self) -> Option<Listening> {
        self.meter.as_ref().map(Meter::listen)
    }

    /// Inputs and activations of the largest virtual node so far.
    pub(crate) fn activations(&self) -> usize {
        self.activations
    }

    /// The peak of everything that was made inside the step.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    pub(crate) fn start(&mut self) {
        if let Some(meter) = &self.meter {
            meter.reset_peak();
            self.at_start = meter.live();
        }
    }

    pub(crate) fn after_forward(&mut self) {
        if let Some(meter) = &self.meter {
            // A tensor that user code kept from an earlier virtual node may have gone since.
            let after_forward = meter.live().saturating_sub(self.at_start);
            self.activations = self.activations.max(after_forward);
            self.peak = self.peak.max(meter.peak());
        }
    }

    /// After a forward pass without gradients. What is kept along the way goes as soon as it is used,
    /// so it is the peak that counts, not what is alive at the end.
    pub(crate) fn after_forward_only(&mut self) {
        self.after_backward(0);
    }

    /// The meter can't tell a gradient from an activation. At its peak the backward pass holds at
    /// most one whole gradient, so what exceeds that is activations; a lower bound, beside the exact
    /// figure at the end of the forward pass.
    pub(crate) fn after_backward(&mut self, gradient_bytes: usize) {
        if let Some(meter) = &self.meter {
            let peak = meter.peak().saturating_sub(self.at_start);
            self.activations = self.activations.max(peak.saturating_sub(gradient_bytes));
            self.peak = self.peak.max(meter.peak());
        }
    }
}
