//! Where each parameter lies in the flat vector.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::fingerprint::fingerprint;

/// How the contribution of a virtual node is laid out: one segment of f32 elements for each
/// parameter, end to end in one flat vector, and beside it a number of f64 sums (loss, weight,
/// statistics) and of flags. A segment may have length 0.
///
/// Cheap to clone: the offsets are shared.
///
/// ```
/// use burn_virtual_plan::Layout;
///
/// let layout = Layout::new([6, 0, 4], 2, 1);
/// assert_eq!((layout.segments(), layout.elements()), (3, 10));
/// assert_eq!(layout.segment(2), 6..10);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    // Segment i occupies offsets[i]..offsets[i + 1]; one entry more than there are segments.
    offsets: Arc<[usize]>,
    sums: usize,
    flags: usize,
    identity: u64,
}

impl Layout {
    /// Segments of the given lengths (in elements), `sums` f64 sums and `flags` flags.
    pub fn new(
        segment_lengths: impl IntoIterator<Item = usize>,
        sums: usize,
        flags: usize,
    ) -> Self {
        let ends = segment_lengths.into_iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        Self {
            offsets: std::iter::once(0).chain(ends).collect(),
            sums,
            flags,
            identity: 0,
        }
    }

    /// Marks the layout with a hash of what its segments are (names, shapes, element types), so
    /// that two of equal lengths, say `[2, 6]` and `[3, 4]`, do not pass for one another.
    pub fn with_identity(self, identity: u64) -> Self {
        Self { identity, ..self }
    }

    /// The part of this layout that lies in `range` of the flat vector: as many segments, each cut
    /// to what lies inside (often nothing), and all sums and flags. A slice of a sum is itself a
    /// sum, over this layout.
    pub fn slice(&self, range: Range<usize>) -> Self {
        let end = range.end.min(self.elements());
        let start = range.start.min(end);
        let cut = |offset: &usize| (*offset).clamp(start, end) - start;
        Self {
            offsets: self.offsets.iter().map(cut).collect(),
            ..*self
        }
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of f32 elements in all segments together.
    pub fn elements(&self) -> usize {
        self.offsets[self.segments()]
    }

    /// Where segment `index` lies in the flat vector, in elements.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn segment(&self, index: usize) -> Range<usize> {
        self.offsets[index]..self.offsets[index + 1]
    }

    /// The segments that have elements in `range` of the flat vector; those of length 0 between
    /// them count among them.
    pub fn segments_in(&self, range: &Range<usize>) -> Range<usize> {
        let end = range.end.min(self.elements());
        let (starts, ends) = (&self.offsets[..self.segments()], &self.offsets[1..]);
        let first = ends.partition_point(|&offset| offset <= range.start);
        let last = starts.partition_point(|&offset| offset < end);
        if range.start < end { first..last } else { 0..0 }
    }

    /// Number of f64 sums.
    pub fn sums(&self) -> usize {
        self.sums
    }

    /// Number of flags.
    pub fn flags(&self) -> usize {
        self.flags
    }

    /// A number that is equal, on every machine, for equal layouts only (but for chance).
    pub fn fingerprint(&self) -> u64 {
        let offsets = self.offsets.iter().map(|&offset| offset as u64);
        let rest = [self.sums as u64, self.flags as u64, self.identity];
        fingerprint(rest.into_iter().chain(offsets))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} elements in {} segments, {} sums, {} flags ({:016x})",
            self.elements(),
            self.segments(),
            self.sums,
            self.flags,
            self.fingerprint(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_add_up_when_cut_anywhere() {
        let layout = Layout::new([3, 0, 5, 1], 2, 1);
        for cut in 0..=9 {
            let (left, right) = (layout.slice(0..cut), layout.slice(cut..9));
            assert_eq!(left.segments(), 4);
            assert_eq!(left.elements() + right.elements(), 9);
            for segment in 0..4 {
                let lengths = left.segment(segment).len() + right.segment(segment).len();
                assert_eq!(lengths, layout.segment(segment).len());
            }
        }
        assert_eq!(layout.slice(0..9), layout);
        assert_eq!(layout.slice(8..100).elements(), 1);
        assert_eq!(layout.slice(50..100).elements(), 0);
    }

    #[test]
    fn segments_in_a_range_are_those_that_have_elements_there() {
        let layout = Layout::new([0, 3, 0, 0, 5, 1, 0], 0, 0);
        for start in 0..=10 {
            for end in start..=11 {
                let inside = |index: &usize| {
                    let segment = layout.segment(*index);
                    segment.start.max(start) < segment.end.min(end)
                };
                let right: Vec<usize> = (0..7).filter(inside).collect();
                let mut found = layout.segments_in(&(start..end));
                assert_eq!(found.clone().next(), right.first().copied());
                assert_eq!(found.next_back(), right.last().copied());
            }
        }
        assert_eq!(Layout::new([], 0, 0).segments_in(&(0..4)), 0..0);
    }

    #[test]
    fn fingerprints_differ_when_anything_differs() {
        let layouts = [
            Layout::new([12], 0, 0),
            Layout::new([12, 0], 0, 0),
            Layout::new([6, 6], 0, 0),
            Layout::new([12], 1, 0),
            Layout::new([12], 0, 1),
            Layout::new([12], 0, 0).with_identity(1),
            Layout::new([], 0, 0),
        ];
        for (i, left) in layouts.iter().enumerate() {
            for right in &layouts[i + 1..] {
                assert_ne!(left.fingerprint(), right.fingerprint());
                assert_ne!(left, right);
            }
        }
    }
}
