//! Walking a model's float tensors in module order: the index is the tensor's place in the
//! [`Inventory`](crate::inventory::Inventory).

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::Tensor;
use burn::tensor::backend::Backend;

/// Looks at each float tensor of a model.
pub(crate) trait Look<B: Backend> {
    type Error;

    /// Looks at the tensor of an index; after an error, the rest is passed over.
    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), Self::Error>;
}

/// Looks at every float tensor of a model, and returns how many there are.
pub(crate) fn look<B: Backend, M: Module<B>, L: Look<B>>(
    model: &M,
    looker: &mut L,
) -> Result<usize, L::Error> {
    let mut walk = Walk {
        walker: looker,
        next: 0,
        error: None,
    };
    model.visit(&mut walk);
    walk.error.map_or(Ok(walk.next), Err)
}

/// Replaces float tensors of a model.
pub(crate) trait Replace<B: Backend> {
    /// The tensor that an index shall have from now on.
    fn replace<const D: usize>(
        &mut self,
        index: usize,
        param: Param<Tensor<B, D>>,
    ) -> Param<Tensor<B, D>>;
}

/// Replaces every float tensor of a model.
pub(crate) fn replace<B: Backend, M: Module<B>, R: Replace<B>>(model: M, replacer: &mut R) -> M {
    model.map(&mut Walk::<_, ()> {
        walker: replacer,
        next: 0,
        error: None,
    })
}

struct Walk<'a, W, E> {
    walker: &'a mut W,
    next: usize,
    error: Option<E>,
}

impl<B: Backend, L: Look<B>> ModuleVisitor<B> for Walk<'_, L, L::Error> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        if self.error.is_none() {
            self.error = self.walker.look(self.next, param).err();
        }
        self.next += 1;
    }
}

impl<B: Backend, R: Replace<B>> ModuleMapper<B> for Walk<'_, R, ()> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        self.next += 1;
        self.walker.replace(self.next - 1, param)
    }
}
