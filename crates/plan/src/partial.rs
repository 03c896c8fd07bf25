//! What a node of the tree carries.

use crate::{Bits, Layout, PlanError, kernel};

/// A sum over a range of virtual nodes: f32 values in one flat vector, for each segment whether
/// any of those virtual nodes touched it, and the f64 sums and flags beside it.
///
/// The values of an absent segment mean nothing until [`Partial::zero_absent`] is called.
#[derive(Clone, Debug)]
pub struct Partial {
    layout: Layout,
    values: Vec<f32>,
    present: Bits,
    sums: Vec<f64>,
    flags: Bits,
}

impl Partial {
    /// No segment present, all sums 0, no flag set.
    pub fn empty(layout: &Layout) -> Self {
        Self {
            layout: layout.clone(),
            values: vec![0.0; layout.elements()],
            present: Bits::new(layout.segments()),
            sums: vec![0.0; layout.sums()],
            flags: Bits::new(layout.flags()),
        }
    }

    /// Back to [`Partial::empty`], for another use of the buffer. Old values stay in memory, of
    /// segments that are now absent.
    pub fn clear(&mut self) {
        self.present.clear();
        self.sums.fill(0.0);
        self.flags.clear();
    }

    /// Copies `values` into segment `index` and marks it present.
    ///
    /// # Errors
    /// [`PlanError::NoSegment`], or [`PlanError::SegmentLength`] if the lengths differ.
    pub fn set_segment(&mut self, index: usize, values: &[f32]) -> Result<(), PlanError> {
        let segment = self.segment_mut(index)?;
        if segment.len() != values.len() {
            let (expected, got) = (segment.len(), values.len());
            return Err(PlanError::SegmentLength {
                segment: index,
                expected,
                got,
            });
        }
        segment.copy_from_slice(values);
        self.present.set(index);
        Ok(())
    }

    fn segment_mut(&mut self, index: usize) -> Result<&mut [f32], PlanError> {
        let segments = self.layout.segments();
        if index >= segments {
            return Err(PlanError::NoSegment {
                segment: index,
                segments,
            });
        }
        Ok(&mut self.values[self.layout.segment(index)])
    }

    /// The values of segment `index`, if it is present.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn segment(&self, index: usize) -> Option<&[f32]> {
        let range = self.layout.segment(index);
        self.present.get(index).then(|| &self.values[range])
    }

    /// Adds `other`, the right child, to `self`, the left child. Absent is not zero: a segment
    /// present on one side only is copied from that side, bit for bit.
    ///
    /// # Errors
    /// [`PlanError::LayoutMismatch`]; then nothing was added.
    pub fn add(&mut self, other: &Partial) -> Result<(), PlanError> {
        if self.layout != other.layout {
            return Err(PlanError::LayoutMismatch {
                expected: Box::new(self.layout.clone()),
                got: Box::new(other.layout.clone()),
            });
        }
        self.add_values(0, &other.present, &other.values);
        self.add_beside(other);
        Ok(())
    }

    /// The part of [`Partial::add`] that concerns values, for a right child that comes stretch by
    /// stretch: `values` lie at `start` of its flat vector, and `present` says which of its segments
    /// are. Once all have come, [`Partial::add_beside`] adds the rest.
    ///
    /// # Panics
    /// If the stretch reaches beyond the flat vector.
    pub fn add_values(&mut self, start: usize, present: &Bits, values: &[f32]) {
        let left = &mut self.values[start..start + values.len()];
        add_stretch(&self.layout, start, left, &self.present, values, present);
    }

    /// The part of [`Partial::add`] that concerns what lies beside the values: presence, sums and
    /// flags. `other` has as many of them; its values don't matter.
    pub fn add_beside(&mut self, other: &Partial) {
        self.present.or(&other.present);
        kernel::add_assign_f64(&mut self.sums, &other.sums);
        self.flags.or(&other.flags);
    }

    /// Sets the values of absent segments to 0, so that whole-vector computations (norm,
    /// finiteness) see no left-overs. Presence stays as it is.
    pub fn zero_absent(&mut self) {
        for index in 0..self.layout.segments() {
            if !self.present.get(index) {
                self.values[self.layout.segment(index)].fill(0.0);
            }
        }
    }

    /// Whether both are the same sum to the last bit: presence, values of what is present, sums
    /// and flags.
    pub fn same_bits(&self, other: &Partial) -> bool {
        let values = |partial: &Partial| {
            let present = |index| Some(partial.segment(index)?.iter().map(|value| value.to_bits()));
            let segments = (0..partial.layout.segments()).filter_map(present);
            segments.flatten().collect::<Vec<u32>>()
        };
        let sums = |partial: &Partial| -> Vec<u64> {
            partial.sums.iter().map(|sum| sum.to_bits()).collect()
        };
        self.layout == other.layout
            && self.present == other.present
            && self.flags == other.flags
            && sums(self) == sums(other)
            && values(self) == values(other)
    }

    /// The layout of the sum.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All values, segment after segment.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// All values, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Layout, presence, and all values to be changed in place: one stretch of them may be in use while
    /// [`add_stretch`] adds to another.
    pub fn parts_mut(&mut self) -> (&Layout, &Bits, &mut [f32]) {
        (&self.layout, &self.present, &mut self.values)
    }

    /// Which segments are present.
    pub fn present(&self) -> &Bits {
        &self.present
    }

    /// Which segments are present, to be changed in place.
    pub fn present_mut(&mut self) -> &mut Bits {
        &mut self.present
    }

    /// The f64 sums.
    pub fn sums(&self) -> &[f64] {
        &self.sums
    }

    /// The f64 sums, to be changed in place.
    pub fn sums_mut(&mut self) -> &mut [f64] {
        &mut self.sums
    }

    /// The flags; a sum's flag is set where any of its parts' is.
    pub fn flags(&self) -> &Bits {
        &self.flags
    }

    /// The flags, to be changed in place.
    pub fn flags_mut(&mut self) -> &mut Bits {
        &mut self.flags
    }
}

