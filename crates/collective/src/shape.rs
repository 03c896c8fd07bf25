//! The shape of a tensor whose elements are a vector.

use std::fmt;

/// Sizes of the dimensions of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape(Vec<u64>);

impl Shape {
    pub(crate) fn new(sizes: &[usize]) -> Self {
        Self(sizes.iter().map(|&size| size as u64).collect())
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.0.len()
    }

    /// Number of elements; `None` if that is beyond 64 bits.
    pub(crate) fn elements(&self) -> Option<u64> {
        if self.0.contains(&0) {
            return Some(0); // however large the others are
        }
        let product = |product: u64, size: &u64| product.checked_mul(*size);
        self.0.iter().try_fold(1, product)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.0.iter().flat_map(|size| size.to_le_bytes()));
    }

    /// Reads the sizes of so many dimensions, and returns them with the bytes that follow.
    pub(crate) fn decode(dimensions: u64, bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let (words, _) = bytes.as_chunks::<8>();
        let sizes = usize::try_from(dimensions)
            .ok()
            .and_then(|dimensions| words.get(..dimensions))
            .ok_or_else(|| {
                let got = bytes.len();
                format!("expected a shape of {dimensions} dimensions, got {got} bytes")
            })?;
        let shape = sizes.iter().map(|word| u64::from_le_bytes(*word));
        Ok((Self(shape.collect()), &bytes[size_of_val(sizes)..]))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_round_trips_and_leaves_the_rest() {
        for sizes in [&[][..], &[5], &[2, 0, 6]] {
            let (shape, mut bytes) = (Shape::new(sizes), vec![]);
            shape.encode(&mut bytes);
            bytes.extend_from_slice(b"rest");
            let decoded = Shape::decode(sizes.len() as u64, &bytes);
            assert_eq!(decoded, Ok((shape, &b"rest"[..])));
        }
    }

    #[test]
    fn decode_refused_when_there_are_fewer_bytes() {
        for (dimensions, bytes) in [(1, 7), (2, 15), (1 << 61, 8), (u64::MAX, 8)] {
            assert!(Shape::decode(dimensions, &vec![0; bytes]).is_err());
        }
    }

    #[test]
    fn elements_are_the_product_of_sizes() {
        let elements = |sizes: &[usize]| Shape::new(sizes).elements();
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[2, 6]), Some(12));
        assert_eq!(elements(&[usize::MAX, 2]), None);
        assert_eq!(elements(&[usize::MAX, 2, 0]), Some(0));
    }
}
