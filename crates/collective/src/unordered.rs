//! The all-reduce of virtual nodes that follows the ranks instead of the tree: each rank adds its own
//! up, then vectors are summed as they lie.

use burn_virtual_plan::{Layout, Node, Partial, Placement};

use crate::call::{Call, FIRST};
use crate::{CollectiveError, ordered, wire};

/// The first half: this rank's own sum, whose values are what it brings, with all that lies beside
/// them summed over all ranks, in their order. Nothing if no virtual node of any rank contributed.
pub(crate) fn join(
    call: &mut Call<'_>,
    spare: &mut Vec<Partial>,
    layout: &Layout,
    placement: &Placement,
    nodes: Vec<Node>,
) -> Result<Option<Partial>, CollectiveError> {
    ordered::check(call, layout, placement, &nodes)?;
    let own = add_up(call, spare, nodes)?;
    call.scatter(|_, out| wire::write_sum(out, own.as_ref(), &(0..0)))?;
    let mut total = Partial::empty(&layout.slice(0..0));
    let mut other = total.clone();
    let mut is_some = false;
    let everyone: Vec<usize> = (0..call.world()).collect();
    call.gather(FIRST, &everyone, |_, body, _| {
        let Some(mut body) = body else {
            if let Some(own) = &own {
                total.add_beside(own);
                is_some = true;
            }
            return Ok(());
        };
        if wire::read_beside(&mut body, &mut other)? {
            total.add_beside(&other);
            is_some = true;
        }
        wire::finish(body)
    })?;
    Ok(is_some.then(|| {
        let mut own = own.unwrap_or_else(|| Partial::empty(layout));
        // What a rank lacks adds nothing: it knows now whether others have it.
        own.zero_absent();
        ordered::copy_beside(&mut own, &total);
        own
    }))
}

/// The sum of this rank's nodes, in order.
fn add_up(
    call: &Call<'_>,
    spare: &mut Vec<Partial>,
    nodes: Vec<Node>,
) -> Result<Option<Partial>, CollectiveError> {
    let mut present = nodes.into_iter().filter_map(|(_, sum)| sum);
    let Some(mut own) = present.next() else {
        return Ok(None);
    };
    for sum in present {
        own.add(&sum).map_err(|fault| call.plan(fault))?;
        spare.push(sum);
    }
    Ok(Some(own))
}
