//! The header of every message of a collective.

use burn_virtual_plan::{Layout, Placement};

use crate::shape::Shape;
use crate::{ElementType, Operation, Shares, Work};

const MAGIC: [u8; 4] = *b"BVCM";
const VERSION: u16 = 4;

/// Size of an encoded header.
pub(crate) const BYTES: usize = 96;

/// What a rank takes the call for. Two ranks whose headers differ do not mean the same call.
///
/// On the wire, little-endian, 96 bytes; the transport guards the bytes themselves:
///
/// | offset | bytes | field |
/// |---|---|---|
/// | 0 | 4 | magic `BVCM` |
/// | 4 | 2 | version |
/// | 6 | 1 | operation code |
/// | 7 | 1 | code of the element type, 0 if there is none |
/// | 8 | 88 | eleven numbers of 8 bytes, in the order of the struct |
///
/// A number that an operation does not use is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) operation: Operation,
    /// Type of the elements, where they are the caller's.
    pub(crate) element: Option<ElementType>,
    /// Training step.
    pub(crate) step: u64,
    /// Part of the step's vector.
    pub(crate) bucket: u64,
    /// Samples of the step.
    pub(crate) samples: u64,
    /// Rank whose contents are broadcast.
    pub(crate) root: u64,
    pub(crate) elements: u64,
    pub(crate) segments: u64,
    pub(crate) sums: u64,
    pub(crate) flags: u64,
    /// Fingerprint of the layout, or of the shares.
    pub(crate) layout: u64,
    /// Fingerprint of the placement.
    pub(crate) placement: u64,
    /// One more than the dimensions of the shape that follows the header; 0 if none does.
    pub(crate) dimensions: u64,
}

/// Names of the numbers that are compared, as they appear in errors; shapes are compared instead of the
/// last one.
const FIELDS: [&str; 10] = [
    "step",
    "bucket",
    "number of samples",
    "root",
    "element count",
    "segment count",
    "sum count",
    "flag count",
    "layout fingerprint",
    "placement fingerprint",
];

/// The first difference between two headers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) field: &'static str,
    pub(crate) expected: String,
    pub(crate) got: String,
}

impl Header {
    pub(crate) fn barrier() -> Self {
        Self::from_numbers(Operation::Barrier, None, [0; 11])
    }

    pub(crate) fn gather() -> Self {
        Self::from_numbers(Operation::Gather, None, [0; 11])
    }

    pub(crate) fn broadcast(root: usize) -> Self {
        let root = root as u64;
        Self {
            root,
            ..Self::from_numbers(Operation::Broadcast, None, [0; 11])
        }
    }

    /// A call on a vector of the caller's.
    pub(crate) fn slice(operation: Operation, element: ElementType, elements: usize) -> Self {
        Self {
            elements: elements as u64,
            ..Self::from_numbers(operation, Some(element), [0; 11])
        }
    }

    pub(crate) fn with_root(self, root: usize) -> Self {
        let root = root as u64;
        Self { root, ..self }
    }

    pub(crate) fn with_shares(self, shares: &Shares) -> Self {
        let layout = shares.fingerprint();
        Self { layout, ..self }
    }

    /// Says of which shape the vector is.
    pub(crate) fn with_shape(self, shape: Option<&Shape>) -> Self {
        let dimensions = shape.map_or(0, |shape| shape.dimensions() as u64 + 1);
        Self { dimensions, ..self }
    }

    /// A call on the virtual nodes of a step.
    pub(crate) fn all_reduce(
        operation: Operation,
        work: Work,
        layout: &Layout,
        placement: &Placement,
    ) -> Self {
        Self {
            operation,
            element: None,
            step: work.step,
            bucket: work.bucket.into(),
            samples: work.samples,
            root: 0,
            elements: layout.elements() as u64,
            segments: layout.segments() as u64,
            sums: layout.sums() as u64,
            flags: layout.flags() as u64,
            layout: layout.fingerprint(),
            placement: placement.fingerprint(),
            dimensions: 0,
        }
    }

    fn numbers(&self) -> [u64; 11] {
        let Self {
            step,
            bucket,
            samples,
            root,
            elements,
            segments,
            sums,
            flags,
            layout,
            placement,
            dimensions,
            ..
        } = *self;
        [
            step, bucket, samples, root, elements, segments, sums, flags, layout, placement,
            dimensions,
        ]
    }

    fn from_numbers(
        operation: Operation,
        element: Option<ElementType>,
        numbers: [u64; 11],
    ) -> Self {
        let [
            step,
            bucket,
            samples,
            root,
            elements,
            segments,
            sums,
            flags,
            layout,
            placement,
            dimensions,
        ] = numbers;
        Self {
            operation,
            element,
            step,
            bucket,
            samples,
            root,
            elements,
            segments,
            sums,
            flags,
            layout,
            placement,
            dimensions,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        let element = self.element.map_or(0, ElementType::code);
        out.extend_from_slice(&[self.operation.code(), element]);
        out.extend(self.numbers().into_iter().flat_map(u64::to_le_bytes));
    }

    /// Reads a header and returns it with the bytes that follow it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let short = || format!("expected a header of {BYTES} bytes, got {}", bytes.len());
        let (header, body) = bytes.split_at_checked(BYTES).ok_or_else(short)?;
        let (prefix, words) = header.split_at(8);
        if prefix[..4] != MAGIC {
            return Err(format!("expected magic {MAGIC:?}, got {:?}", &prefix[..4]));
        }
        let version = u16::from_le_bytes([prefix[4], prefix[5]]);
        if version != VERSION {
            return Err(format!("expected version {VERSION}, got {version}"));
        }
        let unknown = || format!("unknown operation code {}", prefix[6]);
        let operation = Operation::from_code(prefix[6]).ok_or_else(unknown)?;
        let element = match prefix[7] {
            0 => None,
            code => {
                let unknown = || format!("unknown code {code} of an element type");
                Some(ElementType::from_code(code).ok_or_else(unknown)?)
            }
        };
        let (words, _) = words.as_chunks::<8>();
        let mut numbers = [0; 11];
        for (number, word) in numbers.iter_mut().zip(words) {
            *number = u64::from_le_bytes(*word);
        }
        Ok((Self::from_numbers(operation, element, numbers), body))
    }

