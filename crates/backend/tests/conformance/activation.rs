//! `ActivationOps`.

use burn_backend::Scalar;

use crate::cases;

cases! { T, x;
    float leaky_relu(x.f([5, 7]), Scalar::from(0.1));
    float relu(x.f([5, 7]));
    float relu(x.odd([5, 7]));
    float relu(x.f([0, 7]));
    float relu_backward(x.f([5, 7]), x.f([5, 7]));
    float gelu(x.f([5, 7]));
    float prelu(x.f([2, 3, 5]), x.f([1, 3, 1]));
    float prelu(x.f([5, 7]), x.f([1]));
    float gelu_backward(x.f([5, 7]), x.f([5, 7]));
    float sigmoid(x.f([5, 7]));
    float sigmoid_backward(x.within(0.0, 1.0, [5, 7]), x.f([5, 7]));
    float hard_sigmoid(x.f([5, 7]), Scalar::from(0.3), Scalar::from(0.4));
    float log_sigmoid(x.f([5, 7]));
    float softmax(x.f([2, 5, 7]), 0);
    float softmax(x.f([2, 5, 7]), 1);
    float softmax(x.f([2, 5, 7]), 2);
    float log_softmax(x.f([2, 5, 7]), 1);
    float log_softmax(x.f([2, 5, 7]), 2);
    float softmin(x.f([2, 5, 7]), 1);
    float softmin(x.f([2, 5, 7]), 2);
    float log_sigmoid_backward(x.f([5, 7]), x.f([5, 7]));
}
