#![doc = include_str!("README.md")]

use std::num::NonZeroUsize;
use std::ops::Range;

use burn_virtual_plan::{
    Layout, Node, Partial, Placement, PlanError, Stack, chunk, evaluate, tree,
};

use crate::call::Call;
use crate::{CollectiveError, wire};

/// Message of a rank's nodes, cut to the receiver's slice.
const NODES: u32 = 0;
/// Message of the owner's slice of the result.
const RESULT: u32 = 1;

/// The slice of the vector that this rank adds up, kept from call to call for its buffers.
#[derive(Debug)]
pub(crate) struct Slice {
    whole: Layout,
    range: Range<usize>,
    virtual_nodes: usize,
    stack: Stack,
}

impl Slice {
    fn new(whole: &Layout, range: Range<usize>, virtual_nodes: usize) -> Result<Self, PlanError> {
        let layout = whole.slice(range.clone());
        Ok(Self {
            whole: whole.clone(),
            stack: Stack::new(&layout, virtual_nodes, 0..virtual_nodes)?,
            range,
            virtual_nodes,
        })
    }

    fn fits(&self, whole: &Layout, range: &Range<usize>, virtual_nodes: usize) -> bool {
        self.whole == *whole && self.range == *range && self.virtual_nodes == virtual_nodes
    }

    fn push_own(&mut self, nodes: &[Node]) -> Result<(), PlanError> {
        for (node, sum) in nodes {
            let sum = sum.as_ref().map(|sum| {
                let mut cut = self.stack.take_buffer();
                copy_beside(&mut cut, sum);
                cut.values_mut()
                    .copy_from_slice(&sum.values()[self.range.clone()]);
                cut
            });
            self.stack.push(node.clone(), sum)?;
        }
        Ok(())
    }

    fn push_read(&mut self, nodes: Vec<Range<usize>>, mut bytes: &[u8]) -> Result<(), String> {
        for node in nodes {
            let sum = wire::read_sum(&mut bytes, || self.stack.take_buffer())?;
            self.stack
                .push(node, sum)
                .map_err(|fault| fault.to_string())?;
        }
        wire::finish(bytes)
    }

    fn finish(&mut self) -> Result<Option<Partial>, PlanError> {
        let root = self.stack.finish()?.pop().and_then(|(_, sum)| sum);
        Ok(root.map(|mut root| {
            root.zero_absent();
            root
        }))
    }
}

/// The sum over all virtual nodes, on every rank. `nodes` are this rank's; buffers of theirs that
/// the result does not use go to `spare`.
pub(crate) fn all_reduce(
    call: &mut Call<'_>,
    kept: &mut Option<Slice>,
    layout: &Layout,
    placement: &Placement,
    nodes: Vec<Node>,
    spare: &mut Vec<Partial>,
) -> Result<Option<Partial>, CollectiveError> {
    check(call, layout, placement, &nodes)?;
    if call.world() == 1 {
        let root = evaluate(layout, placement.virtual_nodes(), nodes);
        return root.map_err(|fault| call.plan(fault));
    }
    let chunks = chunks(layout.elements(), call.world());
    let own = &chunks[call.rank()];
    let kept_fits = |slice: &Slice| slice.fits(layout, own, placement.virtual_nodes());
    let mut slice = match kept.take().filter(kept_fits) {
        Some(slice) => slice,
        None => Slice::new(layout, own.clone(), placement.virtual_nodes())
            .map_err(|fault| call.plan(fault))?,
    };
    let root = reduce_slice(call, &mut slice, &chunks, placement, &nodes)?;
    spare.extend(nodes.into_iter().filter_map(|(_, sum)| sum));
    let result = match root {
        None => None,
        Some(root) => {
            let mut whole = spare.pop().unwrap_or_else(|| Partial::empty(layout));
            gather_slices(call, &chunks, &root, &mut whole)?;
            slice.stack.recycle(root);
            Some(whole)
        }
    };
    *kept = Some(slice);
    Ok(result)
}

/// The slice of the vector that each rank owns.
fn chunks(elements: usize, world: usize) -> Vec<Range<usize>> {
    let parts = NonZeroUsize::new(world).unwrap_or(NonZeroUsize::MIN);
    (0..world)
        .map(|rank| chunk(elements, parts, rank))
        .collect()
}

/// Refuses a contribution that the other ranks could not make sense of.
fn check(
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

/// Phase 1: every rank's nodes, cut to slices, go to the owners; each adds up its own along the
/// tree. Nodes are taken in rank order, which is the order of virtual nodes, so that siblings merge
/// as they come.
fn reduce_slice(
    call: &mut Call<'_>,
    slice: &mut Slice,
    chunks: &[Range<usize>],
    placement: &Placement,
    nodes: &[Node],
) -> Result<Option<Partial>, CollectiveError> {
    call.scatter(NODES, |to, out| {
        for (_, sum) in nodes {
            wire::write_sum(out, sum.as_ref(), &chunks[to]);
        }
    })?;
    let everyone: Vec<usize> = (0..call.world()).collect();
    call.gather(NODES, &everyone, |from, body| match body {
        None => slice.push_own(nodes).map_err(|fault| fault.to_string()),
        Some(body) => {
            let range = placement.range(from);
            let expected = tree::maximal_subtrees(placement.virtual_nodes(), range);
            slice.push_read(expected, body)
        }
    })?;
    slice.finish().map_err(|fault| call.plan(fault))
}

/// Phase 2: every owner's slice of the values goes to all. What lies beside the values is already
/// the same everywhere. Empty slices are not sent.
fn gather_slices(
    call: &mut Call<'_>,
    chunks: &[Range<usize>],
    root: &Partial,
    whole: &mut Partial,
) -> Result<(), CollectiveError> {
    let rank = call.rank();
    if !chunks[rank].is_empty() {
        call.scatter(RESULT, |_, out| wire::write_values(out, root.values()))?;
    }
    copy_beside(whole, root);
    let owners: Vec<usize> = (0..call.world())
        .filter(|&owner| !chunks[owner].is_empty())
        .collect();
    call.gather(RESULT, &owners, |from, body| {
        let values = &mut whole.values_mut()[chunks[from].clone()];
        let Some(mut bytes) = body else {
            values.copy_from_slice(root.values());
            return Ok(());
        };
        wire::read_values(&mut bytes, values)?;
        wire::finish(bytes)
    })
}

/// Copies presence, sums and flags, which slices have in full.
fn copy_beside(to: &mut Partial, from: &Partial) {
    to.present_mut()
        .copy_words(from.present().as_words().iter().copied());
    to.sums_mut().copy_from_slice(from.sums());
    to.flags_mut()
        .copy_words(from.flags().as_words().iter().copied());
}
