//! The ordered all-reduce for any placement: owners of slices add up the nodes of all ranks.

use burn_virtual_plan::{Layout, Node, Partial, Placement, PlanError, tree};

use crate::call::Call;
use crate::owner::Owner;
use crate::{CollectiveError, aligned};

/// What is kept from call to call for its buffers.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    owner: Option<Owner>,
    beside: Option<aligned::Beside>,
    /// Buffers of nodes that the result of the last call did not use.
    pub(crate) spare: Vec<Partial>,
}

/// The sum over all virtual nodes, on every rank. `nodes` are this rank's; buffers of theirs that
/// the result does not use are kept as spares.
pub(crate) fn all_reduce(
    call: &mut Call<'_>,
    kept: &mut Kept,
    layout: &Layout,
    placement: &Placement,
    nodes: Vec<Node>,
) -> Result<Option<Partial>, CollectiveError> {
    check(call, layout, placement, &nodes)?;
    let mut sums: Vec<_> = nodes.into_iter().map(|(_, sum)| sum).collect();
    // The placement alone decides, so that all ranks decide alike.
    if placement.is_aligned() {
        let node = sums.pop().flatten();
        return aligned::all_reduce(call, &mut kept.beside, layout, node);
    }
    let fits = |owner: &Owner| owner.fits(layout, placement);
    let owner = match kept.owner.take().filter(fits) {
        Some(owner) => owner,
        None => Owner::new(layout, placement, call.rank()).map_err(|fault| call.plan(fault))?,
    };
    let result = kept.owner.insert(owner).all_reduce(call, &mut sums);
    kept.spare.extend(sums.into_iter().flatten());
    result
}

/// Refuses a contribution that the other ranks could not make sense of.
pub(crate) fn check(
    call: &Call<'_>,
    layout: &Layout,
    placement: &Placement,
    nodes: &[Node],
) -> Result<(), CollectiveError> {
    let (rank, name, world) = (call.rank(), call.name, call.world());
    if placement.ranks() != world {
        return Err(CollectiveError::World {
            rank,
            call: name,
            expected: world,
            got: placement.ranks(),
        });
    }
    let expected = tree::maximal_subtrees(placement.virtual_nodes(), placement.range(rank));
    if !nodes.iter().map(|(node, _)| node).eq(&expected) {
        return Err(CollectiveError::Nodes {
            rank,
            call: name,
            expected,
            got: nodes.iter().map(|(node, _)| node.clone()).collect(),
        });
    }
    let mut layouts = nodes
        .iter()
        .filter_map(|(_, sum)| Some(sum.as_ref()?.layout()));
    match layouts.find(|other| *other != layout) {
        None => Ok(()),
        Some(other) => Err(call.plan(PlanError::LayoutMismatch {
            expected: Box::new(layout.clone()),
            got: Box::new(other.clone()),
        })),
    }
}

/// Copies presence, sums and flags, which slices have in full.
pub(crate) fn copy_beside(to: &mut Partial, from: &Partial) {
    to.present_mut()
        .copy_words(from.present().as_words().iter().copied());
    to.sums_mut().copy_from_slice(from.sums());
    to.flags_mut()
        .copy_words(from.flags().as_words().iter().copied());
}
