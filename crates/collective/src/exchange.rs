//! The collectives that compute nothing. In all of them every rank first hears from every other: a
//! rank that only sent would return before it could learn that the others run something else.

use bytemuck::Pod;

use crate::call::{Call, FIRST};
use crate::pieces::Pieces;
use crate::stream::Stream;
use crate::{CollectiveError, wire};

/// Returns once every rank has entered.
pub(crate) fn barrier(call: &mut Call<'_>) -> Result<(), CollectiveError> {
    let everyone: Vec<usize> = (0..call.world()).collect();
    call.scatter(|_, _| {})?;
    call.gather(FIRST, &everyone, |_, body, _| {
        wire::finish(body.unwrap_or_default())
    })
}

/// The bytes of every rank, in rank order.
pub(crate) fn gather(call: &mut Call<'_>, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
    let everyone: Vec<usize> = (0..call.world()).collect();
    call.scatter(|_, out| out.extend_from_slice(bytes))?;
    let mut all = Vec::with_capacity(everyone.len());
    call.gather(FIRST, &everyone, |_, body, _| {
        all.push(body.unwrap_or(bytes).to_vec());
        Ok(())
    })?;
    Ok(all)
}

/// Replaces `bytes` on every rank by those of `root`.
pub(crate) fn broadcast(
    call: &mut Call<'_>,
    root: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), CollectiveError> {
    call.check_root(root)?;
    let (rank, world) = (call.rank(), call.world());
    let everyone: Vec<usize> = (0..world).collect();
    call.scatter(|_, out| {
        if rank == root {
            out.extend_from_slice(bytes);
        }
    })?;
    // Kept aside until every rank was heard: a call that fails must not have replaced anything.
    let mut received = None;
    call.gather(FIRST, &everyone, |from, body, _| match body {
        Some(body) if from == root => {
            received = Some(body.to_vec());
            Ok(())
        }
        body => wire::finish(body.unwrap_or_default()),
    })?;
    if let Some(received) = received {
        *bytes = received;
    }
    Ok(())
}

/// Replaces `values` on every rank by those of `root`, once all ranks agree on their number: piece
/// by piece from each rank to the next.
pub(crate) fn broadcast_slice<T: Pod>(
    call: &mut Call<'_>,
    root: usize,
    values: &mut [T],
) -> Result<(), CollectiveError> {
    call.check_root(root)?;
    barrier(call)?;
    call.relay();
    let (rank, world) = (call.rank(), call.world());
    let chain = Stream {
        to: (rank + 1) % world,
        from: (rank + world - 1) % world,
        first: FIRST + 1,
        stretches: 1,
        pieces: Pieces::new(values.len(), size_of::<T>()),
    };
    chain.pass_on(call, values, rank != root, chain.to != root)
}
