//! Reading and writing by index.

use burn_backend::tensor::IndexingUpdateOp::Add;

use crate::array::Array;
use crate::{rows, signed};

/// Of four, with repetitions.
const IDS: [i64; 6] = [3, 0, 3, 1, 2, 3];

fn id(position: usize) -> usize {
    IDS[position] as usize
}

/// What index `i` holds once all of `added` has found its place.
fn plus_all(start: &Array, added: &Array, goes_to: impl Fn(&[usize]) -> Vec<usize>) -> Array {
    let places = Array::each(&added.shape, |i| {
        let place = goes_to(i);
        place
            .iter()
            .zip(&start.shape)
            .fold(0, |flat, (p, n)| flat * n + p) as f64
    });
    let mut result = start.clone();
    for (place, value) in places.values.iter().zip(&added.values) {
        result.values[*place as usize] += value;
    }
    result
}

rows! { B, x, a;
    "gather along rows" ELEMENTWISE [signed([3, 4])] Array::each(&[3, 2], |i| a[0].at(&[i[0], id(2 * i[0] + i[1])])) => x.f::<2>(0).gather(1, x.int(&IDS, [3, 2]));
    "gather along columns" ELEMENTWISE [signed([4, 3])] Array::each(&[2, 3], |i| a[0].at(&[id(3 * i[0] + i[1]), i[1]])) => x.f::<2>(0).gather(0, x.int(&IDS, [2, 3]));
    "scatter with repeated indices" ELEMENTWISE [signed([2, 4]), signed([2, 3])]
        plus_all(&a[0], &a[1], |i| vec![i[0], id(3 * i[0] + i[1])])
        => x.f::<2>(0).scatter(1, x.int(&IDS, [2, 3]), x.f::<2>(1), Add);
    "scatter along columns" ELEMENTWISE [signed([4, 2]), signed([3, 2])]
        plus_all(&a[0], &a[1], |i| vec![id(2 * i[0] + i[1]), i[1]])
        => x.f::<2>(0).scatter(0, x.int(&IDS, [3, 2]), x.f::<2>(1), Add);
    "select of rows" ELEMENTWISE [signed([4, 3])] Array::each(&[6, 3], |i| a[0].at(&[id(i[0]), i[1]])) => x.f::<2>(0).select(0, x.int(&IDS, [6]));
    "select of columns" ELEMENTWISE [signed([3, 4])] Array::each(&[3, 6], |i| a[0].at(&[i[0], id(i[1])])) => x.f::<2>(0).select(1, x.int(&IDS, [6]));
    "select_assign with repeated rows" ELEMENTWISE [signed([4, 3]), signed([6, 3])]
        plus_all(&a[0], &a[1], |i| vec![id(i[0]), i[1]])
        => x.f::<2>(0).select_assign(0, x.int(&IDS, [6]), x.f::<2>(1), Add);
    "select_assign of columns" ELEMENTWISE [signed([3, 4]), signed([3, 6])]
        plus_all(&a[0], &a[1], |i| vec![i[0], id(i[1])])
        => x.f::<2>(0).select_assign(1, x.int(&IDS, [6]), x.f::<2>(1), Add);
    "one_hot" ELEMENTWISE [] Array::each(&[6, 4], |i| f64::from(u8::from(id(i[0]) == i[1]))) => x.int(&IDS, [6]).one_hot::<2>(4);
}
