//! A fixed number of yes-or-no marks, packed as they travel.

/// A set of `len` bits, packed in 64-bit words, lowest bit first. Bits past `len` are always 0,
/// so that equal sets have equal words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    len: usize,
    words: Vec<u64>,
}

impl Bits {
    /// `len` bits, none set.
    pub fn new(len: usize) -> Self {
        Self {
            len,
            words: vec![0; len.div_ceil(64)],
        }
    }

    /// `len` bits read from words as [`Bits::as_words`] gave them; words that lack count as 0,
    /// bits past `len` are dropped.
    pub fn from_words(len: usize, words: impl IntoIterator<Item = u64>) -> Self {
        let mut bits = Self::new(len);
        bits.copy_words(words);
        bits
    }

    /// Replaces all bits, as [`Bits::from_words`] does, without allocating.
    pub fn copy_words(&mut self, words: impl IntoIterator<Item = u64>) {
        self.clear();
        for (word, new) in self.words.iter_mut().zip(words) {
            *word = new;
        }
        let used = self.len % 64;
        if used != 0
            && let Some(last) = self.words.last_mut()
        {
            *last &= (1 << used) - 1;
        }
    }

    /// The words, `len / 64` of them rounded up.
    pub fn as_words(&self) -> &[u64] {
        &self.words
    }

    /// Number of bits, set or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bits at all, set or not.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether bit `index` is set.
    ///
    /// # Panics
    /// If `index` is not below [`Bits::len`].
    pub fn get(&self, index: usize) -> bool {
        self.check(index);
        self.words[index / 64] & (1 << (index % 64)) != 0
    }

    /// Sets bit `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Bits::len`].
    pub fn set(&mut self, index: usize) {
        self.check(index);
        self.words[index / 64] |= 1 << (index % 64);
    }

    /// Sets every bit that is set in `other`. Both have the same length.
    pub fn or(&mut self, other: &Bits) {
        debug_assert_eq!(self.len, other.len, "bits of two lengths");
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Number of bits set.
    pub fn count(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Unsets every bit.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    // The last word may have room for bits that do not exist; indexing would not notice them.
    fn check(&self, index: usize) {
        assert!(index < self.len, "bit {index} of {}", self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_is_set_alone_when_index_crosses_words() {
        for index in [0, 1, 63, 64, 65, 129] {
            let mut bits = Bits::new(130);
            bits.set(index);
            assert_eq!(bits.count(), 1);
            assert!((0..130).all(|other| bits.get(other) == (other == index)));
        }
    }

    #[test]
    fn words_round_trip_when_length_is_not_a_multiple_of_64() {
        let mut bits = Bits::new(70);
        bits.set(3);
        bits.set(69);
        assert_eq!(Bits::from_words(70, bits.as_words().to_vec()), bits);
    }

    #[test]
    fn surplus_bits_are_dropped_when_words_hold_more() {
        assert_eq!(Bits::from_words(3, [u64::MAX, 7]).as_words(), [0b111]);
        assert_eq!(Bits::from_words(0, [u64::MAX]).as_words(), [0; 0]);
        assert_eq!(Bits::from_words(64, []).count(), 0);
    }

    #[test]
    fn or_is_the_union_when_both_have_bits() {
        let mut left = Bits::from_words(3, [0b001]);
        left.or(&Bits::from_words(3, [0b101]));
        assert_eq!(left.as_words(), [0b101]);
    }

    #[test]
    #[should_panic(expected = "bit 3 of 3")]
    fn get_panics_when_index_is_past_the_end() {
        Bits::new(3).get(3);
    }
}
