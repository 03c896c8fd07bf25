//! The tensors of a model by module path, and how far apart they are.

use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;
use burn_virtual::nodes::VirtualAutodiff;

use crate::common::{bits, values};

/// By module path, the values of a tensor, or their bits.
pub(crate) type ByPath<T> = BTreeMap<String, Vec<T>>;

struct Reader<T, F> {
    path: Vec<String>,
    read: ByPath<T>,
    of: F,
}

/// A visitor that keeps what `of` makes of each parameter of a model.
trait Of<B: Backend, T> {
    fn of<const D: usize>(&self, param: &Param<Tensor<B, D>>) -> Option<Vec<T>>;
}

impl<B: Backend, T, F: Of<B, T>> ModuleVisitor<B> for Reader<T, F> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if let Some(values) = self.of.of(param) {
            self.read.insert(self.path.join("."), values);
        }
    }
}

fn read<B: Backend, M: Module<B>, T>(model: &M, of: impl Of<B, T>) -> ByPath<T> {
    let mut reader = Reader {
        path: Vec::new(),
        read: ByPath::new(),
        of,
    };
    model.visit(&mut reader);
    reader.read
}

/// The bits of every parameter and running statistic.
pub(crate) fn tensors<B: Backend, M: Module<B>>(model: &M) -> ByPath<u32> {
    struct Bits;
    impl<B: Backend> Of<B, u32> for Bits {
        fn of<const D: usize>(&self, param: &Param<Tensor<B, D>>) -> Option<Vec<u32>> {
            Some(bits(param.val()))
        }
    }
    read(model, Bits)
}

/// The gradients of a step; a parameter that got none is not among them.
pub(crate) fn gradients<B: VirtualAutodiff, M: Module<B>>(
    model: &M,
    gradients: &GradientsParams,
) -> ByPath<f32> {
    struct Gradients<'a>(&'a GradientsParams);
    impl<B: VirtualAutodiff> Of<B, f32> for Gradients<'_> {
        fn of<const D: usize>(&self, param: &Param<Tensor<B, D>>) -> Option<Vec<f32>> {
            self.0.get::<B::InnerBackend, D>(param.id).map(values)
        }
    }
    read(model, Gradients(gradients))
}

/// The largest difference, in units of the largest expected element.
pub(crate) fn gap(got: &[f32], expected: &[f32]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let all = got.iter().chain(expected);
    assert!(all.clone().all(|value| value.is_finite()), "{got:?}");
    let pairs = got.iter().zip(expected);
    let difference = pairs.map(|(got, expected)| (f64::from(*got) - f64::from(*expected)).abs());
    let scale = expected.iter().map(|value| f64::from(value.abs()));
    let scale = scale.fold(0.0, f64::max);
    assert!(scale > 0.0, "nothing to compare with");
    difference.fold(0.0, f64::max) / scale
}