/// Adds the right child to the left one over a stretch of the flat vector that begins at `start`;
/// what [`Partial::add`] does to values that need not lie in a [`Partial`]. Absent is not zero: where
/// a segment is present on one side only, it is copied from that side.
///
/// # Panics
/// If the two stretches differ in length.
pub fn add_stretch(
    layout: &Layout,
    start: usize,
    left: &mut [f32],
    left_present: &Bits,
    right: &[f32],
    right_present: &Bits,
) {
    assert_eq!(left.len(), right.len(), "stretches of two lengths");
    let stretch = start..start + right.len();
    for index in layout.segments_in(&stretch) {
        if !right_present.get(index) {
            continue;
        }
        let segment = layout.segment(index);
        let part = segment.start.max(start) - start..segment.end.min(stretch.end) - start;
        let (left, right) = (&mut left[part.clone()], &right[part]);
        if left_present.get(index) {
            kernel::add_assign(left, right);
        } else {
            left.copy_from_slice(right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(layout: &Layout, segments: &[Option<&[f32]>]) -> Partial {
        let mut partial = Partial::empty(layout);
        for (index, values) in segments.iter().enumerate() {
            if let Some(values) = values {
                partial.set_segment(index, values).unwrap();
            }
        }
        partial
    }

    #[test]
    fn absent_segment_is_no_zero_when_added() {
        let layout = Layout::new([1, 1, 1, 1], 0, 0);
        let mut left = partial(&layout, &[Some(&[1.0]), Some(&[-0.0]), None, None]);
        let right = partial(&layout, &[Some(&[2.0]), None, Some(&[-0.0]), None]);
        left.add(&right).unwrap();
        assert_eq!(left.segment(0), Some(&[3.0][..]));
        assert_eq!(left.segment(1).unwrap()[0].to_bits(), (-0.0_f32).to_bits());
        assert_eq!(left.segment(2).unwrap()[0].to_bits(), (-0.0_f32).to_bits());
        assert_eq!(left.segment(3), None);
    }

    #[test]
    fn sum_is_the_same_in_whatever_stretches_it_comes() {
        let layout = Layout::new([2, 0, 3, 1, 2], 1, 1);
        let left = partial(
            &layout,
            &[Some(&[1.0, 2.0]), None, Some(&[3.0; 3]), None, None],
        );
        let right = [
            Some(&[4.0, 5.0][..]),
            Some(&[]),
            None,
            Some(&[-0.0]),
            Some(&[6.0, 7.0]),
        ];
        let mut right = partial(&layout, &right);
        right.sums_mut()[0] = 8.0;
        right.flags_mut().set(0);
        let mut whole = left.clone();
        whole.add(&right).unwrap();
        for cut in 0..=8 {
            let mut sum = left.clone();
            for stretch in [0..cut, cut..8] {
                sum.add_values(stretch.start, right.present(), &right.values()[stretch]);
            }
            sum.add_beside(&right);
            assert!(sum.same_bits(&whole), "cut at {cut}");
        }
    }

    #[test]
    fn sums_and_flags_travel_when_added() {
        let layout = Layout::new([], 2, 3);
        let (mut left, mut right) = (Partial::empty(&layout), Partial::empty(&layout));
        left.sums_mut().copy_from_slice(&[1.5, 1e300]);
        right.sums_mut().copy_from_slice(&[2.5, 1.0]);
        right.flags_mut().set(2);
        left.add(&right).unwrap();
        assert_eq!(left.sums(), [4.0, 1e300]);
        assert_eq!(left.flags().as_words(), [0b100]);
    }

    #[test]
    fn old_values_are_gone_when_a_cleared_buffer_is_used() {
        let layout = Layout::new([2, 0, 1], 1, 1);
        let mut buffer = partial(&layout, &[Some(&[7.0, 7.0]), Some(&[]), Some(&[f32::NAN])]);
        buffer.sums_mut()[0] = 7.0;
        buffer.flags_mut().set(0);
        buffer.clear();
        assert!(buffer.same_bits(&Partial::empty(&layout)));
        buffer.zero_absent();
        assert_eq!(buffer.values(), [0.0; 3]);
    }

    #[test]
    fn segment_refused_when_it_does_not_fit() {
        let mut partial = Partial::empty(&Layout::new([2], 0, 0));
        let error = partial.set_segment(0, &[1.0]).unwrap_err();
        assert_eq!(error.to_string(), "segment 0 has 2 elements, got 1");
        let error = partial.set_segment(1, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "segment 1 does not exist: the layout has 1"
        );
        assert_eq!(partial.present().count(), 0);
    }

    #[test]
    fn sums_of_two_layouts_are_refused_when_sizes_agree() {
        let shape = Layout::new([12], 0, 0).with_identity(26);
        let other = Layout::new([12], 0, 0).with_identity(34);
        let error = Partial::empty(&shape).add(&Partial::empty(&other));
        assert!(matches!(error, Err(PlanError::LayoutMismatch { .. })));
    }

    #[test]
    fn bits_differ_when_only_a_sign_or_presence_does() {
        let layout = Layout::new([1], 0, 0);
        let zero = partial(&layout, &[Some(&[0.0])]);
        let nan = partial(&layout, &[Some(&[f32::NAN])]);
        assert!(nan.same_bits(&nan.clone()));
        assert!(!zero.same_bits(&partial(&layout, &[Some(&[-0.0])])));
        assert!(!zero.same_bits(&partial(&layout, &[None])));
    }
}
