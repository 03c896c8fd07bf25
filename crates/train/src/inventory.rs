//! What a model is made of: its float tensors in module order, and how they lie in the flat vector.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Shape, Tensor};
use burn_virtual_plan::Layout;

use crate::TrainError;
use crate::names::{PathStack, id_of_path};

/// One float tensor of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    id: ParamId,
    shape: Shape,
    dtype: DType,
    /// A running statistic; anything else is a parameter, trained or frozen.
    pub(crate) statistic: bool,
}

/// The model as the session knows it.
#[derive(Clone, Debug)]
pub(crate) struct Inventory {
    pub(crate) entries: Vec<Entry>,
}

impl Inventory {
    /// Takes the inventory of a model whose ids were just assigned.
    ///
    /// A running statistic visits like a frozen parameter. What tells it apart: it keeps its own id
    /// when a mapper hands it another one.
    pub(crate) fn take<B: Backend, M: Module<B>>(model: &M) -> Self {
        let mut lister = Lister {
            path: PathStack::default(),
            entries: Vec::new(),
        };
        model.visit(&mut lister);
        Self {
            entries: lister.entries,
        }
    }

    /// Bytes of all float tensors.
    pub(crate) fn bytes(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.shape.num_elements() * entry.dtype.size())
            .sum()
    }

    /// Which entries are trained now. The set may change between steps; the entries may not.
    pub(crate) fn trained<B: Backend, M: Module<B>>(
        &self,
        model: &M,
    ) -> Result<Vec<bool>, TrainError> {
        let mut checker = Checker {
            inventory: self,
            trained: Vec::new(),
            error: None,
        };
        model.visit(&mut checker);
        match checker.error {
            Some(error) => Err(error),
            None if checker.trained.len() < self.entries.len() => {
                let missing = &self.entries[checker.trained.len()];
                Err(changed(
                    &missing.path,
                    missing.describe(),
                    "nothing".to_owned(),
                ))
            }
            None => Ok(checker.trained),
        }
    }
}

impl Entry {
    fn describe(&self) -> String {
        describe(self.id, &self.shape, self.dtype)
    }
}

fn describe(id: ParamId, shape: &Shape, dtype: DType) -> String {
    format!("id {id}, shape {:?}, {}", shape.as_slice(), dtype.name())
}

fn changed(path: &str, expected: String, got: String) -> TrainError {
    TrainError::ModelChanged {
        path: path.to_owned(),
        expected,
        got,
    }
}

struct Lister {
    path: PathStack,
    entries: Vec<Entry>,
}

impl<B: Backend> ModuleVisitor<B> for Lister {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let path = self.path.path();
        self.entries.push(Entry {
            statistic: param.id != id_of_path(&path),
            id: param.id,
            shape: param.shape(),
            dtype: param.dtype(),
            path,
        });
    }
}

struct Checker<'a> {
    inventory: &'a Inventory,
    trained: Vec<bool>,
    error: Option<TrainError>,
}

impl<B: Backend> ModuleVisitor<B> for Checker<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let (shape, dtype) = (param.shape(), param.dtype());
        match self.inventory.entries.get(self.trained.len()) {
            Some(entry) if entry.id != param.id || entry.shape != shape || entry.dtype != dtype => {
                let got = describe(param.id, &shape, dtype);
                self.error
                    .get_or_insert(changed(&entry.path, entry.describe(), got));
            }
            Some(_) => {}
            None => {
                let (expected, got) = ("nothing".to_owned(), describe(param.id, &shape, dtype));
                self.error
                    .get_or_insert(changed("(past the end)", expected, got));
            }
        }
        self.trained.push(param.is_require_grad());
    }
}

/// How one step's values lie in a [`Partial`](burn_virtual_plan::Partial).
///
/// Segments are the trained parameters in module order. The f64 sums are loss, weight, samples,
/// then the running statistics; the flags are "this statistic changed", then "this virtual node's
/// values are not finite".
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) layout: Layout,
    /// Per entry: the segment of a trained parameter.
    segments: Vec<Option<usize>>,
    /// Per entry: the position of a statistic among the statistics, and where its sums start.
    statistics: Vec<Option<(usize, usize)>>,
    statistic_count: usize,
}

impl Frame {
    pub(crate) const LOSS: usize = 0;
    pub(crate) const WEIGHT: usize = 1;
    pub(crate) const SAMPLES: usize = 2;
    const FIRST_STATISTIC: usize = 3;

    pub(crate) fn new(inventory: &Inventory, trained: &[bool], virtual_nodes: usize) -> Self {
        let (mut lengths, mut segments, mut statistics) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sums, mut statistic_count) = (Self::FIRST_STATISTIC, 0);
        for (entry, &trained) in inventory.entries.iter().zip(trained) {
            segments.push(trained.then_some(lengths.len()));
            if trained {
                lengths.push(entry.shape.num_elements());
            }
            statistics.push(entry.statistic.then_some((statistic_count, sums)));
            if entry.statistic {
                sums += entry.shape.num_elements();
                statistic_count += 1;
            }
        }
        let layout = Layout::new(lengths, sums, statistic_count + virtual_nodes);
        Self {
            layout,
            segments,
            statistics,
            statistic_count,
        }
    }

    /// The segment of the entry, if it is trained.
    pub(crate) fn segment(&self, entry: usize) -> Option<usize> {
        self.segments[entry]
    }

    /// The flag and the first sum of the entry, if it is a statistic.
    pub(crate) fn statistic(&self, entry: usize) -> Option<(usize, usize)> {
        self.statistics[entry]
    }

    pub(crate) fn has_statistics(&self) -> bool {
        self.statistic_count > 0
    }

    /// The flag "the values of this virtual node are not finite".
    pub(crate) fn not_finite(&self, node: usize) -> usize {
        self.statistic_count + node
    }

    /// Bytes of one full gradient on the device, at 4 bytes an element.
    pub(crate) fn gradient_bytes(&self) -> usize {
        self.layout.elements() * size_of::<f32>()
    }
}
