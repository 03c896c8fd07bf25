//! What a model is made of: its float tensors in module order, and how they lie in the flat vector.

use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::backend::Backend;
use burn::tensor::{DType, Shape, Tensor, bf16, f16};
use burn_virtual_plan::{Layout, Partial, kernel};

use crate::TrainError;
use crate::names::{PathStack, id_of_path, track_path};
use crate::walk::{self, Look};

/// One float tensor of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    id: ParamId,
    shape: Shape,
    dtype: DType,
    /// A running statistic that is kept up; anything else is a parameter, or frozen.
    pub(crate) statistic: bool,
}

/// The model as the session knows it.
#[derive(Clone, Debug)]
pub(crate) struct Inventory {
    pub(crate) entries: Vec<Entry>,
    identity: u64,
}

impl Inventory {
    /// Takes the inventory of a model whose ids were just assigned.
    ///
    /// A running statistic visits like a frozen parameter. What tells it apart: it keeps its own id
    /// when a mapper hands it another one.
    pub(crate) fn take<B: Backend, M: Module<B>>(model: &M) -> Result<Self, TrainError> {
        let mut lister = Lister::default();
        model.visit(&mut lister);
        match lister.unnamed {
            Some(path) => Err(TrainError::Unnamed { path }),
            None => Ok(Self {
                identity: identity(&lister.entries),
                entries: lister.entries,
            }),
        }
    }

    /// Takes the statistics at or below a path for frozen; whether there were any.
    pub(crate) fn freeze_statistics(&mut self, path: &str) -> bool {
        let below = |entry: &&mut Entry| {
            let rest = entry.path.strip_prefix(path);
            entry.statistic
                && rest
                    .is_some_and(|rest| path.is_empty() || rest.is_empty() || rest.starts_with('.'))
        };
        let frozen = self.entries.iter_mut().filter(below);
        frozen.map(|entry| entry.statistic = false).count() > 0
    }

    /// Bytes of all float tensors.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.iter().map(Entry::bytes).sum()
    }

    /// Which entries are trained now. The set may change between steps; the entries may not.
    pub(crate) fn trained<B: Backend, M: Module<B>>(
        &self,
        model: &M,
    ) -> Result<Vec<bool>, TrainError> {
        let mut checker = Checker {
            inventory: self,
            trained: Vec::new(),
        };
        let count = walk::look(model, &mut checker)?;
        match self.entries.get(count) {
            Some(missing) => Err(changed(
                &missing.path,
                missing.describe(),
                "nothing".to_owned(),
            )),
            None => Ok(checker.trained),
        }
    }
}

/// A hash of the paths, shapes and types: ranks that hold different models are told apart by it. Not
/// of ids: that of a running statistic is drawn anew in each process.
fn identity(entries: &[Entry]) -> u64 {
    let lines: Vec<_> = entries
        .iter()
        .map(|e| format!("{}: {}", e.path, e.kind()))
        .collect();
    id_of_path(&lines.join("\n")).val()
}

/// Bytes of all float tensors of a model that is not in training.
pub(crate) fn bytes<B: Backend, M: Module<B>>(model: &M) -> usize {
    let mut lister = Lister::default();
    model.visit(&mut lister);
    lister.entries.iter().map(Entry::bytes).sum()
}

impl Entry {
    fn bytes(&self) -> usize {
        self.shape.num_elements() * self.dtype.size()
    }

    fn describe(&self) -> String {
        describe(self.id, &self.shape, self.dtype)
    }

    /// Shape and type, and whether it is a statistic: the same on all ranks of a job.
    pub(crate) fn kind(&self) -> String {
        let what = if self.statistic {
            "statistic"
        } else {
            "parameter"
        };
        format!(
            "{what} of {:?}, {}",
            self.shape.as_slice(),
            self.dtype.name()
        )
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

#[derive(Default)]
struct Lister {
    path: PathStack,
    entries: Vec<Entry>,
    /// The first trained parameter that did not take its id.
    unnamed: Option<String>,
}

impl<B: Backend> ModuleVisitor<B> for Lister {
    track_path!();

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let path = self.path.path();
        let statistic = param.id != id_of_path(&path);
        if statistic && param.is_require_grad() {
            self.unnamed.get_or_insert_with(|| path.clone());
        }
        self.entries.push(Entry {
            statistic,
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
}

impl<B: Backend> Look<B> for Checker<'_> {
    type Error = TrainError;

    fn look<const D: usize>(
        &mut self,
        index: usize,
        param: &Param<Tensor<B, D>>,
    ) -> Result<(), TrainError> {
        let (shape, dtype) = (param.shape(), param.dtype());
        let got = || describe(param.id, &shape, dtype);
        let Some(entry) = self.inventory.entries.get(index) else {
            return Err(changed("(past the end)", "nothing".to_owned(), got()));
        };
        // A running statistic keeps an id of its own, which comes with a record.
        let named = entry.id == id_of_path(&entry.path);
        if (named && entry.id != param.id) || entry.shape != shape || entry.dtype != dtype {
            return Err(changed(&entry.path, entry.describe(), got()));
        }
        self.trained.push(param.is_require_grad());
        Ok(())
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
    /// The segments whose parameter has half precision.
    halves: Vec<(usize, DType)>,
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
        let mut halves = Vec::new();
        let (mut sums, mut statistic_count) = (Self::FIRST_STATISTIC, 0);
        for (entry, &trained) in inventory.entries.iter().zip(trained) {
            segments.push(trained.then_some(lengths.len()));
            if trained {
                if matches!(entry.dtype, DType::F16 | DType::BF16) {
                    halves.push((lengths.len(), entry.dtype));
                }
                lengths.push(entry.shape.num_elements());
            }
            statistics.push(entry.statistic.then_some((statistic_count, sums)));
            if entry.statistic {
                sums += entry.shape.num_elements();
                statistic_count += 1;
            }
        }
        let layout = Layout::new(lengths, sums, statistic_count + virtual_nodes)
            .with_identity(inventory.identity);
        Self {
            layout,
            segments,
            halves,
            statistics,
            statistic_count,
        }
    }

    /// Rounds the gradients of half-precision parameters as their upload will: what decides about
    /// the step is what would be applied, and an f16 overflows at 65,520.
    pub(crate) fn narrow(&self, partial: &mut Partial) {
        for &(segment, dtype) in &self.halves {
            let range = self.layout.segment(segment);
            for value in &mut partial.values_mut()[range] {
                *value = match dtype {
                    DType::F16 => f16::from_f32(*value).to_f32(),
                    _ => bf16::from_f32(*value).to_f32(),
                };
            }
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

    /// Whether the loss, the gradients and the statistics that changed are finite.
    pub(crate) fn is_finite(&self, partial: &Partial) -> bool {
        let mut gradients = (0..self.layout.segments()).filter_map(|index| partial.segment(index));
        let starts = self.statistics.iter().flatten();
        let ends = starts.clone().skip(1).map(|(_, start)| *start);
        let ends = ends.chain([self.layout.sums()]);
        let mut changed = starts
            .zip(ends)
            .filter(|((flag, _), _)| partial.flags().get(*flag))
            .flat_map(|((_, start), end)| &partial.sums()[*start..end]);
        partial.sums()[Self::LOSS].is_finite()
            && gradients.all(kernel::all_finite)
            && changed.all(|sum| sum.is_finite())
    }

    /// Bytes of one full gradient on the device, at 4 bytes an element.
    pub(crate) fn gradient_bytes(&self) -> usize {
        self.layout.elements() * size_of::<f32>()
    }
}
