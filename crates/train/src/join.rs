//! Results of micro-batches, put together again: the counterpart of splitting a batch.

use burn::tensor::backend::Backend;
use burn::tensor::{BasicOps, Tensor};

/// What a micro-batch comes to, and can be put together to what the whole batch comes to.
///
/// For tensors, whose first dimension is the samples; for lists with one entry per sample; and for
/// tuples of both. Micro-batches that are padded to the longest of their own samples give rows that
/// don't fit together: pad to a fixed length, or return lists.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be put together from the results of micro-batches",
    note = "return a tensor with the samples in its first dimension, a `Vec`, a tuple of those, or implement `JoinBatch`"
)]
pub trait JoinBatch: Sized {
    /// Puts `first` and `rest` together, in this order.
    ///
    /// # Panics
    /// May, if the parts do not fit: the session makes an error of it.
    fn join(first: Self, rest: Vec<Self>) -> Self;

    /// The number of samples that this is the result of, if it is known and not `expected`: results
    /// would end up beside other samples than their own.
    fn other_count(&self, expected: usize) -> Option<usize> {
        let _ = expected;
        None
    }
}

/// Concatenates along the first dimension, on the device of the first part.
impl<B: Backend, const D: usize, K: BasicOps<B>> JoinBatch for Tensor<B, D, K> {
    fn join(first: Self, rest: Vec<Self>) -> Self {
        if rest.is_empty() {
            return first;
        }
        let device = first.device();
        let rest = rest.into_iter().map(|part| part.to_device(&device));
        Tensor::cat([first].into_iter().chain(rest).collect(), 0)
    }

    fn other_count(&self, expected: usize) -> Option<usize> {
        Some(self.dims()[0]).filter(|got| *got != expected)
    }
}

impl<T> JoinBatch for Vec<T> {
    fn join(mut first: Self, rest: Vec<Self>) -> Self {
        first.extend(rest.into_iter().flatten());
        first
    }

    fn other_count(&self, expected: usize) -> Option<usize> {
        Some(self.len()).filter(|got| *got != expected)
    }
}

/// Parts that are put together one by one.
macro_rules! tuple {
    ($($name:ident $index:tt),*) => {
        impl<$($name: JoinBatch),*> JoinBatch for ($($name,)*) {
            fn join(first: Self, rest: Vec<Self>) -> Self {
                let mut columns = ($(Vec::<$name>::with_capacity(rest.len()),)*);
                for part in rest {
                    $(columns.$index.push(part.$index);)*
                }
                ($($name::join(first.$index, columns.$index),)*)
            }

            fn other_count(&self, expected: usize) -> Option<usize> {
                let counts = [$(self.$index.other_count(expected)),*];
                counts.into_iter().flatten().next()
            }
        }
    };
}
tuple!(T0 0, T1 1);
tuple!(T0 0, T1 1, T2 2);
tuple!(T0 0, T1 1, T2 2, T3 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_tuples_keep_their_order_when_joined() {
        let parts = [
            (vec![1], vec!["a"]),
            (vec![], vec![]),
            (vec![2, 3], vec!["b"]),
        ];
        let [first, rest @ ..] = parts;
        let joined = JoinBatch::join(first, rest.to_vec());
        assert_eq!(joined, (vec![1, 2, 3], vec!["a", "b"]));
    }

    #[test]
    fn tensors_are_concatenated_along_their_samples() {
        let part = |rows: &[[f32; 2]]| {
            let data = burn::tensor::TensorData::new(rows.concat(), [rows.len(), 2]);
            Tensor::<burn_flex::Flex, 2>::from_data(data, &Default::default())
        };
        let joined = JoinBatch::join(part(&[[1.0, 2.0]]), vec![part(&[[3.0, 4.0], [5.0, 6.0]])]);
        assert_eq!(joined.dims(), [3, 2]);
        let values: Vec<f32> = joined.into_data().iter().collect();
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}
