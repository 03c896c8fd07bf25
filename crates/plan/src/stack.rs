//! Evaluating the tree from parts that arrive in the order of virtual nodes.

use std::ops::Range;

use crate::{Layout, Partial, PlanError, tree};

/// A node of the tree and its sum; `None` where none of its virtual nodes contributed.
pub type Node = (Range<usize>, Option<Partial>);

/// Turns nodes of the tree that arrive in order (the leaves of a rank, or the nodes of all ranks)
/// into the maximal subtrees of a range, adding two siblings the moment both are complete.
///
/// At most `floor(log2 n) + 1` sums are alive at once for a range of `n` leaves that is itself a
/// node, about `2·log2 n` for any other. Buffers of sums that were merged away are kept for
/// [`Stack::take_buffer`], also from one use of the stack to the next.
#[derive(Debug)]
pub struct Stack {
    layout: Layout,
    virtual_nodes: usize,
    range: Range<usize>,
    next: usize,
    entries: Vec<Node>,
    pool: Vec<Partial>,
    peak: usize,
}

impl Stack {
    /// An empty stack for the virtual nodes `range` of `0..virtual_nodes`.
    ///
    /// # Errors
    /// [`PlanError::Outside`] if `range` does not lie within `0..virtual_nodes`.
    pub fn new(
        layout: &Layout,
        virtual_nodes: usize,
        range: Range<usize>,
    ) -> Result<Self, PlanError> {
        if range.start > range.end || range.end > virtual_nodes {
            return Err(PlanError::Outside {
                range,
                virtual_nodes,
            });
        }
        Ok(Self {
            layout: layout.clone(),
            virtual_nodes,
            next: range.start,
            range,
            entries: Vec::new(),
            pool: Vec::new(),
            peak: 0,
        })
    }

    /// A cleared buffer for the next part, from the pool if it has one.
    pub fn take_buffer(&mut self) -> Partial {
        match self.pool.pop() {
            Some(mut buffer) => {
                buffer.clear();
                buffer
            }
            None => Partial::empty(&self.layout),
        }
    }

    /// Gives a buffer back to the pool. One of another layout is dropped.
    pub fn recycle(&mut self, buffer: Partial) {
        if *buffer.layout() == self.layout {
            self.pool.push(buffer);
        }
    }

    /// Adds the contribution of virtual node `vn`; `None` if it has none (no samples).
    ///
    /// # Errors
    /// As [`Stack::push`].
    pub fn push_leaf(&mut self, vn: usize, leaf: Option<Partial>) -> Result<(), PlanError> {
        self.push(vn..vn.saturating_add(1), leaf)
    }

    /// Adds the sum of a node of the tree.
    ///
    /// # Errors
    /// A node that does not start where the one before it ended, or reaches beyond the range; a
    /// range that is no node; a sum of another layout. Then the stack is as it was.
    pub fn push(&mut self, node: Range<usize>, sum: Option<Partial>) -> Result<(), PlanError> {
        self.check(&node, sum.as_ref())?;
        self.next = node.end;
        self.entries.push((node, sum));
        let alive = self.entries.iter().filter(|(_, sum)| sum.is_some()).count();
        self.peak = self.peak.max(alive);
        while self.merge_top()? {}
        Ok(())
    }

    fn check(&self, node: &Range<usize>, sum: Option<&Partial>) -> Result<(), PlanError> {
        if node.start != self.next || node.end > self.range.end {
            return Err(PlanError::OutOfOrder {
                expected: self.next,
                got: node.clone(),
                range: self.range.clone(),
            });
        }
        if !tree::is_node(self.virtual_nodes, node) {
            return Err(PlanError::NotANode {
                range: node.clone(),
                virtual_nodes: self.virtual_nodes,
            });
        }
        match sum.map(Partial::layout) {
            Some(layout) if *layout != self.layout => Err(PlanError::LayoutMismatch {
                expected: Box::new(self.layout.clone()),
                got: Box::new(layout.clone()),
            }),
            _ => Ok(()),
        }
    }

    /// Merges the two topmost nodes if they are siblings. A right child on top always finds its
    /// left sibling, whole, just below it, unless that reaches out of the range.
    fn merge_top(&mut self) -> Result<bool, PlanError> {
        let [.., (left, _), (right, _)] = &self.entries[..] else {
            return Ok(false);
        };
        if tree::sibling(self.virtual_nodes, right).as_ref() != Some(left) {
            return Ok(false);
        }
        if let (Some((right, sum)), Some((node, left))) =
            (self.entries.pop(), self.entries.last_mut())
        {
            node.end = right.end;
            self.pool.extend(merge(left, sum)?);
        }
        Ok(true)
    }

    /// The maximal subtrees of the range, in order. The stack is then ready for the first part
    /// again.
    ///
    /// # Errors
    /// [`PlanError::Missing`] if parts have yet to come; the stack goes on waiting for them.
    pub fn finish(&mut self) -> Result<Vec<Node>, PlanError> {
        if self.next != self.range.end {
            return Err(PlanError::Missing {
                expected: self.next,
                range: self.range.clone(),
            });
        }
        self.next = self.range.start;
        Ok(std::mem::take(&mut self.entries))
    }

    /// Forgets what has arrived and waits for the first part again.
    pub fn reset(&mut self) {
        self.next = self.range.start;
        let sums = self.entries.drain(..).filter_map(|(_, sum)| sum);
        self.pool.extend(sums);
    }

    /// The largest number of sums that were alive at once, the arriving one included.
    pub fn peak(&self) -> usize {
        self.peak
    }
}

/// Adds the right child to the left one; a node with one present child is that child. Returns the
/// buffer that is no longer needed.
fn merge(left: &mut Option<Partial>, right: Option<Partial>) -> Result<Option<Partial>, PlanError> {
    match (left.as_mut(), right) {
        (_, None) => Ok(None),
        (None, right) => {
            *left = right;
            Ok(None)
        }
        (Some(left), Some(right)) => {
            left.add(&right)?;
            Ok(Some(right))
        }
    }
}

/// The root of the tree from nodes that cover `0..virtual_nodes` in order, as the stacks of all
/// ranks gave them. Absent segments of the result hold zeros; `None` if no virtual node
/// contributed.
///
/// # Errors
/// Nodes that overlap, leave a gap or end early; ranges that are no nodes; sums of another layout.
pub fn evaluate(
    layout: &Layout,
    virtual_nodes: usize,
    nodes: Vec<Node>,
) -> Result<Option<Partial>, PlanError> {
    let mut stack = Stack::new(layout, virtual_nodes, 0..virtual_nodes)?;
    for (node, sum) in nodes {
        stack.push(node, sum)?;
    }
    let mut root = stack.finish()?.pop().and_then(|(_, sum)| sum);
    if let Some(root) = &mut root {
        root.zero_absent();
    }
    Ok(root)
}
