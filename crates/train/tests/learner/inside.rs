//! User code that uses the handle from inside a step.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use burn::data::dataloader::batcher::Batcher;
use burn::tensor::backend::Backend;
use burn_flex::FlexDevice;
use burn_virtual_train::learner::{Handle, Virtual};
use burn_virtual_train::{TrainError, VirtualNodes};

use crate::common::{B, Classifier, Item, ItemBatcher, Items, items};

/// A batcher that looks at the job it is in, or tries to change it.
#[derive(Clone, Default)]
struct Curious {
    handle: Arc<OnceLock<Handle<B>>>,
    resizes: bool,
    seen: Arc<Mutex<Vec<u64>>>,
    refused: Arc<Mutex<Vec<String>>>,
}

impl<A: Backend> Batcher<A, Item, Items<A>> for Curious {
    fn batch(&self, items: Vec<Item>, device: &A::Device) -> Items<A> {
        let handle = self.handle.get().unwrap();
        self.seen
            .lock()
            .unwrap()
            .push(handle.status().applied_steps);
        if self.resizes
            && let Err(error) = handle.resize([FlexDevice])
        {
            assert!(matches!(error, TrainError::Busy { .. }), "{error}");
            self.refused.lock().unwrap().push(error.to_string());
        }
        ItemBatcher.batch(items, device)
    }
}

fn step_twice(batcher: &Curious) {
    for ranks in [1, 2] {
        let mut model = Classifier::<B>::full();
        let nodes = VirtualNodes::new(2)
            .devices(vec![FlexDevice; ranks])
            .first_timeout(Duration::from_millis(50))
            .timeout(Duration::from_secs(10))
            .start(&mut model)
            .unwrap();
        let batcher = Curious {
            handle: Arc::default(),
            ..batcher.clone()
        };
        let handle = Arc::clone(&batcher.handle);
        let model: Virtual<B, _, _, Item> = Virtual::new(nodes, model, batcher);
        handle.set(model.handle()).unwrap();
        for _ in 0..2 {
            model.try_step(&items(4)).unwrap();
        }
        assert_eq!(model.handle().status().applied_steps, 2);
    }
}

#[test]
fn status_is_that_of_the_step_before_inside_a_step() {
    let batcher = Curious::default();
    step_twice(&batcher);
    assert_eq!(*batcher.seen.lock().unwrap(), [0, 0, 1, 1, 0, 0, 1, 1]);
}

#[test]
fn resizing_is_refused_inside_a_step() {
    let batcher = Curious {
        resizes: true,
        ..Curious::default()
    };
    step_twice(&batcher);
    assert_eq!(batcher.refused.lock().unwrap().len(), 8);
}
