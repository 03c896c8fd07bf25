//! A plain Burn loop on virtual nodes, with a model, data and a batcher of one's own.
//!
//! The model learns which points of a square lie inside a circle. It knows nothing of virtual nodes:
//! what is taken over is the batched forward and backward, `nodes.backward`. The weights have the
//! same SHA-256 on one device as on three.

use std::error::Error;

use burn::backend::Autodiff;
use burn::data::dataloader::batcher::Batcher;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, Optimizer};
use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use burn_flex::{Flex, FlexDevice as Cpu};
use burn_virtual::backend::VirtualBackend;
use burn_virtual::models::Epoch;
use burn_virtual::nodes::{VirtualNodes, WeightsHash, cross_entropy_sum};

type V = VirtualBackend<Flex>;
type B = Autodiff<V>;

#[derive(Clone)]
struct Point {
    place: [f32; 2],
    inside: bool,
}

/// A grid over the square from -1 to 1.
fn points() -> Vec<Point> {
    let at = |index: usize| index as f32 / 12.0 - 1.0;
    let point = |index: usize| {
        let place = [at(index / 25), at(index % 25)];
        let inside = place.iter().map(|x| x * x).sum::<f32>() < 0.5;
        Point { place, inside }
    };
    (0..625).map(point).collect()
}

/// Makes tensors of points when a virtual node's turn comes.
struct PointBatcher;

struct Points<B: Backend> {
    places: Tensor<B, 2>,
    classes: Tensor<B, 1, Int>,
}

impl<B: Backend> Batcher<B, Point, Points<B>> for PointBatcher {
    fn batch(&self, items: Vec<Point>, device: &B::Device) -> Points<B> {
        let places: Vec<f32> = items.iter().flat_map(|item| item.place).collect();
        let classes: Vec<i32> = items.iter().map(|item| item.inside.into()).collect();
        Points {
            places: Tensor::from_data(TensorData::new(places, [items.len(), 2]), device),
            classes: Tensor::from_data(TensorData::new(classes, [items.len()]), device),
        }
    }
}

#[derive(Module, Debug)]
struct Model<B: Backend> {
    hidden: Linear<B>,
    output: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn new(device: &B::Device) -> Self {
        Self {
            hidden: LinearConfig::new(2, 32).init(device),
            output: LinearConfig::new(32, 2).init(device),
        }
    }

    fn forward(&self, places: Tensor<B, 2>) -> Tensor<B, 2> {
        self.output.forward(self.hidden.forward(places).tanh())
    }
}

struct Outcome {
    first_loss: f64,
    last_loss: f64,
    accuracy: f64,
    weights: WeightsHash,
}

fn train(devices: Vec<Cpu>) -> Result<Outcome, Box<dyn Error>> {
    let points = points();
    let mut model = Model::<B>::new(&Cpu);
    let mut optim = AdamConfig::new().init();
    let mut nodes = VirtualNodes::new(8)
        .seed(42)
        .devices(devices)
        .start(&mut model)?;

    let mut losses = Vec::new();
    for epoch in 0..30 {
        for items in Epoch::new(&points, 42, epoch).batches(64)? {
            let out = nodes.backward(&model, items, &PointBatcher, |model, micro| {
                cross_entropy_sum(model.forward(micro.places), micro.classes)
            })?;
            losses.push(out.loss);
            model = optim.step(0.03, model, out.grads);
        }
    }

    let count_right = |model: &Model<V>, micro: Points<V>| {
        let named = model.forward(micro.places).argmax(1).flatten::<1>(0, 1);
        let right = named.equal(micro.classes).int().sum().into_scalar();
        [f64::from(right)]
    };
    let [right] = nodes.evaluate(&model, &points, &PointBatcher, count_right)?;
    Ok(Outcome {
        first_loss: losses[0],
        last_loss: losses[losses.len() - 1],
        accuracy: right / points.len() as f64,
        weights: WeightsHash::of(&model)?,
    })
}

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let one = train(vec![Cpu])?;
    let three = train(vec![Cpu, Cpu, Cpu])?;

    println!(
        "loss {:.4} to {:.4}, accuracy {:.4}",
        one.first_loss, one.last_loss, one.accuracy
    );
    assert!(one.last_loss < one.first_loss / 4.0);
    assert!(one.accuracy > 0.97);

    println!("SHA-256 on one device and on three: {}", one.weights);
    assert_eq!(one.weights, three.weights);
    Ok(())
}
