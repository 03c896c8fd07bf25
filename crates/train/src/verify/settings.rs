//! What a verification trains.

use crate::TrainError;
use crate::predictor::check_batch_size;

/// The job that is trained on every placement and backend.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifySettings {
    /// Steps of Adam; 20 by default.
    pub steps: usize,
    /// Samples of one step; 64 by default.
    pub batch_size: usize,
    /// Virtual nodes; 8 by default.
    pub virtual_nodes: usize,
    /// The seed; 42 by default.
    pub seed: u64,
    /// The learning rate; 0.002 by default.
    pub learning_rate: f64,
    /// How far the gradients of a layer may be from the reference's, in units of its largest element;
    /// 5e-5 by default.
    pub tolerance: f64,
}

impl Default for VerifySettings {
    fn default() -> Self {
        Self {
            steps: 20,
            batch_size: 64,
            virtual_nodes: 8,
            seed: 42,
            learning_rate: 0.002,
            tolerance: 5e-5,
        }
    }
}

impl VerifySettings {
    /// Refuses settings that would compare nothing.
    pub(super) fn check(&self) -> Result<(), TrainError> {
        check_batch_size(self.batch_size)?;
        let setting = |what, expected, got| {
            Err(TrainError::Setting {
                what,
                expected,
                got,
            })
        };
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if self.steps == 0 {
            return setting("steps", "at least 1", self.steps.to_string());
        }
        if !positive(self.learning_rate) {
            let got = self.learning_rate.to_string();
            return setting("learning rate", "a finite number above 0", got);
        }
        if !positive(self.tolerance) {
            return setting(
                "tolerance",
                "a finite number above 0",
                self.tolerance.to_string(),
            );
        }
        Ok(())
    }
}
