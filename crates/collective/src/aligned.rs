//! The ordered all-reduce where the placement is aligned ([`Placement::is_aligned`]): every rank holds
//! one node, and the tree above them is the cube of the ranks. Halving with doubling distance adds
//! siblings, one level of the tree in each step.
//!
//! [`Placement::is_aligned`]: burn_virtual_plan::Placement::is_aligned

use burn_virtual_plan::{Layout, Partial, add_stretch};

use crate::call::{Call, FIRST};
use crate::cube::{self, Step};
use crate::ordered::copy_beside;
use crate::stream::Stream;
use crate::{CollectiveError, wire};

/// Room for what lies beside the values of a sibling, kept from call to call.
#[derive(Debug)]
pub(crate) struct Beside {
    layout: Layout,
    room: Partial,
}

impl Beside {
    fn new(layout: &Layout) -> Self {
        Self {
            layout: layout.clone(),
            room: Partial::empty(&layout.slice(0..0)),
        }
    }
}

/// The sum over all virtual nodes, on every rank, in the buffer of `node`.
pub(crate) fn all_reduce(
    call: &mut Call<'_>,
    kept: &mut Option<Beside>,
    layout: &Layout,
    node: Option<Partial>,
) -> Result<Option<Partial>, CollectiveError> {
    let fits = |beside: &Beside| beside.layout == *layout;
    let beside = match kept.take().filter(fits) {
        Some(beside) => beside,
        None => Beside::new(layout),
    };
    let beside = kept.insert(beside);
    let steps = std::mem::take(&mut call.buffers.steps);
    let steps = cube::steps(steps, call.rank(), call.world(), layout.elements());
    let mut sum = node;
    for step in &steps {
        sum = add_sibling(call, step, layout, sum, &mut beside.room)?;
        call.relay();
    }
    let Some(mut sum) = sum else {
        return Ok(None); // as on every other rank
    };
    cube::double::<f32, f32>(call, &steps, sum.values_mut(), |corner| corner)?;
    call.buffers.steps = steps;
    sum.zero_absent();
    Ok(Some(sum))
}

/// One step: this rank and its partner hold the same stretch of two siblings. It gives half of its
/// own away and adds what comes to the other half. A node with one present child is that child.
fn add_sibling(
    call: &mut Call<'_>,
    step: &Step,
    layout: &Layout,
    own: Option<Partial>,
    beside: &mut Partial,
) -> Result<Option<Partial>, CollectiveError> {
    let stream = step.stream::<f32>(step.partner, FIRST);
    let (count, ahead) = (stream.pieces.count(), stream.ahead(call));
    let first = stream.pieces.range(&step.give, 0);
    call.send_first(step.partner, |out| {
        wire::write_sum(out, own.as_ref(), &first)
    })?;
    let is_own = own.is_some();
    let mut sum = own.unwrap_or_else(|| Partial::empty(layout));
    let to_send = if is_own { count } else { 1 };
    for index in 1..ahead.min(to_send) {
        stream.send(call, sum.values(), index, &step.give)?;
    }
    // The first message says whether there is a sum, and with it whether more messages follow.
    let is_sibling = take_first(call, step, &stream, &mut sum, beside)?;
    let (layout, present, values) = sum.parts_mut();
    for index in 1..count {
        let next = index + ahead - 1;
        let next = (next < to_send).then(|| (next, step.give.clone()));
        let taken = is_sibling.then(|| (index, step.keep.clone()));
        let start = stream.pieces.range(&step.keep, index).start;
        stream.exchange(call, values, next, taken, |left, right| {
            add_stretch(layout, start, left, present, right, beside.present());
        })?;
    }
    match (is_own, is_sibling) {
        (_, false) => {}
        (true, true) => sum.add_beside(beside),
        (false, true) => copy_beside(&mut sum, beside),
    }
    Ok((is_own || is_sibling).then_some(sum))
}

/// Takes what lies beside the values, and the first piece of these; whether there is a sibling.
fn take_first(
    call: &mut Call<'_>,
    step: &Step,
    stream: &Stream,
    sum: &mut Partial,
    beside: &mut Partial,
) -> Result<bool, CollectiveError> {
    let piece = stream.pieces.range(&step.keep, 0);
    let mut is_sibling = false;
    call.take(step.partner, FIRST, |mut body, room| {
        is_sibling = wire::read_beside(&mut body, beside)?;
        if is_sibling {
            let values = wire::take_values(&mut body, piece.len(), room)?;
            sum.add_values(piece.start, beside.present(), values);
        }
        wire::finish(body)
    })?;
    Ok(is_sibling)
}
