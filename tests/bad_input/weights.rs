//! What a loss may not weigh.

use burn_virtual::nodes::{LossSum, NodeError, Session};

use crate::B;
use crate::common::{Cnn, SampleBatcher, Samples, weighted_loss};
use crate::failure::{assert_failure_leaves_no_trace, at, node_error, with_sample_5};

#[test]
fn weight_that_is_negative_or_not_finite_is_refused() {
    for weight in [f64::NAN, f64::INFINITY, -1.0] {
        let bad = |session: &mut Session<B>, model: &Cnn<B>| {
            let items = with_sample_5(9, |item| item.weight = 50.0);
            let loss = |model: &Cnn<B>, micro: Samples<B>| {
                let heavy = micro.weight > 50.0;
                let loss = weighted_loss(model, micro);
                LossSum {
                    weight: if heavy { weight } else { loss.weight },
                    ..loss
                }
            };
            let error = session
                .backward(model, &items, &SampleBatcher, loss)
                .unwrap_err();
            Some(node_error(&error, |source| {
                matches!(source, NodeError::Weight(_))
            }))
        };
        assert_failure_leaves_no_trace(bad, |shares| {
            vec![at(shares, 1, 2), format!("got {weight}")]
        });
    }
}
