//! A rank as the owner of one slice of the vector, in two phases: every rank sends its nodes, cut to
//! slices, to the owners; each owner adds up its own slice along the tree and sends it to all. Both
//! go on piece by piece, at the same time.

use std::ops::Range;

use burn_virtual_plan::{Bits, Layout, Partial, Placement, PlanError, Stack, tree};

use crate::call::{Call, FIRST};
use crate::evaluator::Evaluator;
use crate::ordered::copy_beside;
use crate::pieces::Pieces;
use crate::stream::AHEAD;
use crate::{CollectiveError, Shares, wire};

/// What a rank knows about the nodes of all ranks, kept from call to call for its buffers.
#[derive(Debug)]
pub(crate) struct Owner {
    layout: Layout,
    placement: Placement,
    cut: Cut,
    /// The nodes of each rank.
    nodes: Vec<Vec<NodeOf>>,
    /// The tree over what lies beside the values, and over the values.
    beside: Stack,
    values: Evaluator,
}

/// A node of some rank, and what the first message says about it.
#[derive(Debug)]
struct NodeOf {
    range: Range<usize>,
    is_some: bool,
    present: Bits,
}

/// How vectors are cut into slices and these into messages.
#[derive(Debug)]
struct Cut {
    rank: usize,
    shares: Shares,
    pieces: Pieces,
    /// Number of nodes of each rank.
    nodes: Vec<usize>,
}

impl Cut {
    /// A piece of the slice that `owner` owns.
    fn piece(&self, owner: usize, index: usize) -> Range<usize> {
        self.pieces.range(&self.shares.range(owner), index)
    }

    /// The message with a later piece of node `node` of rank `from`: its first one has all nodes.
    fn node_part(&self, from: usize, index: usize, node: usize) -> u32 {
        // Pieces and nodes are few enough.
        FIRST + 1 + ((index - 1) * self.nodes[from] + node) as u32
    }

    /// The message with a piece of the result that rank `from` owns.
    fn result_part(&self, from: usize, index: usize) -> u32 {
        self.node_part(from, self.pieces.count(), index)
    }

    /// All other ranks, starting with the next one, so that not all send to the same one at once.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        (self.rank + 1..self.nodes.len()).chain(0..self.rank)
    }
}

impl Owner {
    pub(crate) fn new(
        layout: &Layout,
        placement: &Placement,
        rank: usize,
    ) -> Result<Self, PlanError> {
        let virtual_nodes = placement.virtual_nodes();
        let node = |range| NodeOf {
            range,
            is_some: false,
            present: Bits::new(layout.segments()),
        };
        let of_share = |share| {
            let nodes = tree::maximal_subtrees(virtual_nodes, share);
            nodes.into_iter().map(node).collect()
        };
        let nodes: Vec<Vec<NodeOf>> = placement.shares().map(of_share).collect();
        let shares = Shares::even(layout.elements(), placement.ranks());
        Ok(Self {
            layout: layout.clone(),
            placement: placement.clone(),
            cut: Cut {
                rank,
                pieces: Pieces::new(shares.largest(), size_of::<f32>()),
                shares,
                nodes: nodes.iter().map(Vec::len).collect(),
            },
            nodes,
            beside: Stack::new(&layout.slice(0..0), virtual_nodes, 0..virtual_nodes)?,
            values: Evaluator::new(layout, placement),
        })
    }

    pub(crate) fn fits(&self, layout: &Layout, placement: &Placement) -> bool {
        self.layout == *layout && self.placement == *placement
    }

    /// The sum over all nodes, of which `sums` are this rank's; in the buffer of one of these, which
    /// is taken out.
    pub(crate) fn all_reduce(
        &mut self,
        call: &mut Call<'_>,
        sums: &mut Vec<Option<Partial>>,
    ) -> Result<Option<Partial>, CollectiveError> {
        self.send_first(call, sums)?;
        for index in 1..self.cut.pieces.count().min(AHEAD) {
            self.send_piece(call, sums, index)?;
        }
        self.take_first(call, sums)?;
        let beside = self.beside.finish().map_err(|fault| call.plan(fault))?;
        let Some(beside) = beside.into_iter().find_map(|(_, sum)| sum) else {
            return Ok(None); // as on every other rank
        };
        call.relay();
        let result = match sums.iter().position(Option::is_some) {
            Some(result) => result,
            None => {
                sums.push(Some(Partial::empty(&self.layout)));
                sums.len() - 1
            }
        };
        self.exchange(call, sums, result)?;
        let mut whole = sums.swap_remove(result);
        if let Some(whole) = &mut whole {
            copy_beside(whole, &beside);
            whole.zero_absent();
        }
        self.beside.recycle(beside);
        Ok(whole)
    }

    /// All that follows the first messages. The result goes to the values of `sums[result]`: a piece
    /// of it comes once its owner has that piece of all nodes, when this rank needs its own no more.
    fn exchange(
        &mut self,
        call: &mut Call<'_>,
        sums: &mut [Option<Partial>],
        result: usize,
    ) -> Result<(), CollectiveError> {
        let count = self.cut.pieces.count();
        self.give_result(call, &mut sums[result], 0)?;
        for index in 1..count {
            if index + AHEAD <= count {
                self.send_piece(call, sums, index + AHEAD - 1)?;
            }
            self.take_piece(call, sums, index)?;
            self.give_result(call, &mut sums[result], index)?;
            if index >= AHEAD {
                self.take_results(call, &mut sums[result], index - AHEAD)?;
            }
        }
        let mut left = count.saturating_sub(AHEAD)..count;
        left.try_for_each(|index| self.take_results(call, &mut sums[result], index))
    }

