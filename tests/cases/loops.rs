//! The same job in a loop of one's own, and held by a `Trainer`.

use std::time::Duration;

use burn::module::ParamId;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::{Adam, AdamConfig, Optimizer};
use burn_virtual::nodes::{
    IntoLossSum, Session, Skipped, Trainer, VirtualAutodiff, VirtualNodes, WeightsHash,
};

use crate::common::{
    Cnn, Net, Sample, SampleBatcher, Samples, adam_state, devices, gradient_bits, hash,
};

const RATE: f64 = 0.05;

/// No rank waits longer for another.
const LIMIT: Duration = Duration::from_secs(5);

/// What a step reported, to the last bit.
#[derive(Debug, PartialEq)]
pub(crate) struct Report {
    pub(crate) loss: u64,
    pub(crate) weight: u64,
    pub(crate) norm: u64,
    pub(crate) skipped: Option<Skipped>,
    /// None from a `Trainer`, which hands out none.
    pub(crate) gradients: Vec<Vec<u32>>,
}

/// Weights and running statistics, and the state of Adam.
pub(crate) type State = (WeightsHash, Vec<(ParamId, Vec<u8>)>);

/// A job of four virtual nodes: a CNN with dropout and batch norm, and Adam.
pub(crate) trait Loop<B: VirtualAutodiff>: Sized {
    fn begin(seed: u64, shares: &[usize]) -> Self;

    fn step<L: IntoLossSum<B>>(
        &mut self,
        items: &[Sample],
        loss: impl Fn(&Cnn<B>, Samples<B>) -> L + Sync,
    ) -> Report;

    fn state(&self) -> State;

    fn applied_steps(&mut self) -> u64;
}

type AdamOf<B> = OptimizerAdaptor<Adam, Cnn<B>, B>;

/// The loop of one's own.
pub(crate) struct Plain<B: VirtualAutodiff> {
    nodes: Session<B>,
    model: Cnn<B>,
    optim: AdamOf<B>,
}

/// The loop that a `Trainer` holds.
pub(crate) type Held<B> = Trainer<B, Cnn<B>, AdamOf<B>, f64>;

impl<B: VirtualAutodiff> Loop<B> for Plain<B> {
    fn begin(seed: u64, shares: &[usize]) -> Self {
        let mut model = Cnn::init(&Default::default());
        let nodes = VirtualNodes::new(4)
            .seed(seed)
            .devices(devices::<B>(shares.len()))
            .shares(shares.iter().copied())
            .timeout(LIMIT)
            .start(&mut model)
            .unwrap();
        let optim = AdamConfig::new().init();
        Self {
            nodes,
            model,
            optim,
        }
    }

    fn step<L: IntoLossSum<B>>(
        &mut self,
        items: &[Sample],
        loss: impl Fn(&Cnn<B>, Samples<B>) -> L + Sync,
    ) -> Report {
        let out = self
            .nodes
            .backward(&self.model, items, &SampleBatcher, loss);
        let out = out.unwrap();
        let report = Report {
            loss: out.loss.to_bits(),
            weight: out.weight.to_bits(),
            norm: out.norm.to_bits(),
            skipped: out.skipped,
            gradients: gradient_bits(&self.model, &out.grads),
        };
        // Of a skipped step too: there is nothing in its gradients.
        self.model = self.optim.step(RATE, self.model.clone(), out.grads);
        report
    }

    fn state(&self) -> State {
        (hash(&self.model), adam_state(&self.optim))
    }

    fn applied_steps(&mut self) -> u64 {
        self.nodes.applied_steps()
    }
}

impl<B: VirtualAutodiff> Loop<B> for Held<B> {
    fn begin(seed: u64, shares: &[usize]) -> Self {
        let Plain {
            nodes,
            model,
            optim,
        } = Plain::begin(seed, shares);
        Trainer::new(nodes, model, optim, RATE)
    }

    fn step<L: IntoLossSum<B>>(
        &mut self,
        items: &[Sample],
        loss: impl Fn(&Cnn<B>, Samples<B>) -> L + Sync,
    ) -> Report {
        let report = Trainer::step(self, items, &SampleBatcher, loss).unwrap();
        assert_eq!(report.learning_rate.is_none(), report.skipped.is_some());
        Report {
            loss: report.loss.to_bits(),
            weight: report.weight.to_bits(),
            norm: report.norm.to_bits(),
            skipped: report.skipped,
            gradients: Vec::new(),
        }
    }

    fn state(&self) -> State {
        (hash(self.model().unwrap()), adam_state(self.optimizer()))
    }

    fn applied_steps(&mut self) -> u64 {
        self.nodes().applied_steps()
    }
}
