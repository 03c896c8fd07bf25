//! The all-reduce of virtual nodes that follows the ranks instead of the tree: each rank adds its own
//! up, then vectors are summed as they lie.

use burn_virtual_plan::{Layout, Node, Partial, Placement, PlanError, Stack};

use crate::call::{Call, FIRST};
use crate::{CollectiveError, ordered, wire};

/// What an absent value counts for: `x + -0.0` is `x`, to the last bit, for every `x`.
const NOTHING: f32 = -0.0;

/// The first half: this rank's own sum, whose values are what it brings, with all that lies beside
/// them summed over all ranks. Nothing if no virtual node of any rank contributed.
pub(crate) fn join(
    call: &mut Call<'_>,
    spare: &mut Vec<Partial>,
    layout: &Layout,
    placement: &Placement,
    nodes: Vec<Node>,
) -> Result<Option<Partial>, CollectiveError> {
    ordered::check(call, layout, placement, &nodes)?;
    let own = add_up(spare, nodes).map_err(|fault| call.plan(fault))?;
    call.scatter(|_, out| wire::write_sum(out, own.as_ref(), &(0..0)))?;
    let Some(beside) = sum_beside(call, layout, own.as_ref())? else {
        return Ok(None);
    };
    let mut own = own.unwrap_or_else(|| Partial::empty(layout));
    for segment in 0..layout.segments() {
        if !own.present().get(segment) {
            own.values_mut()[layout.segment(segment)].fill(NOTHING);
        }
    }
    ordered::copy_beside(&mut own, &beside);
    Ok(Some(own))
}

/// The sum of this rank's nodes, in order.
fn add_up(spare: &mut Vec<Partial>, nodes: Vec<Node>) -> Result<Option<Partial>, PlanError> {
    let mut present = nodes.into_iter().filter_map(|(_, sum)| sum);
    let Some(mut own) = present.next() else {
        return Ok(None);
    };
    for sum in present {
        own.add(&sum)?;
        spare.push(sum);
    }
    Ok(Some(own))
}

/// Presence, sums and flags of all ranks, along the tree over the ranks: where the placement is aligned,
/// that is the upper part of the tree over the virtual nodes.
fn sum_beside(
    call: &mut Call<'_>,
    layout: &Layout,
    own: Option<&Partial>,
) -> Result<Option<Partial>, CollectiveError> {
    let (world, layout) = (call.world(), layout.slice(0..0));
    let mut stack = Stack::new(&layout, world, 0..world).map_err(|fault| call.plan(fault))?;
    let everyone: Vec<usize> = (0..world).collect();
    call.gather(FIRST, &everyone, |from, body, _| {
        let mut sum = stack.take_buffer();
        let is_some = match body {
            Some(mut body) => {
                let is_some = wire::read_beside(&mut body, &mut sum)?;
                wire::finish(body)?;
                is_some
            }
            None => own
                .inspect(|own| ordered::copy_beside(&mut sum, own))
                .is_some(),
        };
        let pushed = stack.push_leaf(from, is_some.then_some(sum));
        pushed.map_err(|fault| fault.to_string())
    })?;
    let root = stack.finish().map_err(|fault| call.plan(fault))?.pop();
    Ok(root.and_then(|(_, sum)| sum))
}