    /// Sends the first messages: for each node whether there is a sum, what lies beside the values,
    /// and the first piece of these.
    fn send_first(
        &self,
        call: &mut Call<'_>,
        sums: &[Option<Partial>],
    ) -> Result<(), CollectiveError> {
        call.scatter(|to, out| {
            for sum in sums {
                wire::write_sum(out, sum.as_ref(), &self.cut.piece(to, 0));
            }
        })
    }

    /// Takes the first messages, in rank order, which is the order of virtual nodes.
    fn take_first(
        &mut self,
        call: &mut Call<'_>,
        sums: &[Option<Partial>],
    ) -> Result<(), CollectiveError> {
        let everyone: Vec<usize> = (0..self.nodes.len()).collect();
        let piece = self.cut.piece(self.cut.rank, 0);
        self.values.begin(piece.start);
        self.beside.reset();
        let (all, beside, values) = (&mut self.nodes, &mut self.beside, &mut self.values);
        call.gather(FIRST, &everyone, |from, body, room| {
            let nodes = &mut all[from];
            let Some(mut body) = body else {
                for (node, own) in nodes.iter_mut().zip(sums) {
                    node.meet(beside, |buffer| {
                        own.iter().for_each(|own| copy_beside(buffer, own));
                        Ok(own.is_some())
                    })?;
                    let own = own.as_ref().map(|own| &own.values()[piece.clone()]);
                    values.push(own.map(|own| (&node.present, own)));
                }
                return Ok(());
            };
            for node in nodes {
                node.meet(beside, |buffer| wire::read_beside(&mut body, buffer))?;
                if node.is_some {
                    let got = wire::take_values(&mut body, piece.len(), room)?;
                    values.push(Some((&node.present, got)));
                } else {
                    values.push(None);
                }
            }
            wire::finish(body)
        })
    }

    /// Sends a later piece of this rank's nodes to its owner, each node by itself.
    fn send_piece(
        &self,
        call: &mut Call<'_>,
        sums: &[Option<Partial>],
        index: usize,
    ) -> Result<(), CollectiveError> {
        let rank = self.cut.rank;
        for to in self.cut.others() {
            let piece = self.cut.piece(to, index);
            for (node, sum) in sums.iter().take(self.cut.nodes[rank]).enumerate() {
                if let Some(sum) = sum
                    && !piece.is_empty()
                {
                    let values = bytemuck::cast_slice(&sum.values()[piece.clone()]);
                    call.send(to, self.cut.node_part(rank, index, node), values)?;
                }
            }
        }
        Ok(())
    }

    /// Takes a later piece of all nodes and adds it up.
    fn take_piece(
        &mut self,
        call: &mut Call<'_>,
        sums: &[Option<Partial>],
        index: usize,
    ) -> Result<(), CollectiveError> {
        let (cut, values) = (&self.cut, &mut self.values);
        let piece = cut.piece(cut.rank, index);
        if piece.is_empty() {
            return Ok(());
        }
        values.begin(piece.start);
        for (from, nodes) in self.nodes.iter().enumerate() {
            for (number, node) in nodes.iter().enumerate() {
                if !node.is_some {
                    values.push(None);
                } else if from == cut.rank {
                    let own = sums[number].as_ref();
                    let own = own.map(|own| &own.values()[piece.clone()]);
                    values.push(own.map(|own| (&node.present, own)));
                } else {
                    let part = cut.node_part(from, index, number);
                    call.take_values(from, part, piece.len(), |got| {
                        values.push(Some((&node.present, got)));
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Puts the piece that was added up into the result, and sends it to all.
    fn give_result(
        &self,
        call: &mut Call<'_>,
        result: &mut Option<Partial>,
        index: usize,
    ) -> Result<(), CollectiveError> {
        let (cut, piece) = (&self.cut, self.cut.piece(self.cut.rank, index));
        let (Some(result), Some(root)) = (result, self.values.root()) else {
            return Ok(());
        };
        if piece.is_empty() {
            return Ok(());
        }
        result.values_mut()[piece].copy_from_slice(root);
        let part = cut.result_part(cut.rank, index);
        let mut others = cut.others();
        others.try_for_each(|to| call.send(to, part, bytemuck::cast_slice(root)))
    }

    /// Takes a piece of the result from each of the other owners.
    fn take_results(
        &self,
        call: &mut Call<'_>,
        result: &mut Option<Partial>,
        index: usize,
    ) -> Result<(), CollectiveError> {
        let Some(result) = result else {
            return Ok(());
        };
        for from in self.cut.others() {
            let piece = self.cut.piece(from, index);
            if !piece.is_empty() {
                let (part, values) = (
                    self.cut.result_part(from, index),
                    &mut result.values_mut()[piece],
                );
                call.take_values(from, part, values.len(), |got| values.copy_from_slice(got))?;
            }
        }
        Ok(())
    }
}

impl NodeOf {
    /// Takes note of what lies beside the values; `read` says whether there is a sum at all.
    fn meet(
        &mut self,
        beside: &mut Stack,
        read: impl FnOnce(&mut Partial) -> Result<bool, String>,
    ) -> Result<(), String> {
        let mut sum = beside.take_buffer();
        self.is_some = read(&mut sum)?;
        let present = sum.present().as_words().iter().copied();
        self.present.copy_words(present);
        let sum = if self.is_some {
            Some(sum)
        } else {
            beside.recycle(sum);
            None
        };
        let pushed = beside.push(self.range.clone(), sum);
        pushed.map_err(|fault| fault.to_string())
    }
}
