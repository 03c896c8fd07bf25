//! Names, not ids.
//!
//! Burn draws a random [`ParamId`] in every process and loses it when a record is loaded. Here every
//! id is a hash of the parameter's module path, so that gradients, optimizer records and checkpoints
//! fit everywhere.

use std::collections::{HashMap, HashSet};

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor};
use burn_virtual_backend::{Scope, enter};
use sha2::{Digest, Sha256};

use crate::TrainError;

/// The module path of where a visitor or mapper is, as `block.conv1.weight`.
#[derive(Debug, Default)]
pub(crate) struct PathStack(Vec<String>);

impl PathStack {
    pub(crate) fn enter(&mut self, name: &str) {
        self.0.push(name.to_owned());
    }

    pub(crate) fn exit(&mut self) {
        self.0.pop();
    }

    pub(crate) fn path(&self) -> String {
        self.0.join(".")
    }
}

/// The methods of a visitor or mapper with a field `path: PathStack` that keep it up.
macro_rules! track_path {
    () => {
        fn enter_module(&mut self, name: &str, _container: &str) {
            self.path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container: &str) {
            self.path.exit();
        }
    };
}
pub(crate) use track_path;

/// The id of the parameter at a module path: the first 8 bytes of the path's SHA-256.
pub fn id_of_path(path: &str) -> ParamId {
    let digest = Sha256::digest(path.as_bytes());
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&digest[..8]);
    ParamId::from(u64::from_le_bytes(bytes))
}

/// Gives every parameter the id of its path, and draws the values of those that are still lazy from
/// the seed and that id: what was materialised before does not shift the others.
///
/// # Errors
/// [`TrainError::DuplicateParameter`] where one id stands at two paths, [`TrainError::SharedPath`]
/// where one path has two parameters; the model is then unchanged.
pub(crate) fn assign_ids<B: Backend, M: Module<B>>(
    seed: u64,
    model: &mut M,
) -> Result<(), TrainError> {
    let mut ids = Ids::default();
    model.visit(&mut ids);
    if let Some(duplicate) = ids.duplicate {
        return Err(duplicate);
    }
    *model = model.clone().map(&mut Namer {
        seed,
        path: PathStack::default(),
    });
    Ok(())
}

/// Finds an id that stands at two paths, or a path that has two parameters.
#[derive(Default)]
struct Ids {
    path: PathStack,
    seen: HashMap<ParamId, String>,
    paths: HashSet<String>,
    duplicate: Option<TrainError>,
}

impl Ids {
    fn see(&mut self, id: ParamId) {
        let second = self.path.path();
        if !self.paths.insert(second.clone()) {
            let path = second.clone();
            self.duplicate
                .get_or_insert(TrainError::SharedPath { path });
        }
        if let Some(first) = self.seen.insert(id, second.clone()) {
            self.duplicate
                .get_or_insert(TrainError::DuplicateParameter { id, first, second });
        }
    }
}

impl<B: Backend> ModuleVisitor<B> for Ids {
    track_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.see(param.id);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<B, D, Int>>) {
        self.see(param.id);
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<B, D, Bool>>) {
        self.see(param.id);
    }
}

/// Gives each parameter the id of its path.
struct Namer {
    seed: u64,
    path: PathStack,
}

/// One method a kind of tensor: consuming a parameter also materialises it.
macro_rules! rename {
    ($($name:ident: $kind:ty;)*) => {
        $(fn $name<const D: usize>(
            &mut self,
            param: Param<Tensor<B, D, $kind>>,
        ) -> Param<Tensor<B, D, $kind>> {
            let id = id_of_path(&self.path.path());
            let _scope = enter(Scope::Init { seed: self.seed, parameter: id.val() });
            let (_, tensor, mapper) = param.consume();
            Param::from_mapped_value(id, tensor, mapper)
        })*
    };
}

impl<B: Backend> ModuleMapper<B> for Namer {
    track_path!();

    rename! {
        map_float: burn::tensor::Float;
        map_int: Int;
        map_bool: Bool;
    }
}
