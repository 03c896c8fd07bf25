//! What a verification trains.

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
