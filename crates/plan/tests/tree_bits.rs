//! The promise of the tree: one value, to the last bit, however the virtual nodes are cut into
//! ranks. All placements are tried, for every number of virtual nodes up to 16.
#![allow(clippy::unwrap_used)] // helpers of tests, outside the test functions themselves

use std::ops::Range;

use burn_virtual_plan::{Layout, Node, Partial, Placement, PlanError, Stack, evaluate, tree};

/// Lengths with a 0 among them.
fn layout() -> Layout {
    Layout::new([2, 0, 3, 1], 2, 2)
}

/// A small linear congruential generator (Knuth's MMIX constants), high bits only.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    /// True about one time in `n`.
    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// Magnitudes from 2^-20 to 2^20, both signs: any other association gives other bits.
    fn value(&mut self) -> f32 {
        let sign = if self.one_in(2) { -1.0 } else { 1.0 };
        let exponent = (self.next() % 41) as i32 - 20;
        sign * (1.0 + (self.next() % 8192) as f32 / 8192.0) * 2.0_f32.powi(exponent)
    }

    fn leaf(&mut self, layout: &Layout) -> Option<Partial> {
        if self.one_in(6) {
            return None;
        }
        let mut leaf = Partial::empty(layout);
        for segment in 0..layout.segments() {
            let values: Vec<f32> = layout.segment(segment).map(|_| self.value()).collect();
            if !self.one_in(3) {
                leaf.set_segment(segment, &values).unwrap();
            }
        }
        leaf.sums_mut().fill_with(|| f64::from(self.value()) / 3.0);
        (0..layout.flags())
            .filter(|_| self.one_in(4))
            .for_each(|flag| leaf.flags_mut().set(flag));
        Some(leaf)
    }
}

/// The definition, word for word.
fn recursive(leaves: &[Option<Partial>]) -> Option<Partial> {
    if let [leaf] = leaves {
        return leaf.clone();
    }
    let (left, right) = leaves.split_at(tree::split_point(leaves.len()));
    match (recursive(left), recursive(right)) {
        (Some(mut left), Some(right)) => {
            left.add(&right).unwrap();
            Some(left)
        }
        (left, right) => left.or(right),
    }
}

fn rank_nodes(layout: &Layout, leaves: &[Option<Partial>], range: Range<usize>) -> Vec<Node> {
    let mut stack = Stack::new(layout, leaves.len(), range.clone()).unwrap();
    for vn in range.clone() {
        stack.push_leaf(vn, leaves[vn].clone()).unwrap();
    }
    let nodes = stack.finish().unwrap();
    let ranges: Vec<_> = nodes.iter().map(|(range, _)| range.clone()).collect();
    assert_eq!(ranges, tree::maximal_subtrees(leaves.len(), range));
    nodes
}

/// Every way to cut `virtual_nodes` into contiguous shares: bit i of `cuts` cuts after leaf i.
fn placement(virtual_nodes: usize, cuts: u32) -> Placement {
    let ends = (1..virtual_nodes).filter(|end| cuts & (1 << (end - 1)) != 0);
    let mut counts = Vec::new();
    let mut start = 0;
    for end in ends.chain([virtual_nodes]) {
        counts.push(end - start);
        start = end;
    }
    Placement::explicit(virtual_nodes, &counts).unwrap()
}

fn same(left: &Option<Partial>, right: &Option<Partial>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => left.same_bits(right),
        (left, right) => left.is_none() && right.is_none(),
    }
}

#[test]
fn bits_are_equal_for_every_placement_up_to_16_virtual_nodes() {
    let layout = layout();
    for virtual_nodes in 1..=16 {
        let mut random = Lcg(virtual_nodes as u64);
        let leaves: Vec<_> = (0..virtual_nodes).map(|_| random.leaf(&layout)).collect();
        let expected = recursive(&leaves);
        for cuts in 0..1 << (virtual_nodes - 1) {
            let placement = placement(virtual_nodes, cuts);
            let shares = placement.shares();
            let nodes = shares
                .flat_map(|range| rank_nodes(&layout, &leaves, range))
                .collect();
            let root = evaluate(&layout, virtual_nodes, nodes).unwrap();
            assert!(same(&root, &expected), "{placement}");
        }
    }
}

#[test]
fn bits_are_equal_for_many_draws_of_values_and_presence() {
    let layout = layout();
    for seed in 0..200 {
        let mut random = Lcg(seed);
        let virtual_nodes = 1 + random.next() as usize % 40;
        let leaves: Vec<_> = (0..virtual_nodes).map(|_| random.leaf(&layout)).collect();
        let counts = random.next() as usize % virtual_nodes + 1;
        let placement = Placement::even(virtual_nodes, counts).unwrap();
        let shares = placement.shares();
        let nodes = shares
            .flat_map(|range| rank_nodes(&layout, &leaves, range))
            .collect();
        let root = evaluate(&layout, virtual_nodes, nodes).unwrap();
        assert!(same(&root, &recursive(&leaves)), "seed {seed}, {placement}");
    }
}

#[test]
fn slices_give_the_bits_of_the_whole_wherever_the_vector_is_cut() {
    let layout = layout();
    let mut random = Lcg(5);
    let leaves: Vec<_> = (0..7).map(|_| random.leaf(&layout)).collect();
    let whole = recursive(&leaves).map(|mut root| {
        root.zero_absent();
        root
    });
    for cut in 0..=layout.elements() {
        for range in [0..cut, cut..layout.elements()] {
            let slice_layout = layout.slice(range.clone());
            let slice = |leaf: &Partial| {
                let mut slice = Partial::empty(&slice_layout);
                slice
                    .values_mut()
                    .copy_from_slice(&leaf.values()[range.clone()]);
                *slice.present_mut() = leaf.present().clone();
                slice.sums_mut().copy_from_slice(leaf.sums());
                *slice.flags_mut() = leaf.flags().clone();
                slice
            };
            let leaves = leaves.iter().enumerate();
            let nodes = leaves.map(|(vn, leaf)| (vn..vn + 1, leaf.as_ref().map(slice)));
            let root = evaluate(&slice_layout, 7, nodes.collect()).unwrap();
            assert!(same(&root, &whole.as_ref().map(slice)));
        }
    }
}

