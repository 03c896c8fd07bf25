//! The collectives that compute nothing. In both, every rank hears from every other: a rank that
//! only sent would return before it could learn that the others run something else.

use crate::call::Call;
use crate::{CollectiveError, wire};

/// Returns once every rank has entered.
pub(crate) fn barrier(call: &mut Call<'_>) -> Result<(), CollectiveError> {
    let everyone: Vec<usize> = (0..call.world()).collect();
    call.scatter(0, |_, _| {})?;
    call.gather(0, &everyone, |_, body| {
        wire::finish(body.unwrap_or_default())
    })
}

/// Replaces `bytes` on every rank by those of `root`.
pub(crate) fn broadcast(
    call: &mut Call<'_>,
    root: usize,
    bytes: &mut Vec<u8>,
) -> Result<(), CollectiveError> {
    let (rank, world) = (call.rank(), call.world());
    if root >= world {
        return Err(CollectiveError::Root {
            rank,
            call: call.name,
            root,
            world,
        });
    }
    let everyone: Vec<usize> = (0..world).collect();
    call.scatter(0, |_, out| {
        if rank == root {
            out.extend_from_slice(bytes);
        }
    })?;
    // Kept aside until every rank was heard: a call that fails must not have replaced anything.
    let mut received = None;
    call.gather(0, &everyone, |from, body| match body {
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
