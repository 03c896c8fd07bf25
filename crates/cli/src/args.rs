//! The command line, as clap reads it.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use burn_virtual::distributed::Reduce;
use clap::{Parser, Subcommand, ValueEnum};

use crate::backend::Kind;
use crate::bench::BenchArgs;
use crate::devices::Device;
#[cfg(unix)]
use crate::launch::{GuardArgs, LaunchArgs, TetherArgs};

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
    /// Measure what collectives take.
    Bench(BenchArgs),
    /// Start several processes of a job, and stop all if one fails.
    #[cfg(unix)]
    Launch(LaunchArgs),
    #[cfg(unix)]
    #[command(hide = true)]
    Tether(TetherArgs),
    #[cfg(unix)]
    #[command(hide = true)]
    Guard(GuardArgs),
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

    /// How the gradients of the ranks are added: along the tree of virtual nodes, or with the fewest
    /// bytes for every placement. All but `ordered` let the bits depend on the placement.
    #[arg(long, default_value_t, value_name = "ordered|ring|halving-doubling")]
    pub(crate) reduce: Reduce,

    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,

    /// Accept ranks that do not compute the same bits: the result then depends on the placement.
    #[arg(long)]
    pub(crate) allow_drift: bool,

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

/// How long ranks wait for each other.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitingArgs {
    /// The longest that a rank waits for others in a step, before that is an error.
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Duration,

    /// The same until the first step is over: others may still have to start, or to compile kernels.
    #[arg(long, default_value = "300", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) first_timeout: Duration,

    /// Say which ranks are missing each time that a rank has waited so long.
    #[arg(long, default_value = "10", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) stall_after: Duration,
}

/// Where a command runs.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlacingArgs {
    /// One rank per device, as BACKEND:INDEX. Does not change the result. On CPU backends every index
    /// is the processor; wgpu:0 is the best adapter, wgpu:1 the second discrete GPU. Under `launch`,
    /// the devices of one host: one for all its processes, or one for each.
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

/// The ranks of a job, one a device: each is a thread or a process, with a way to each other one.
pub(crate) const MOST_DEVICES: usize = 256;

/// 30 years or so: a clock has room for it.
const LONGEST: Duration = Duration::from_secs(1_000_000_000);

/// A step visits every virtual node, the empty ones too: a typing error should not take hours.
const MOST_VIRTUAL_NODES: usize = 1 << 16;

pub(crate) fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| "expected a whole number of at least 1".to_owned())
}

pub(crate) fn virtual_nodes(text: &str) -> Result<NonZeroUsize, String> {
    up_to(MOST_VIRTUAL_NODES, text)
}

/// Ranks of a job.
pub(crate) fn ranks(text: &str) -> Result<usize, String> {
    up_to(MOST_DEVICES, text).map(NonZeroUsize::get)
}

fn up_to(most: usize, text: &str) -> Result<NonZeroUsize, String> {
    at_least_one(text)
        .ok()
        .filter(|count| count.get() <= most)
        .ok_or_else(|| format!("expected a whole number from 1 to {most}"))
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().map(Duration::try_from_secs_f64);
    seconds
        .and_then(Result::ok)
        .filter(|seconds| !seconds.is_zero() && *seconds <= LONGEST)
        .ok_or_else(|| {
            let most = LONGEST.as_secs();
            format!("expected a number of seconds above 0, up to {most}")
        })
}

fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // In single precision, as it will be used.
        Ok(rate) if (rate as f32).is_finite() && rate > 0.0 => Ok(rate),
        _ => Err("expected a finite number above 0".to_owned()),
    }
}
