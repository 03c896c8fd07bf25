//! Halving and doubling among ranks whose number is a power of two: the corners of a cube, along
//! whose edges they exchange.

use std::ops::Range;

use bytemuck::Pod;

use crate::CollectiveError;
use crate::call::{Call, FIRST};
use crate::stream::Stream;

/// One exchange with one partner: of the stretch that both hold, each keeps one half and gives the
/// other away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The partner's corner.
    pub(crate) partner: usize,
    pub(crate) keep: Range<usize>,
    pub(crate) give: Range<usize>,
}

impl Step {
    /// What passes between this rank and its partner, which is rank `with`.
    pub(crate) fn stream<T>(&self, with: usize, first: u32) -> Stream {
        Stream::both_ways::<T>(with, first, self.keep.len().max(self.give.len()))
    }
}

/// The steps of `corner` among `corners`, distances doubling. A corner keeps the half that its
/// place in the pair says, the lower one the first; after the last step it holds one stretch of
/// `0..elements` that no other holds. They are put in `steps`, in place of what was there.
pub(crate) fn steps(
    mut steps: Vec<Step>,
    corner: usize,
    corners: usize,
    elements: usize,
) -> Vec<Step> {
    let mut held = 0..elements;
    let distances = (0..corners.ilog2()).map(|bit| 1 << bit);
    let step = |distance: usize| {
        let middle = held.start + held.len().div_ceil(2);
        let (low, high) = (held.start..middle, middle..held.end);
        let (keep, give) = match corner & distance {
            0 => (low, high),
            _ => (high, low),
        };
        held = keep.clone();
        Step {
            partner: corner ^ distance,
            keep,
            give,
        }
    };
    steps.clear();
    steps.extend(distances.map(step));
    steps
}

/// Takes the steps back, distances halving: in each, partners exchange what they hold, until all
/// hold everything. `rank` is the rank at a corner, and `S` the type in which the halves were sent.
pub(crate) fn double<S, T: Pod>(
    call: &mut Call<'_>,
    steps: &[Step],
    values: &mut [T],
    rank: impl Fn(usize) -> usize,
) -> Result<(), CollectiveError> {
    for step in steps.iter().rev() {
        let partner = rank(step.partner);
        let stream = step.stream::<T>(partner, step.stream::<S>(partner, FIRST).next());
        let (out, into) = (|_| step.keep.clone(), |_| step.give.clone());
        stream.run(call, values, out, into, <[T]>::copy_from_slice)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corners_end_with_stretches_that_cover_everything_once() {
        for corners in [1, 2, 4, 8, 16] {
            for elements in [0, 1, 2, 7, 100, (1 << 32) + 5] {
                let last = |corner| {
                    let steps = steps(vec![], corner, corners, elements);
                    steps.last().map_or(0..elements, |step| step.keep.clone())
                };
                let mut stretches: Vec<_> = (0..corners).map(last).collect();
                stretches.sort_by_key(|stretch| (stretch.start, stretch.end));
                assert_eq!(stretches[0].start, 0);
                assert_eq!(stretches[corners - 1].end, elements);
                assert!(stretches.windows(2).all(|two| two[0].end == two[1].start));
            }
        }
    }

    #[test]
    fn partners_mirror_each_other_in_every_step() {
        for corner in 0..8 {
            for (index, step) in steps(vec![], corner, 8, 1003).iter().enumerate() {
                assert_eq!(step.partner, corner ^ (1 << index));
                let mirror = &steps(vec![], step.partner, 8, 1003)[index];
                assert_eq!((&mirror.keep, &mirror.give), (&step.give, &step.keep));
            }
        }
    }
}