#[test]
fn nothing_is_the_result_when_all_virtual_nodes_are_empty() {
    let nodes = (0..5).map(|vn| (vn..vn + 1, None)).collect();
    assert!(evaluate(&layout(), 5, nodes).unwrap().is_none());
}

#[test]
fn small_terms_survive_along_the_tree_case_11() {
    let layout = Layout::new([1], 0, 0);
    let leaf = |value: f32| {
        let mut leaf = Partial::empty(&layout);
        leaf.set_segment(0, &[value]).unwrap();
        Some(leaf)
    };
    let values = [1.0].into_iter().chain([2.0_f32.powi(-9); 8]);
    let nodes = values
        .enumerate()
        .map(|(vn, value)| (vn..vn + 1, leaf(value)))
        .collect();
    let root = evaluate(&layout, 9, nodes).unwrap().unwrap();
    assert_eq!(root.segment(0), Some(&[1.015625][..]));
}

#[test]
fn peak_is_within_its_bound_for_every_range() {
    let layout = Layout::new([], 0, 0);
    for virtual_nodes in 1..=33 {
        for start in 0..virtual_nodes {
            for end in start + 1..=virtual_nodes {
                let mut stack = Stack::new(&layout, virtual_nodes, start..end).unwrap();
                for vn in start..end {
                    let leaf = stack.take_buffer();
                    stack.push_leaf(vn, Some(leaf)).unwrap();
                }
                let log = (end - start).ilog2() as usize;
                let node = tree::is_node(virtual_nodes, &(start..end));
                let bound = if node { log + 1 } else { 2 * log + 1 };
                assert!(stack.peak() <= bound, "{start}..{end} of {virtual_nodes}");
            }
        }
    }
}

#[test]
fn buffers_are_reused_when_the_stack_is_used_again() {
    let layout = Layout::new([1000], 0, 0);
    let mut stack = Stack::new(&layout, 8, 0..8).unwrap();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3 {
        for vn in 0..8 {
            let leaf = stack.take_buffer();
            seen.insert(leaf.values().as_ptr());
            stack.push_leaf(vn, Some(leaf)).unwrap();
        }
        let nodes = stack.finish().unwrap();
        nodes
            .into_iter()
            .filter_map(|(_, sum)| sum)
            .for_each(|sum| stack.recycle(sum));
    }
    assert_eq!(stack.peak(), 4);
    assert_eq!(seen.len(), 4);
}

#[test]
fn push_refused_when_order_range_or_layout_is_wrong() {
    let layout = Layout::new([1], 0, 0);
    let mut stack = Stack::new(&layout, 8, 2..6).unwrap();
    let out_of_order = |got: Range<usize>| {
        let (expected, range) = (2, 2..6);
        Err(PlanError::OutOfOrder {
            expected,
            got,
            range,
        })
    };
    assert_eq!(stack.push_leaf(3, None), out_of_order(3..4));
    assert_eq!(stack.push(2..8, None), out_of_order(2..8));
    assert_eq!(
        stack.push_leaf(usize::MAX, None),
        out_of_order(usize::MAX..usize::MAX)
    );
    let not_a_node = PlanError::NotANode {
        range: 2..5,
        virtual_nodes: 8,
    };
    assert_eq!(stack.push(2..5, None), Err(not_a_node));
    assert_eq!(
        stack.push(2..2, None),
        Err(PlanError::NotANode {
            range: 2..2,
            virtual_nodes: 8
        })
    );
    let other = Partial::empty(&Layout::new([2], 0, 0));
    let mismatch = stack.push_leaf(2, Some(other));
    assert!(matches!(mismatch, Err(PlanError::LayoutMismatch { .. })));
    assert!(matches!(
        Stack::new(&layout, 8, 7..9),
        Err(PlanError::Outside { .. })
    ));
}

#[test]
fn finish_refused_when_a_leaf_is_missing_and_reset_starts_over() {
    let layout = Layout::new([1], 0, 0);
    let mut stack = Stack::new(&layout, 4, 0..4).unwrap();
    let leaf = stack.take_buffer();
    stack.push_leaf(0, Some(leaf)).unwrap();
    let missing = PlanError::Missing {
        expected: 1,
        range: 0..4,
    };
    assert_eq!(stack.finish().unwrap_err(), missing);
    stack.reset();
    for vn in 0..4 {
        stack.push_leaf(vn, None).unwrap();
    }
    let nodes = stack.finish().unwrap();
    assert!(matches!(&nodes[..], [(range, None)] if *range == (0..4)));
}

#[test]
fn evaluate_refused_when_nodes_do_not_cover() {
    let layout = Layout::new([], 0, 0);
    let refused = |nodes: Vec<Range<usize>>| {
        let nodes = nodes.into_iter().map(|range| (range, None)).collect();
        evaluate(&layout, 4, nodes).is_err()
    };
    assert!(refused(vec![]));
    assert!(refused(vec![0..2, 2..3]));
    assert!(refused(vec![0..2, 3..4]));
    assert!(refused(vec![0..2, 1..2, 2..4]));
    assert!(refused(vec![0..3, 3..4]));
    assert!(!refused(vec![0..2, 2..3, 3..4]));
}
