//! A session whose ranks are in several processes: what they compare, and tell each other.

use burn::module::{AutodiffModule, Module};
use burn::tensor::backend::Backend;
use burn_virtual_collective::Transport;

use crate::agreement::{Terms, compare};
use crate::{Session, TrainError, VirtualAutodiff, WeightsHash};

/// The number of ranks of the group that all transports are ends of.
///
/// # Errors
/// [`TrainError::Transports`] for another number of them than of devices, ends of groups of different
/// sizes, or not in the order of their ranks.
pub(crate) fn one_group(
    transports: &[Box<dyn Transport>],
    devices: usize,
) -> Result<usize, TrainError> {
    let refused = |expected: String, got: String| TrainError::Transports { expected, got };
    if transports.len() != devices {
        let expected = format!("one for each of {devices} devices");
        return Err(refused(expected, transports.len().to_string()));
    }
    let world = transports.first().map_or(0, |first| first.world());
    if let Some(other) = transports.iter().find(|end| end.world() != world) {
        let expected = format!("ends of one group of {world} ranks");
        return Err(refused(expected, format!("one of {}", other.world())));
    }
    let mut pairs = transports
        .windows(2)
        .map(|pair| [pair[0].rank(), pair[1].rank()]);
    match pairs.find(|[one, next]| one >= next) {
        Some([one, next]) => {
            let expected = "ends in the order of their ranks".to_owned();
            Err(refused(expected, format!("rank {one} before rank {next}")))
        }
        None => Ok(world),
    }
}

impl<B: VirtualAutodiff> Session<B> {
    /// Compares what decides the result with all other ranks.
    pub(crate) fn agree<M: AutodiffModule<B>>(&mut self, model: &M) -> Result<(), TrainError> {
        let terms = self.terms(model);
        let terms = terms.inspect_err(|error| self.ranks.leave(error))?;
        self.compare(&terms)
    }

    fn terms<M: AutodiffModule<B>>(&self, model: &M) -> Result<Terms, TrainError> {
        let settings = &self.settings;
        let device = settings.devices.first().cloned().unwrap_or_default();
        let terms = settings.terms.clone();
        let mut terms = terms
            .with("number of virtual nodes", settings.count)
            .with("placement", self.ranks.placement())
            .with("seed", settings.seed)
            .with("reduction", settings.reduce)
            .with("norm to clip at", format!("{:?}", settings.clip_norm))
            .with("need of all gradients", settings.require_all_gradients)
            .with("acceptance of drift", settings.allow_drift)
            .with("applied steps", self.applied);
        if !settings.allow_drift {
            terms = terms.with("backend", B::name(&device)).with(
                "bit probe, which only `allow_drift` lets differ",
                self.probe,
            );
        }
        for entry in &self.inventory.entries {
            terms = terms.with(&format!("tensor `{}`", entry.path), entry.kind());
        }
        Ok(terms.with("initial weights", WeightsHash::of(model)?))
    }

    /// All ranks come to the same outcome, so there is nobody to tell of a difference.
    fn compare(&mut self, terms: &Terms) -> Result<(), TrainError> {
        let own = vec![terms.encode(); self.ranks.here()];
        compare(&self.gather(own)?)
    }

    /// The hash of the weights, if all ranks of the group have the same: those of other processes
    /// may have been changed there by something other than a step. Every process has to make this
    /// call.
    ///
    /// # Errors
    /// [`TrainError::Disagreement`] on every rank, where one has others; as
    /// [`WeightsHash::of`](WeightsHash::of).
    pub fn common_weights<R: Backend, M: Module<R>>(
        &mut self,
        model: &M,
    ) -> Result<WeightsHash, TrainError> {
        let hash = WeightsHash::of(model).inspect_err(|error| self.ranks.leave(error))?;
        self.compare(&Terms::default().with("weights", hash))?;
        Ok(hash)
    }

    /// Hands something to all ranks of the group: `own` is what each rank of this process brings, in
    /// order; the result what all ranks do. Every process has to make this call.
    ///
    /// # Errors
    /// [`TrainError::Parts`] for another number of parts than of ranks in this process;
    /// [`TrainError::Collective`] where a rank is missing.
    pub fn gather(&mut self, own: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, TrainError> {
        let (expected, got) = (self.ranks.here(), own.len());
        let gathered = if expected == got {
            self.ranks.gather(self.applied, own)
        } else {
            Err(TrainError::Parts { expected, got })
        };
        gathered.inspect_err(|error| self.ranks.leave(error))
    }

    /// Refuses what a process can't do for the ranks of others.
    pub(crate) fn check_all_here(&self, what: &'static str) -> Result<(), TrainError> {
        let (here, world) = (self.ranks.here(), self.placement().ranks());
        if here == world {
            return Ok(());
        }
        Err(TrainError::Spread { what, here, world })
    }
}
