#![doc = include_str!("README.md")]

use std::ops::Range;

/// The size of the left child of a node of `n` leaves: the largest power of two below `n`.
/// 0 for `n < 2`, which does not split.
pub fn split_point(n: usize) -> usize {
    if n < 2 { 0 } else { 1 << (n - 1).ilog2() }
}

/// The two children of a node; `None` for a leaf (or an empty range).
pub fn children(node: &Range<usize>) -> Option<(Range<usize>, Range<usize>)> {
    let split = node.start + split_point(node.len());
    (node.len() > 1).then_some((node.start..split, split..node.end))
}

/// Whether `range` is a node of the tree over `0..virtual_nodes`.
pub fn is_node(virtual_nodes: usize, range: &Range<usize>) -> bool {
    let root = 0..virtual_nodes;
    !range.is_empty() && (*range == root || parent(virtual_nodes, range).is_some())
}

/// The node whose child `node` is; `None` for the root, and for a range that is no node.
pub fn parent(virtual_nodes: usize, node: &Range<usize>) -> Option<Range<usize>> {
    let mut above = 0..virtual_nodes;
    while let Some((left, right)) = children(&above) {
        if *node == left || *node == right {
            return Some(above);
        }
        above = if node.start < right.start {
            left
        } else {
            right
        };
    }
    None
}

/// The other child of `node`'s parent; `None` for the root, and for a range that is no node.
pub fn sibling(virtual_nodes: usize, node: &Range<usize>) -> Option<Range<usize>> {
    let (left, right) = children(&parent(virtual_nodes, node)?)?;
    Some(if *node == left { right } else { left })
}

/// The largest nodes of the tree over `0..virtual_nodes` that lie wholly inside `range`, in order.
/// They cover the part of `range` that exists; at most about `2·log2` of its length.
pub fn maximal_subtrees(virtual_nodes: usize, range: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    collect(0..virtual_nodes, &range, &mut found);
    found
}

fn collect(node: Range<usize>, range: &Range<usize>, found: &mut Vec<Range<usize>>) {
    if node.is_empty() || node.end <= range.start || range.end <= node.start {
        return;
    }
    if range.start <= node.start && node.end <= range.end {
        found.push(node);
    } else if let Some((left, right)) = children(&node) {
        collect(left, range, found);
        collect(right, range, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(node: Range<usize>) -> Vec<Range<usize>> {
        let mut all = vec![node.clone()];
        if let Some((left, right)) = children(&node) {
            all.extend(nodes(left));
            all.extend(nodes(right));
        }
        all
    }

    #[test]
    fn split_is_the_largest_power_of_two_below_n() {
        let splits: Vec<usize> = (0..10).map(split_point).collect();
        assert_eq!(splits, [0, 0, 1, 2, 2, 4, 4, 4, 4, 8]);
        assert_eq!(split_point(usize::MAX), 1 << (usize::BITS - 1));
    }

    #[test]
    fn is_node_agrees_with_the_definition_for_every_range() {
        for virtual_nodes in 0..=33 {
            let all = nodes(0..virtual_nodes);
            for start in 0..=virtual_nodes + 1 {
                for end in start + 1..=virtual_nodes + 2 {
                    let expected = all.contains(&(start..end));
                    assert_eq!(is_node(virtual_nodes, &(start..end)), expected);
                }
            }
        }
        assert!(!is_node(4, &(2..2)));
        assert!(!is_node(0, &(0..0)));
    }

    #[test]
    fn family_is_consistent_for_every_inner_node() {
        for virtual_nodes in 1..=33 {
            assert_eq!(parent(virtual_nodes, &(0..virtual_nodes)), None);
            for node in nodes(0..virtual_nodes) {
                let Some((left, right)) = children(&node) else {
                    continue;
                };
                assert_eq!(parent(virtual_nodes, &left), Some(node.clone()));
                assert_eq!(parent(virtual_nodes, &right), Some(node));
                assert_eq!(sibling(virtual_nodes, &left), Some(right.clone()));
                assert_eq!(sibling(virtual_nodes, &right), Some(left));
            }
        }
    }

    #[test]
    fn maximal_subtrees_are_maximal_and_cover_for_every_range() {
        for virtual_nodes in 1..=33 {
            for start in 0..virtual_nodes {
                for end in start..=virtual_nodes {
                    let found = maximal_subtrees(virtual_nodes, start..end);
                    let covered: Vec<usize> = found.iter().cloned().flatten().collect();
                    assert_eq!(covered, (start..end).collect::<Vec<_>>());
                    let inside = |node: &Range<usize>| start <= node.start && node.end <= end;
                    for node in &found {
                        let above = parent(virtual_nodes, node);
                        assert!(above.is_none_or(|above| !inside(&above)));
                    }
                }
            }
        }
    }
}
