//! The tree over one stretch of the vector after another, from nodes that come in order.

use std::ops::Range;

use burn_virtual_plan::{Bits, Layout, Placement, add_stretch, tree};

/// Adds up stretches of the vector along the tree. The nodes come in the order of virtual nodes;
/// siblings are added the moment both are there, so about `log2` of all nodes are kept.
#[derive(Debug)]
pub(crate) struct Evaluator {
    layout: Layout,
    /// How often the topmost two are siblings once each node has come.
    merges: Vec<usize>,
    /// Where the stretch begins, and the node that comes next.
    start: usize,
    next: usize,
    stack: Vec<Sum>,
    spare: Vec<Sum>,
}

/// A stretch of the sum over a node; absent if no virtual node of it contributed.
#[derive(Debug)]
struct Sum {
    is_some: bool,
    present: Bits,
    values: Vec<f32>,
}

impl Sum {
    fn fill(&mut self, node: Option<(&Bits, &[f32])>) {
        self.is_some = node.is_some();
        if let Some((present, values)) = node {
            self.present.copy_words(present.as_words().iter().copied());
            self.values.clear();
            self.values.extend_from_slice(values);
        }
    }

    /// Adds the right child. A node with one present child is that child.
    fn add(&mut self, layout: &Layout, start: usize, right: Option<(&Bits, &[f32])>) {
        match right {
            Some((present, values)) if self.is_some => {
                let own = &mut self.values;
                add_stretch(layout, start, own, &self.present, values, present);
                self.present.or(present);
            }
            Some(_) => self.fill(right),
            None => {}
        }
    }

    fn get(&self) -> Option<(&Bits, &[f32])> {
        self.is_some.then_some((&self.present, &self.values))
    }
}

impl Evaluator {
    /// For the nodes of all ranks of a placement.
    pub(crate) fn new(layout: &Layout, placement: &Placement) -> Self {
        Self {
            layout: layout.clone(),
            merges: merges(placement),
            start: 0,
            next: 0,
            stack: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Gets ready for the first node of a stretch that begins at `start`.
    pub(crate) fn begin(&mut self, start: usize) {
        self.start = start;
        self.next = 0;
        self.spare.append(&mut self.stack);
    }

    /// Takes the stretch of the next node: which segments are present, and the values.
    pub(crate) fn push(&mut self, node: Option<(&Bits, &[f32])>) {
        let merges = self.merges.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        match self.stack.last_mut() {
            // Its left sibling is there: added straight from where it lies.
            Some(left) if merges > 0 => left.add(&self.layout, self.start, node),
            _ => self.keep(node),
        }
        for _ in 1..merges {
            self.merge_top();
        }
    }

    fn keep(&mut self, node: Option<(&Bits, &[f32])>) {
        let mut sum = self.spare.pop().unwrap_or_else(|| Sum {
            is_some: false,
            present: Bits::new(self.layout.segments()),
            values: Vec::new(),
        });
        sum.fill(node);
        self.stack.push(sum);
    }

    fn merge_top(&mut self) {
        if let Some(right) = self.stack.pop() {
            if let Some(left) = self.stack.last_mut() {
                left.add(&self.layout, self.start, right.get());
            }
            self.spare.push(right);
        }
    }

    /// The sum over all nodes, once all have come.
    pub(crate) fn root(&self) -> Option<&[f32]> {
        let (_, values) = self.stack.last()?.get()?;
        Some(values)
    }
}

/// For each node of all ranks, in order: how many pairs of siblings are complete once it has come.
fn merges(placement: &Placement) -> Vec<usize> {
    let virtual_nodes = placement.virtual_nodes();
    let mut open: Vec<Range<usize>> = Vec::new();
    let nodes = placement.shares();
    let nodes = nodes.flat_map(|share| tree::maximal_subtrees(virtual_nodes, share));
    nodes
        .map(|node| {
            open.push(node);
            let before = open.len();
            while let [.., left, right] = &open[..]
                && tree::sibling(virtual_nodes, right).as_ref() == Some(left)
            {
                let end = right.end;
                open.pop();
                if let Some(node) = open.last_mut() {
                    node.end = end;
                }
            }
            before - open.len()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_merged_as_soon_as_both_have_come() {
        let merges = |counts: &[usize]| {
            super::merges(&Placement::explicit(counts.iter().sum(), counts).unwrap())
        };
        assert_eq!(merges(&[5]), [0]);
        assert_eq!(merges(&[3, 5]), [0, 0, 2, 1]); // 0..2 2..3 | 3..4 4..8
        assert_eq!(merges(&[1; 8]), [0, 1, 0, 2, 0, 1, 0, 3]);
        assert_eq!(merges(&[2, 2, 2]), [0, 1, 1]);
    }

    #[test]
    fn stretch_is_summed_with_what_is_present_only() {
        let layout = Layout::new([2, 2], 0, 0);
        let mut evaluator = Evaluator::new(&layout, &Placement::even(3, 3).unwrap());
        let (first, both) = (Bits::from_words(2, [0b01]), Bits::from_words(2, [0b11]));
        for _ in 0..2 {
            evaluator.begin(1);
            evaluator.push(Some((&first, &[1.0, 9.0])));
            evaluator.push(None);
            evaluator.push(Some((&both, &[2.0, 3.0])));
            assert_eq!(evaluator.root(), Some(&[3.0, 3.0][..]));
        }
        evaluator.begin(0);
        (0..3).for_each(|_| evaluator.push(None));
        assert_eq!(evaluator.root(), None);
    }
}
