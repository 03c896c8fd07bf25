//! One rank of a measurement.

use std::time::Instant;

use burn::tensor::{Tensor, TensorData};
use burn_flex::{Flex, FlexDevice};
use burn_virtual::distributed::{Algorithm, Group, Options, Reduce, Transport};
use burn_virtual::nodes::TrainError;
use burn_virtual::plan::{Layout, Node, Partial};

use super::BenchError;
use super::job::Job;
use super::pattern::Pattern;
use crate::error::RunError;

type Vector = Tensor<Flex, 1>;

/// For each iteration, the seconds of the rank that took longest; the same on every rank.
pub(super) fn measure(job: &Job, transport: Box<dyn Transport>) -> Result<Vec<f64>, RunError> {
    let mut group = Group::new(transport, Options::default());
    let seconds = Rank::new(job, &mut group).measure();
    if let Err(error) = &seconds {
        group.abort(&error.to_string()); // no others than this rank's own are still to be told
    }
    let own: Vec<_> = seconds?.into_iter().flat_map(f64::to_le_bytes).collect();
    let all = group.gather(&own).map_err(TrainError::from)?;
    Ok(slowest(job.iterations, &all)?)
}

struct Rank<'a> {
    job: &'a Job,
    group: &'a mut Group,
    layout: Layout,
    /// Buffers of earlier calls.
    spare: Vec<Partial>,
}

impl<'a> Rank<'a> {
    fn new(job: &'a Job, group: &'a mut Group) -> Self {
        Self {
            job,
            group,
            layout: Layout::new([job.elements], 0, 0),
            spare: Vec::new(),
        }
    }

    /// The seconds that each iteration took on this rank.
    fn measure(&mut self) -> Result<Vec<f64>, RunError> {
        let job = self.job;
        let subtrees = job.subtrees(self.group.rank());
        let brought: Vec<_> = subtrees
            .iter()
            .map(|nodes| Pattern::of(nodes.clone()).vector(job.elements))
            .collect();
        let expected = Pattern::of(0..job.placement.virtual_nodes());
        let mut seconds = Vec::new();
        for iteration in 0..job.warmup.saturating_add(job.iterations) {
            let inputs = brought.iter().cloned().map(tensor).collect();
            self.group.barrier().map_err(TrainError::from)?;
            let start = Instant::now();
            let sum = self.all_reduce(inputs)?;
            let elapsed = start.elapsed();
            self.check(iteration, sum, &expected)?;
            if iteration >= job.warmup {
                seconds.push(elapsed.as_secs_f64());
            }
        }
        Ok(seconds)
    }

    /// A tensor for each of this rank's subtrees goes in, and their sum over all ranks comes out.
    fn all_reduce(&mut self, inputs: Vec<Vector>) -> Result<Vector, RunError> {
        match self.job.reduce {
            Reduce::Ring => self.flat(Algorithm::Ring, inputs),
            Reduce::HalvingDoubling => self.flat(Algorithm::HalvingDoubling, inputs),
            Reduce::Ordered => self.ordered(inputs),
            unknown => Err(BenchError::Unknown(unknown).into()),
        }
    }

    /// In place, in the memory of the tensor that came in.
    fn flat(&mut self, algorithm: Algorithm, inputs: Vec<Vector>) -> Result<Vector, RunError> {
        let mut values = Vec::new();
        for input in inputs {
            values = input.into_data().into_vec().map_err(unreadable)?;
        }
        let summed = self.group.sum(algorithm, &mut values);
        summed.map_err(TrainError::from)?;
        Ok(tensor(values))
    }

    /// As a session does it: by way of buffers that are kept.
    fn ordered(&mut self, inputs: Vec<Vector>) -> Result<Vector, RunError> {
        let placement = &self.job.placement;
        let subtrees = self.job.subtrees(self.group.rank());
        let mut nodes: Vec<Node> = Vec::with_capacity(subtrees.len());
        for (subtree, input) in subtrees.into_iter().zip(inputs) {
            let data = input.into_data();
            let mut partial = self
                .spare
                .pop()
                .unwrap_or_else(|| Partial::empty(&self.layout));
            partial.clear();
            let values = data.as_slice().map_err(unreadable)?;
            partial.set_segment(0, values).map_err(BenchError::from)?;
            nodes.push((subtree, Some(partial)));
        }
        let sum = self.group.all_reduce(0, &self.layout, placement, nodes);
        let sum = sum.map_err(TrainError::from)?;
        let values = sum.as_ref().map(|sum| sum.values().to_vec());
        self.spare.extend(sum);
        self.spare.extend(self.group.take_spares());
        Ok(tensor(values.unwrap_or_default()))
    }

    /// Refuses a sum that is wrong.
    fn check(&self, iteration: usize, sum: Vector, expected: &Pattern) -> Result<(), BenchError> {
        let rank = self.group.rank();
        let data = sum.into_data();
        let values = data.as_slice().map_err(unreadable)?;
        if values.len() != self.job.elements {
            return Err(BenchError::Missing {
                rank,
                expected: self.job.elements,
                got: values.len(),
            });
        }
        match expected.difference(values) {
            None => Ok(()),
            Some((index, expected, got)) => Err(BenchError::Wrong {
                rank,
                iteration,
                index,
                expected,
                got,
            }),
        }
    }
}

fn tensor(values: Vec<f32>) -> Vector {
    let elements = values.len();
    Tensor::from_data(TensorData::new(values, [elements]), &FlexDevice)
}

fn unreadable(error: impl std::fmt::Debug) -> BenchError {
    BenchError::Tensor(format!("{error:?}"))
}

/// From the times of all ranks, that of the slowest for each iteration.
fn slowest(iterations: usize, all: &[Vec<u8>]) -> Result<Vec<f64>, BenchError> {
    let mut slowest = vec![0.0_f64; iterations];
    for (rank, bytes) in all.iter().enumerate() {
        let (times, rest) = bytes.as_chunks();
        if times.len() != iterations || !rest.is_empty() {
            return Err(BenchError::Times { rank });
        }
        for (slowest, time) in slowest.iter_mut().zip(times) {
            *slowest = slowest.max(f64::from_le_bytes(*time));
        }
    }
    Ok(slowest)
}
