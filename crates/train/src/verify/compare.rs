//! How far two trainings are apart.

use super::report::{BackendReport, LayerReport};
use super::run::Trained;

/// A layer whose largest gradient is this much smaller than the largest of all has none to speak of:
/// what it has is rounding, as the bias of a convolution before batch norm.
const NO_GRADIENT: f64 = 1e-6;

/// Gradients by module path.
type Gradients = [(String, Vec<f32>)];

/// Compares a training with the reference.
pub(super) fn with_reference(
    name: String,
    trained: &Trained,
    reference: &Trained,
    tolerance: f64,
) -> BackendReport {
    let losses = trained.losses.iter().zip(&reference.losses);
    let losses = losses.map(|(got, expected)| relative(got - expected, expected.abs()));
    BackendReport {
        name,
        same_initial_weights: trained.initial == reference.initial,
        repeats: None,
        placements: Vec::new(),
        loss_difference: losses.fold(0.0, f64::max),
        layers: layers(&trained.gradients, &reference.gradients),
        tolerance,
        score: None,
        step_seconds: trained.step_seconds,
    }
}

fn layers(got: &Gradients, expected: &Gradients) -> Vec<LayerReport> {
    let threshold = NO_GRADIENT
        * expected
            .iter()
            .map(|(_, values)| largest(values))
            .fold(0.0, f64::max);
    let only_got = got
        .iter()
        .filter(|(path, _)| !expected.iter().any(|(other, _)| other == path));
    let paths = expected.iter().chain(only_got).map(|(path, _)| path);
    let layer = |path: &String| LayerReport {
        path: path.clone(),
        difference: layer_difference(find(got, path), find(expected, path), threshold),
    };
    paths.map(layer).collect()
}

/// The gradient of a path; nothing where there is none.
fn find<'a>(gradients: &'a Gradients, path: &str) -> &'a [f32] {
    let found = gradients.iter().find(|(other, _)| other == path);
    found.map_or(&[], |(_, values)| values)
}

/// None where neither has a gradient to speak of; an absent one is as far as can be from a present
/// one.
fn layer_difference(got: &[f32], expected: &[f32], threshold: f64) -> Option<f64> {
    let scale = largest(expected);
    if scale <= threshold && largest(got) <= threshold {
        return None;
    }
    if got.len() != expected.len() {
        return Some(f64::INFINITY);
    }
    Some(difference(got, expected, scale.max(threshold)))
}

/// The largest absolute value; infinity if one is no number.
fn largest(values: &[f32]) -> f64 {
    let size = |value: &f32| {
        if value.is_nan() {
            f64::INFINITY
        } else {
            f64::from(value.abs())
        }
    };
    values.iter().map(size).fold(0.0, f64::max)
}

/// The largest difference, in units of the largest expected element.
fn difference(got: &[f32], expected: &[f32], scale: f64) -> f64 {
    let pairs = got.iter().zip(expected);
    let apart =
        pairs.map(|(got, expected)| relative(f64::from(*got) - f64::from(*expected), scale));
    apart.fold(0.0, f64::max)
}

/// `difference / scale`, where what is no number is infinitely far.
fn relative(difference: f64, scale: f64) -> f64 {
    match difference.abs() {
        0.0 => 0.0,
        apart if apart.is_finite() && scale > 0.0 => apart / scale,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, values: &[f32]) -> (String, Vec<f32>) {
        (path.to_owned(), values.to_vec())
    }

    #[test]
    fn layers_are_compared_by_their_own_largest_gradient() {
        let expected = [named("a", &[10.0, 1.0]), named("b", &[0.1, 0.2])];
        let got = [named("a", &[10.0, 1.5]), named("b", &[0.1, 0.1])];
        let differences: Vec<_> = layers(&got, &expected)
            .iter()
            .map(|l| l.difference)
            .collect();
        assert!((differences[0].unwrap() - 0.05).abs() < 1e-7);
        assert!((differences[1].unwrap() - 0.5).abs() < 1e-7);
    }

    #[test]
    fn layers_without_a_true_gradient_are_left_out() {
        let expected = [named("bias", &[1e-9]), named("weight", &[1.0])];
        let got = [named("bias", &[-3e-9]), named("weight", &[1.0])];
        let layers = layers(&got, &expected);
        assert_eq!(layers[0].difference, None);
        assert_eq!(layers[1].difference, Some(0.0));
    }

    #[test]
    fn gradients_where_the_reference_has_none_are_found() {
        let expected = [named("bias", &[1e-9]), named("weight", &[1.0])];
        let got = [
            named("bias", &[0.5]),
            named("weight", &[1.0]),
            named("extra", &[1.0]),
        ];
        let layers = layers(&got, &expected);
        assert!(layers[0].difference.unwrap() > 1.0);
        assert_eq!(layers[2].difference, Some(f64::INFINITY));
    }

    #[test]
    fn gradients_that_are_absent_or_no_numbers_are_infinitely_far() {
        let expected = [named("a", &[1.0]), named("b", &[1.0])];
        let got = [named("a", &[f32::NAN])];
        let differences: Vec<_> = layers(&got, &expected)
            .iter()
            .map(|l| l.difference)
            .collect();
        assert_eq!(differences, [Some(f64::INFINITY); 2]);
    }
}
