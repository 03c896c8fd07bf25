//! How a stretch of a vector is cut into messages.

use std::ops::Range;

/// Bytes of values in one message, about. Large enough that what a message costs beside its bytes
/// does not count, small enough that a few of them stay in a core's cache between the rank that
/// writes and the rank that adds.
const BYTES: usize = 256 << 10;

/// The most messages that a stretch is cut into; a longer one is cut into larger pieces. Keeps the
/// number of messages of a call far below the 32 bits of a tag.
const MOST: usize = 1 << 12;

/// Pieces of stretches, at least one each. All stretches of a call are cut alike, so that ranks count
/// their messages alike; the last pieces of a shorter one are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    count: usize,
    elements: usize,
}

impl Pieces {
    /// For stretches of at most `longest` elements, of `size` bytes each.
    pub(crate) fn new(longest: usize, size: usize) -> Self {
        let most = longest.div_ceil((BYTES / size.max(1)).max(1));
        let elements = longest.div_ceil(most.clamp(1, MOST));
        Self {
            count: longest.div_ceil(elements.max(1)).max(1),
            elements,
        }
    }

    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// Piece `index` of a stretch, as a range of the vector.
    pub(crate) fn range(self, stretch: &Range<usize>, index: usize) -> Range<usize> {
        let bound = |index| stretch.end.min(stretch.start + index * self.elements);
        bound(index)..bound(index + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pieces: Pieces, stretch: Range<usize>) -> Vec<Range<usize>> {
        let range = |index| pieces.range(&stretch, index);
        (0..pieces.count()).map(range).collect()
    }

    #[test]
    fn stretch_is_one_piece_when_it_is_short() {
        for elements in [0, 1, 7, BYTES / 4] {
            let pieces = Pieces::new(elements, 4);
            assert_eq!(pieces.count(), 1);
            assert_eq!(pieces.range(&(5..5 + elements), 0), 5..5 + elements);
        }
        let pieces = Pieces::new(BYTES / 4 + 2, 4);
        let middle = BYTES / 8 + 1;
        assert_eq!(
            ranges(pieces, 0..2 * middle),
            [0..middle, middle..2 * middle]
        );
    }

    #[test]
    fn last_pieces_are_empty_when_another_stretch_is_longer() {
        let pieces = Pieces::new(3 * BYTES, 1);
        assert_eq!(ranges(pieces, 4..6), [4..6, 6..6, 6..6]);
    }

    #[test]
    fn pieces_cover_a_stretch_whose_offsets_exceed_32_bits_case_23() {
        let stretch = 3_000_000_001..8_000_000_004;
        let pieces = Pieces::new(stretch.len(), 8);
        assert!(pieces.count() <= MOST);
        let ranges = ranges(pieces, stretch.clone());
        assert_eq!(ranges[0].start, stretch.start);
        assert_eq!(ranges[ranges.len() - 1].end, stretch.end);
        assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
        assert!(ranges.iter().all(|piece| !piece.is_empty()));
    }
}
