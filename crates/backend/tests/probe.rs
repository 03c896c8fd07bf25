//! The bit probe: equal where the bits are equal, whoever asks and when.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests: a panic is how a test fails"
)]

mod common;

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Backend, Distribution, FloatDType, TensorData};
use burn_flex::Flex;
use burn_ndarray::NdArray;
use burn_virtual_backend::{Meter, Probe, Scope, VirtualBackend, enter, probe, take_fault};

use common::{on_threads, read_float};

type V = VirtualBackend<Flex>;

fn of_flex() -> Probe {
    probe::<Flex>(&Default::default()).unwrap()
}

fn draw() -> TensorData {
    read_float::<V>(V::float_random(
        [8].into(),
        Distribution::Default,
        &Default::default(),
        FloatDType::F32,
    ))
}

#[test]
fn probe_repeats() {
    assert_eq!(of_flex(), of_flex());
}

#[test]
fn probe_is_equal_on_another_thread() {
    assert_eq!(std::thread::spawn(of_flex).join().unwrap(), of_flex());
}

#[test]
fn probe_is_equal_under_any_number_of_rayon_threads() {
    let probes = [1, 2, 8].map(|threads| on_threads(threads, of_flex));
    assert_eq!(probes, [of_flex(); 3]);
}

#[test]
fn probe_is_equal_whatever_the_thread_was_seeded_with() {
    let unseeded = std::thread::spawn(of_flex).join().unwrap();
    V::seed(&Default::default(), 1);
    assert_eq!(of_flex(), unseeded);
    let _scope = enter(Scope::Step { step: 3 });
    assert_eq!(of_flex(), unseeded);
    assert_eq!(take_fault(), None);
}

#[test]
fn probe_of_another_kernel_library_differs() {
    let ndarray = probe::<NdArray>(&Default::default()).unwrap();
    assert_ne!(ndarray, of_flex());
}

#[test]
fn probe_of_the_decorated_backend_equals_that_of_the_backend() {
    assert_eq!(probe::<V>(&Default::default()).unwrap(), of_flex());
}

#[test]
fn probe_shows_as_16_hex_digits() {
    let shown = of_flex().to_string();
    assert_eq!(shown.len(), 16);
    assert!(
        shown
            .chars()
            .all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c)),
        "{shown}"
    );
    assert_ne!(shown, "0000000000000000");
    assert_eq!(shown, of_flex().to_string());
}

#[test]
fn probe_leaves_the_seeded_stream_as_it_was() {
    let device = Default::default();
    V::seed(&device, 42);
    let straight = [draw(), draw()];
    V::seed(&device, 42);
    let first = draw();
    of_flex();
    assert_eq!([first, draw()], straight);
}

#[test]
fn probe_leaves_a_virtual_nodes_stream_as_it_was() {
    let node = Scope::Node {
        seed: 1,
        step: 2,
        node: 3,
    };
    let straight = {
        let _scope = enter(node);
        [draw(), draw()]
    };
    let _scope = enter(node);
    let first = draw();
    of_flex();
    assert_eq!([first, draw()], straight);
}

#[test]
fn probe_leaves_nothing_alive() {
    let meter = Meter::new();
    let _listening = meter.listen();
    of_flex();
    assert_eq!(meter.live(), 0);
    assert!(meter.peak() > 0);
}

#[cfg(any(feature = "wgpu", feature = "cuda"))]
mod gpu {
    use burn_virtual_backend::Virtual;

    use super::*;

    common::on_gpus! {
        probe_is_equal_ten_times
        probe_is_equal_on_threads_that_take_it_at_once
        probe_of_the_decorated_backend_equals_that_of_the_backend
    }

    fn of<B: Backend>() -> Probe {
        probe::<B>(&Default::default()).unwrap()
    }

    fn probe_is_equal_ten_times<V: Virtual>() {
        let first = of::<V::Inner>();
        assert_eq!([(); 10].map(|()| of::<V::Inner>()), [first; 10]);
        assert_ne!(first, of_flex());
    }

    fn probe_is_equal_on_threads_that_take_it_at_once<V: Virtual>() {
        let expected = of::<V::Inner>();
        std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(|| [(); 3].map(|()| of::<V::Inner>())));
            for thread in threads {
                assert_eq!(thread.join().unwrap(), [expected; 3]);
            }
        });
    }

    fn probe_of_the_decorated_backend_equals_that_of_the_backend<V: Virtual>() {
        assert_eq!(of::<V>(), of::<V::Inner>());
    }
}
