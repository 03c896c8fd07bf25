//! Live tensor bytes, counted by the tensors themselves.
//!
//! Bytes are logical: elements times the size of an element. A view counts like a buffer of its
//! own shape. What the inner backend allocates inside one operation is not seen, and an input that
//! an operation consumes gives up its bytes as the operation starts: whether its buffer is reused
//! for the result is the inner backend's secret.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use burn_backend::{DType, TensorMetadata};

use crate::context::CONTEXT;

#[derive(Debug, Default)]
struct Counters {
    live: AtomicUsize,
    peak: AtomicUsize,
}

/// Counts the bytes of the tensors that are made while it listens.
///
/// ```
/// use burn_backend::{FloatDType, ops::FloatTensorOps};
/// use burn_virtual_backend::{Meter, VirtualBackend};
///
/// type B = VirtualBackend<burn_flex::Flex>;
/// let meter = Meter::new();
/// let listening = meter.listen();
/// let tensor = B::float_zeros([10, 10].into(), &Default::default(), FloatDType::F32);
/// assert_eq!(meter.live(), 400);
/// drop(tensor);
/// assert_eq!((meter.live(), meter.peak()), (0, 400));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Meter(Arc<Counters>);

impl Meter {
    /// A meter at zero that does not listen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens on this thread until the guard is dropped; one meter at a time, guards nest.
    pub fn listen(&self) -> Listening {
        let before = CONTEXT.with(|context| context.meter.replace(Some(self.clone())));
        Listening {
            before,
            not_send: PhantomData,
        }
    }

    /// The meter that listens on this thread.
    pub fn current() -> Option<Self> {
        CONTEXT.with(|context| context.meter.borrow().clone())
    }

    /// Bytes of the metered tensors that are alive.
    pub fn live(&self) -> usize {
        self.0.live.load(Relaxed)
    }

    /// The largest [`live`](Self::live) since the start or the last [`reset_peak`](Self::reset_peak).
    pub fn peak(&self) -> usize {
        self.0.peak.load(Relaxed)
    }

    /// Starts a new peak from what is alive now.
    pub fn reset_peak(&self) {
        self.0.peak.store(self.live(), Relaxed);
    }

    fn claim(&self, bytes: usize) -> Live {
        let live = self.0.live.fetch_add(bytes, Relaxed) + bytes;
        self.0.peak.fetch_max(live, Relaxed);
        Live(Arc::new(Claim {
            bytes,
            meter: self.clone(),
        }))
    }
}

/// Ends the listening of a [`Meter`] on this thread, when dropped.
#[must_use = "the meter stops listening when this is dropped"]
#[derive(Debug)]
pub struct Listening {
    before: Option<Meter>,
    // Thread-local state is restored on the thread that listened.
    not_send: PhantomData<*const ()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        CONTEXT.with(|context| context.meter.replace(self.before.take()));
    }
}

/// A tensor's claim on live bytes, shared by its clones.
#[derive(Clone, Debug)]
pub(crate) struct Live(#[expect(dead_code, reason = "held for its drop")] Arc<Claim>);

impl Live {
    /// The claim of a new tensor, if a meter listens on this thread.
    #[inline]
    pub(crate) fn of(tensor: &impl TensorMetadata) -> Option<Self> {
        CONTEXT.with(|context| {
            context
                .meter
                .borrow()
                .as_ref()
                .map(|meter| meter.claim(bytes(tensor)))
        })
    }
}

#[derive(Debug)]
struct Claim {
    bytes: usize,
    meter: Meter,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.meter.0.live.fetch_sub(self.bytes, Relaxed);
    }
}

fn bytes(tensor: &impl TensorMetadata) -> usize {
    let elements = tensor.shape().num_elements();
    match tensor.dtype() {
        DType::QFloat(scheme) => (elements * scheme.size_bits_value()).div_ceil(8),
        dtype => elements * dtype.size(),
    }
}
