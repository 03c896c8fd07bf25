//! Collectives around a ring: every rank sends to the next one and hears from the one before it.
//! Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.

use std::ops::Range;

use bytemuck::Pod;

use crate::call::{Call, FIRST};
use crate::element::Element;
use crate::element::summed::Addend;
use crate::pieces::Pieces;
use crate::stream::Stream;
use crate::{CollectiveError, Shares};

/// The sum over all ranks, on every rank. `finish` is applied to each sum, on one rank, before it is
/// rounded.
pub(crate) fn all_reduce<T: Element>(
    call: &mut Call<'_>,
    values: &mut [T],
    finish: impl Fn(&mut [T::Sum]),
) -> Result<(), CollectiveError> {
    let (elements, world) = (values.len(), call.world());
    let fits = |shares: &Shares| (shares.elements(), shares.ranks()) == (elements, world);
    let shares = call.buffers.shares.take().filter(fits);
    let shares = shares.unwrap_or_else(|| Shares::even(elements, world));
    let next = reduce_scatter(call, &shares, values, finish)?;
    spread(call, &shares, values, next)?;
    call.buffers.shares = Some(shares);
    Ok(())
}

/// The sum over all ranks of each share, on the rank whose it is, with `finish` applied to it before it
/// is rounded. Returns the number of the next message.
pub(crate) fn reduce_scatter<T: Element>(
    call: &mut Call<'_>,
    shares: &Shares,
    values: &mut [T],
    finish: impl Fn(&mut [T::Sum]),
) -> Result<u32, CollectiveError> {
    let mut wide = std::mem::take(&mut call.buffers.wide);
    let own = shares.range(call.rank());
    let sums = T::sums(values, &mut wide);
    let next = collect(call, shares, sums);
    finish(&mut sums[own.clone()]);
    T::settle(values, &wide, own);
    call.buffers.wide = wide;
    next
}

/// Every rank's share, on every rank.
pub(crate) fn all_gather<T: Pod>(
    call: &mut Call<'_>,
    shares: &Shares,
    values: &mut [T],
) -> Result<(), CollectiveError> {
    spread(call, shares, values, FIRST)
}

/// Each share travels once around the ring, starting behind the rank whose it is, and every rank
/// adds its own values to it; it ends complete, where it belongs.
fn collect<S: Addend>(
    call: &mut Call<'_>,
    shares: &Shares,
    sums: &mut [S],
) -> Result<u32, CollectiveError> {
    let rank = call.rank();
    let out = |step| behind(shares, rank, step + 1);
    let into = |step| behind(shares, rank, step + 2);
    let stream = stream::<S>(call, shares, FIRST);
    stream.run(call, sums, out, into, S::add_assign)?;
    Ok(stream.next())
}

/// Each share travels once around the ring, starting on the rank whose it is.
fn spread<T: Pod>(
    call: &mut Call<'_>,
    shares: &Shares,
    values: &mut [T],
    first: u32,
) -> Result<(), CollectiveError> {
    let rank = call.rank();
    let out = |step| behind(shares, rank, step);
    let into = |step| behind(shares, rank, step + 1);
    let stream = stream::<T>(call, shares, first);
    stream.run(call, values, out, into, <[T]>::copy_from_slice)
}

/// The share of the rank that lies `steps` behind `rank`, at most once around.
fn behind(shares: &Shares, rank: usize, steps: usize) -> Range<usize> {
    let world = shares.ranks();
    shares.range((rank + world - steps) % world)
}

fn stream<T: Pod>(call: &Call<'_>, shares: &Shares, first: u32) -> Stream {
    let (rank, world) = (call.rank(), call.world());
    Stream {
        to: (rank + 1) % world,
        from: (rank + world - 1) % world,
        first,
        stretches: world - 1,
        pieces: Pieces::new(shares.largest(), size_of::<T>()),
    }
}
