//! What an all-reduce is part of.

/// The part of a job that a call carries: compared between ranks, and named in errors.
///
/// ```
/// use burn_virtual_collective::Work;
///
/// assert_eq!(Work::from(5), Work { step: 5, bucket: 0, samples: 0 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Work {
    /// The training step.
    pub step: u64,
    /// Which part of the step's vector, from 0.
    pub bucket: u32,
    /// Samples of the step, over all virtual nodes: ranks that were given other batches are told
    /// apart by it. 0 where that does not apply.
    pub samples: u64,
}

/// The one bucket of a step.
impl From<u64> for Work {
    fn from(step: u64) -> Self {
        Self {
            step,
            ..Self::default()
        }
    }
}
