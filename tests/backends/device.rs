//! A device that does not exist is named, and harms no other.

use burn::tensor::{Tensor, TensorData};
use burn_virtual::backend::WgpuDevice;
use burn_virtual::nodes::{LossSum, Session, TrainError, VirtualNodes};

use crate::common::{OnWgpu, OneParam, gradient};

const MISSING: WgpuDevice = WgpuDevice::DiscreteGpu(99);

#[track_caller]
fn assert_names_the_device<T>(result: Result<T, TrainError>) {
    let error = result.err().unwrap();
    assert!(matches!(error, TrainError::Device { .. }), "{error}");
    assert!(error.to_string().contains("DiscreteGpu(99)"), "{error}");
}

fn assert_steps(session: &mut Session<OnWgpu>, model: &OneParam<OnWgpu>) {
    let data = TensorData::new(vec![1.0_f32, 2.0, 6.0, 7.0], [4, 1]);
    let batch = Tensor::<OnWgpu, 2>::from_data(data, &Default::default());
    let out = session.backward_batch(model, &batch, |model, micro: Tensor<OnWgpu, 2>| LossSum {
        weight: micro.dims()[0] as f64,
        sum: (micro * model.w.val().unsqueeze::<2>()).sum(),
    });
    assert_eq!(gradient(&out.unwrap(), &model.w), Some(vec![4.0]));
}

#[test]
fn start_names_a_device_that_does_not_exist() {
    let mut model = OneParam::<OnWgpu>::new(&[1.0]);
    let present = WgpuDevice::default();
    // Twice: the second time, Burn has tried before.
    for devices in [vec![MISSING], vec![present.clone(), MISSING], vec![MISSING]] {
        assert_names_the_device(
            VirtualNodes::new(2)
                .devices(devices.clone())
                .start(&mut model),
        );
        assert_names_the_device(VirtualNodes::new(2).devices(devices).predictor(&model));
    }
    let nodes = VirtualNodes::new(2).devices([present]);
    assert_steps(&mut nodes.start(&mut model).unwrap(), &model);
}

#[test]
fn resize_names_a_device_that_does_not_exist_and_changes_nothing() {
    let mut model = OneParam::<OnWgpu>::new(&[1.0]);
    let mut session = VirtualNodes::new(2).start(&mut model).unwrap();
    assert_steps(&mut session, &model);
    assert_names_the_device(session.resize([WgpuDevice::default(), MISSING]));
    assert_eq!(session.placement().ranks(), 1);
    assert_steps(&mut session, &model);
}
