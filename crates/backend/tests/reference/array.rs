//! Arrays of f64 with a shape, and the few loops that the naive forms are written with.

#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Array {
    pub(crate) fn new(shape: &[usize], values: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        let shape = shape.to_vec();
        Self { shape, values }
    }

    /// One value for each index, the last dimension fastest.
    pub(crate) fn each(shape: &[usize], mut value: impl FnMut(&[usize]) -> f64) -> Self {
        let mut values = Vec::new();
        for flat in 0..shape.iter().product() {
            values.push(value(&index_of(flat, shape)));
        }
        Self::new(shape, values)
    }

    /// The value at an index; a dimension of size 1 has the same value everywhere.
    pub(crate) fn at(&self, index: &[usize]) -> f64 {
        self.values[self.flat(index)]
    }

    pub(crate) fn at_mut(&mut self, index: &[usize]) -> &mut f64 {
        let flat = self.flat(index);
        &mut self.values[flat]
    }

    fn flat(&self, index: &[usize]) -> usize {
        assert_eq!(index.len(), self.shape.len());
        index
            .iter()
            .zip(&self.shape)
            .fold(0, |flat, (&position, &size)| {
                assert!(
                    size == 1 || position < size,
                    "{index:?} of {:?}",
                    self.shape
                );
                flat * size + if size == 1 { 0 } else { position }
            })
    }

    pub(crate) fn map(&self, value: impl Fn(f64) -> f64) -> Self {
        let values = self.values.iter().map(|x| value(*x)).collect();
        Self::new(&self.shape, values)
    }

    /// Two arrays value by value; dimensions of size 1 are stretched.
    pub(crate) fn zip(&self, other: &Self, value: impl Fn(f64, f64) -> f64) -> Self {
        let sizes = self.shape.iter().zip(&other.shape);
        let shape: Vec<usize> = sizes.map(|(a, b)| *a.max(b)).collect();
        Self::each(&shape, |i| value(self.at(i), other.at(i)))
    }

    /// Replaces each line along a dimension, by one of any length.
    pub(crate) fn lines(&self, dim: usize, line: impl Fn(&[f64]) -> Vec<f64>) -> Self {
        let size = self.shape[dim];
        let inner: usize = self.shape[dim + 1..].iter().product();
        let outer: usize = self.shape[..dim].iter().product();
        let mut values = Vec::new();
        let mut new_size = size;
        for o in 0..outer {
            let lines: Vec<Vec<f64>> = (0..inner)
                .map(|i| {
                    let old = (0..size).map(|k| self.values[(o * size + k) * inner + i]);
                    line(&old.collect::<Vec<_>>())
                })
                .collect();
            new_size = lines[0].len();
            for k in 0..new_size {
                values.extend(lines.iter().map(|new| new[k]));
            }
        }
        let mut shape = self.shape.clone();
        shape[dim] = new_size;
        Self::new(&shape, values)
    }

    pub(crate) fn reshaped(&self, shape: &[usize]) -> Self {
        Self::new(shape, self.values.clone())
    }

    /// Dimension `k` of the result is dimension `axes[k]`.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Self {
        let shape: Vec<_> = axes.iter().map(|axis| self.shape[*axis]).collect();
        Self::each(&shape, |i| {
            let mut index = vec![0; axes.len()];
            for (position, axis) in i.iter().zip(axes) {
                index[*axis] = *position;
            }
            self.at(&index)
        })
    }

    pub(crate) fn largest(&self) -> f64 {
        let absolute = self.values.iter().map(|x| x.abs());
        absolute.fold(0.0, f64::max)
    }
}

/// The index of the value at a place in memory.
pub(crate) fn index_of(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for (position, size) in index.iter_mut().zip(shape).rev() {
        *position = flat % size;
        flat /= size;
    }
    index
}

pub(crate) fn sum(line: &[f64]) -> f64 {
    line.iter().sum()
}

pub(crate) fn mean(line: &[f64]) -> f64 {
    sum(line) / line.len() as f64
}

/// Mean of the squared distances from the mean.
pub(crate) fn spread(line: &[f64]) -> f64 {
    let mean = mean(line);
    line.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / line.len() as f64
}

pub(crate) fn softmax(line: &[f64]) -> Vec<f64> {
    let exps: Vec<f64> = line.iter().map(|x| x.exp()).collect();
    exps.iter().map(|x| x / sum(&exps)).collect()
}

pub(crate) fn log_softmax(line: &[f64]) -> Vec<f64> {
    softmax(line).iter().map(|x| x.ln()).collect()
}

/// The products of matrices, in the last two dimensions; a batch of one serves all of the other.
pub(crate) fn product(a: &Array, b: &Array) -> Array {
    let rank = a.shape.len();
    let mut shape: Vec<_> = (0..rank).map(|d| a.shape[d].max(b.shape[d])).collect();
    let inner = a.shape[rank - 1];
    assert_eq!(inner, b.shape[rank - 2]);
    shape[rank - 2] = a.shape[rank - 2];
    shape[rank - 1] = b.shape[rank - 1];
    Array::each(&shape, |i| {
        let (mut left, mut right) = (i.to_vec(), i.to_vec());
        let mut total = 0.0;
        for k in 0..inner {
            left[rank - 1] = k;
            right[rank - 2] = k;
            total += a.at(&left) * b.at(&right);
        }
        total
    })
}
