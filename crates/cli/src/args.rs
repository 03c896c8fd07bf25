//! The command line, as clap reads it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};

use crate::backend::Kind;
use crate::devices::Device;

/// Deep-learning training on virtual nodes: the same bits on any hardware.
#[derive(Debug, Parser)]
#[command(name = "burn-virtual", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on the built-in handwritten digits.
    Train(TrainArgs),
    /// Run a trained model on the held-out digits.
    Predict(PredictArgs),
    /// Train the same job on several placements and every backend of this build, and compare.
    Verify(VerifyArgs),
}

/// `burn-virtual train`.
#[derive(Debug, clap::Args)]
pub(crate) struct TrainArgs {
    /// The model.
    #[arg(long, value_enum, default_value_t = Model::DigitsCnn)]
    pub(crate) model: Model,

    /// How many virtual nodes share each batch, or `auto`: as few as fit the --memory-limit. Decides
    /// the result.
    #[arg(long, default_value = "8", value_name = "V")]
    pub(crate) virtual_nodes: VirtualNodes,

    /// The tensor bytes that a rank may hold; ranks on one device share its memory. A job that
    /// doesn't fit is refused before its first step. Partial sums in host memory are not among them.
    #[arg(long, value_name = "BYTES", value_parser = at_least_one)]
    pub(crate) memory_limit: Option<NonZeroUsize>,

    /// Samples of one step, over all virtual nodes. Decides the result.
    #[arg(long, default_value = "64", value_name = "N", value_parser = at_least_one)]
    pub(crate) batch_size: NonZeroUsize,

    #[command(flatten)]
    pub(crate) placing: PlacingArgs,

    /// Stop after this many steps.
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with = "epochs")]
    pub(crate) steps: Option<NonZeroUsize>,

    /// Stop after this many passes over the training data [default: 12].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) epochs: Option<NonZeroUsize>,

    /// Seeds initial weights, data order and dropout.
    #[arg(long, default_value = "42", allow_hyphen_values = true)]
    pub(crate) seed: u64,

    /// The optimizer.
    #[arg(long, value_enum, default_value_t = Optimizer::Adam)]
    pub(crate) optimizer: Optimizer,

    /// The learning rate [default: 0.002 for adam and adamw, 0.1 for sgd].
    #[arg(long, value_name = "X", value_parser = learning_rate, allow_hyphen_values = true)]
    pub(crate) lr: Option<f64>,

    /// Leave the trained weights in this folder, as weights.safetensors.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print the result as one JSON object on the last line of stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `burn-virtual predict`.
#[derive(Debug, clap::Args)]
pub(crate) struct PredictArgs {
    /// The model.
    #[arg(long, value_enum)]
    pub(crate) model: Model,

    /// Its weights, as `train --out` leaves them.
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: PathBuf,

    /// How many virtual nodes share each batch: more of them need less memory.
    #[arg(long, default_value = "8", value_name = "V", value_parser = virtual_nodes)]
    pub(crate) virtual_nodes: NonZeroUsize,

    /// Samples of one batch, over all virtual nodes.
    #[arg(long, default_value = "64", value_name = "N", value_parser = at_least_one)]
    pub(crate) batch_size: NonZeroUsize,

    #[command(flatten)]
    pub(crate) placing: PlacingArgs,

    /// Print the result as one JSON object on the last line of stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A built-in model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Model {
    /// Convolutions, batch normalisation and dropout.
    DigitsCnn,
    /// Two hidden layers and dropout.
    DigitsMlp,
}

/// A supported optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Optimizer {
    /// Adam.
    Adam,
    /// Gradient descent with momentum 0.9.
    Sgd,
    /// Adam with decoupled weight decay.
    Adamw,
}

/// `burn-virtual verify`.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The model.
    #[arg(long, value_enum, default_value_t = Model::DigitsCnn)]
    pub(crate) model: Model,

    /// Steps of each training.
    #[arg(long, default_value = "20", value_name = "N", value_parser = at_least_one)]
    pub(crate) steps: NonZeroUsize,

    /// The backends, the reference first [default: all of this build that have a device here].
    #[arg(long, value_delimiter = ',', value_name = "BACKENDS")]
    pub(crate) backends: Vec<Kind>,

    /// How many virtual nodes share each batch.
    #[arg(long, default_value = "8", value_name = "V", value_parser = virtual_nodes)]
    pub(crate) virtual_nodes: NonZeroUsize,

    /// Samples of one step, over all virtual nodes.
    #[arg(long, default_value = "64", value_name = "N", value_parser = at_least_one)]
    pub(crate) batch_size: NonZeroUsize,

    /// Seeds initial weights, data order and dropout.
    #[arg(long, default_value = "42", allow_hyphen_values = true)]
    pub(crate) seed: u64,

    /// Print the result as one JSON object on the last line of stdout.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a command runs.
#[derive(Debug, clap::Args)]
pub(crate) struct PlacingArgs {
    /// One rank per device, as BACKEND:INDEX. Does not change the result. On CPU backends every index
    /// is the processor; wgpu:0 is the best adapter, wgpu:1 the second discrete GPU.
    #[arg(
        long,
        default_value = "flex:0",
        value_delimiter = ',',
        value_name = "DEVICES"
    )]
    pub(crate) devices: Vec<Device>,
}

/// How many virtual nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VirtualNodes {
    /// This many.
    Count(NonZeroUsize),
    /// As few as fit the memory limit.
    Auto,
}

impl FromStr for VirtualNodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => virtual_nodes(text)
                .map(Self::Count)
                .map_err(|expected| format!("{expected}, or auto")),
        }
    }
}

/// Each device is a thread here, with a queue to each other one.
pub(crate) const MOST_DEVICES: usize = 256;

/// A step visits every virtual node, the empty ones too: a typing error should not take hours.
const MOST_VIRTUAL_NODES: usize = 1 << 16;

fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "expected a whole number of at least 1".to_owned())
}

fn virtual_nodes(text: &str) -> Result<NonZeroUsize, String> {
    at_least_one(text)
        .ok()
        .filter(|count| count.get() <= MOST_VIRTUAL_NODES)
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_VIRTUAL_NODES}"))
}

fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // In single precision, as it will be used.
        Ok(rate) if (rate as f32).is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("expected a finite number above 0".to_owned()),
    }
}