    /// Takes the shape off the front of what follows the header, if there is one.
    pub(crate) fn split_shape<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Result<(Option<Shape>, &'a [u8]), String> {
        let Some(dimensions) = self.dimensions.checked_sub(1) else {
            return Ok((None, bytes));
        };
        let (shape, rest) = Shape::decode(dimensions, bytes)?;
        Ok((Some(shape), rest))
    }

    /// The first field in which `got` differs from `self`, and the shapes that come with both.
    pub(crate) fn difference(
        &self,
        shape: Option<&Shape>,
        got: &Header,
        got_shape: Option<&Shape>,
    ) -> Option<Difference> {
        if self.operation != got.operation {
            return Some(Difference {
                field: "operation",
                expected: self.operation.to_string(),
                got: got.operation.to_string(),
            });
        }
        if self.element != got.element {
            let name = |element: Option<ElementType>| match element {
                Some(element) => element.to_string(),
                None => "none".to_owned(),
            };
            return Some(Difference {
                field: "element type",
                expected: name(self.element),
                got: name(got.element),
            });
        }
        if shape.or(got_shape).is_some() {
            let [expected, got] = [(shape, self), (got_shape, got)].map(|(shape, header)| {
                // One without a shape is a plain vector.
                shape.map_or_else(|| format!("[{}]", header.elements), Shape::to_string)
            });
            if expected != got {
                return Some(Difference {
                    field: "shape",
                    expected,
                    got,
                });
            }
        }
        let mut pairs = FIELDS
            .into_iter()
            .zip(self.numbers().into_iter().zip(got.numbers()));
        let (field, (expected, got)) = pairs.find(|(_, (expected, got))| expected != got)?;
        Some(Difference {
            field,
            expected: expected.to_string(),
            got: got.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header {
        operation: Operation::AllReduce,
        element: Some(ElementType::F64),
        step: 5,
        bucket: 6,
        samples: 64,
        root: 0,
        elements: 1000,
        segments: 7,
        sums: 2,
        flags: 1,
        layout: u64::MAX,
        placement: 3,
        dimensions: 0,
    };

    fn encoded() -> Vec<u8> {
        let mut bytes = Vec::new();
        HEADER.encode(&mut bytes);
        bytes
    }

    #[test]
    fn header_round_trips_and_leaves_the_body() {
        let mut bytes = encoded();
        assert_eq!(bytes.len(), BYTES);
        bytes.extend_from_slice(b"body");
        assert_eq!(Header::decode(&bytes), Ok((HEADER, &b"body"[..])));
    }

    #[test]
    fn decode_refused_when_bytes_are_no_header() {
        for length in 0..BYTES {
            assert!(Header::decode(&encoded()[..length]).is_err());
        }
        for offset in [0, 3, 4, 5, 6, 7] {
            let mut bytes = encoded();
            bytes[offset] ^= 0x40;
            assert!(Header::decode(&bytes).is_err(), "byte {offset}");
        }
    }

    #[test]
    fn shapes_are_compared_as_they_are_written() {
        let vector = Header {
            elements: 12,
            ..HEADER
        };
        let [one, other, flat] = [&[2, 6][..], &[3, 4], &[12]].map(Shape::new);
        let differ = |own: Option<&Shape>, got: Option<&Shape>| {
            let difference = vector.difference(own, &vector.with_shape(got), got)?;
            assert_eq!(difference.field, "shape");
            Some(format!("{} {}", difference.expected, difference.got))
        };
        assert_eq!(differ(Some(&one), Some(&one)), None);
        assert_eq!(differ(Some(&flat), None), None);
        assert_eq!(
            differ(Some(&one), Some(&other)).as_deref(),
            Some("[2, 6] [3, 4]")
        );
        assert_eq!(differ(None, Some(&one)).as_deref(), Some("[12] [2, 6]"));
    }

    #[test]
    fn shape_follows_the_header_when_it_says_so() {
        let shape = Shape::new(&[3, 4]);
        let mut bytes = vec![];
        shape.encode(&mut bytes);
        let header = HEADER.with_shape(Some(&shape));
        assert_eq!(header.split_shape(&bytes), Ok((Some(shape), &[][..])));
        assert!(header.split_shape(&bytes[..15]).is_err());
        assert_eq!(HEADER.split_shape(&bytes), Ok((None, &bytes[..])));
    }

    #[test]
    fn difference_names_the_first_field_that_differs() {
        assert_eq!(HEADER.difference(None, &HEADER, None), None);
        let mut other = HEADER;
        (other.elements, other.layout) = (12, 1);
        let difference = HEADER.difference(None, &other, None).unwrap();
        assert_eq!(difference.field, "element count");
        assert_eq!((&*difference.expected, &*difference.got), ("1000", "12"));
        other.element = Some(ElementType::F16);
        let difference = HEADER.difference(None, &other, None).unwrap();
        assert_eq!(difference.field, "element type");
        assert_eq!((&*difference.expected, &*difference.got), ("f64", "f16"));
        other.operation = Operation::Barrier;
        assert_eq!(
            HEADER.difference(None, &other, None).unwrap().field,
            "operation"
        );
    }
}
