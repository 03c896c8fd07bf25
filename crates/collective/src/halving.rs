//! The all-reduce by halving and doubling. Rabenseifner's algorithm, after Thakur, Rabenseifner and
//! Gropp, "Optimization of collective communication operations in MPICH", 2005: recursive halving,
//! with the distance doubling, then recursive doubling back.

use std::ops::Range;

use crate::CollectiveError;
use crate::call::{Call, FIRST};
use crate::cube::{self, Step};
use crate::element::Element;
use crate::element::summed::Addend;
use crate::stream::Stream;

/// The sum over all ranks, on every rank. `finish` is applied to each sum, on one rank, before it is
/// rounded.
pub(crate) fn all_reduce<T: Element>(
    call: &mut Call<'_>,
    values: &mut [T],
    finish: impl Fn(&mut [T::Sum]),
) -> Result<(), CollectiveError> {
    let (fold, all) = (Fold::new(call.world()), 0..values.len());
    let mut wide = std::mem::take(&mut call.buffers.wide);
    let mut steps = std::mem::take(&mut call.buffers.steps);
    match fold.place(call.rank()) {
        Place::Folded { into } => {
            let sums = T::sums(values, &mut wide);
            link::<T::Sum>(into, &all).send_only(call, sums, &all)?;
            call.relay();
            link::<T>(into, &all).take_only(call, values, &all, <[T]>::copy_from_slice)?;
        }
        Place::Corner { corner, folded } => {
            steps = cube::steps(steps, corner, fold.corners, all.len());
            let sums = T::sums(values, &mut wide);
            if let Some(from) = folded {
                let link = link::<T::Sum>(from, &all);
                link.take_only(call, sums, &all, T::Sum::add_assign)?;
            }
            halve(call, &fold, &steps, sums)?;
            let own = steps.last().map_or(all.clone(), |step| step.keep.clone());
            finish(&mut sums[own.clone()]);
            T::settle(values, &wide, own);
            cube::double::<T::Sum, T>(call, &steps, values, |corner| fold.rank(corner))?;
            if let Some(to) = folded {
                link::<T>(to, &all).send_only(call, values, &all)?;
            }
        }
    }
    call.buffers.wide = wide;
    call.buffers.steps = steps;
    Ok(())
}

/// How a world that is no power of two becomes one: of the first ranks, every even one hands its
/// vector to the next, and gets the result from it.
struct Fold {
    corners: usize,
    folded: usize,
}

/// What a rank does.
enum Place {
    /// It hands its vector to rank `into` and waits for the result.
    Folded { into: usize },
    /// It takes part, for rank `folded` too if there is one.
    Corner {
        corner: usize,
        folded: Option<usize>,
    },
}

impl Fold {
    fn new(world: usize) -> Self {
        let corners = 1 << world.ilog2();
        let folded = world - corners;
        Self { corners, folded }
    }

    fn place(&self, rank: usize) -> Place {
        match rank.checked_sub(2 * self.folded) {
            Some(after) => Place::Corner {
                corner: self.folded + after,
                folded: None,
            },
            None if rank.is_multiple_of(2) => Place::Folded { into: rank + 1 },
            None => Place::Corner {
                corner: rank / 2,
                folded: Some(rank - 1),
            },
        }
    }

    /// The rank at a corner.
    fn rank(&self, corner: usize) -> usize {
        corner + self.folded.min(corner + 1)
    }
}

/// Exchanges halves with ever more distant corners, and adds what comes to what it keeps.
fn halve<S: Addend>(
    call: &mut Call<'_>,
    fold: &Fold,
    steps: &[Step],
    sums: &mut [S],
) -> Result<(), CollectiveError> {
    if fold.folded > 0 {
        call.relay();
    }
    for step in steps {
        let stream = step.stream::<S>(fold.rank(step.partner), FIRST);
        let (out, into) = (|_| step.give.clone(), |_| step.keep.clone());
        stream.run(call, sums, out, into, S::add_assign)?;
        call.relay();
    }
    Ok(())
}

/// The whole vector, as the first messages between this rank and another.
fn link<T>(with: usize, whole: &Range<usize>) -> Stream {
    Stream::both_ways::<T>(with, FIRST, whole.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_its_place_for_every_world() {
        for world in 1..=33 {
            let fold = Fold::new(world);
            let mut corners = vec![];
            for rank in 0..world {
                match fold.place(rank) {
                    Place::Corner { corner, folded } => {
                        assert_eq!(fold.rank(corner), rank);
                        assert_eq!(folded.is_some(), corner < fold.folded);
                        corners.push(corner);
                    }
                    Place::Folded { into } => {
                        let place = fold.place(into);
                        assert!(
                            matches!(place, Place::Corner { folded, .. } if folded == Some(rank))
                        );
                    }
                }
            }
            assert!(corners.into_iter().eq(0..fold.corners));
        }
    }
}
