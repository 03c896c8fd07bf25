//! The backend of this build.

use burn::backend::Autodiff;
use burn_flex::{Flex, FlexDevice};
use burn_virtual::backend::VirtualBackend;

/// The backend that runs a model.
pub(crate) type Inner = VirtualBackend<Flex>;

/// The backend that trains it.
pub(crate) type B = Autodiff<Inner>;

/// Where a model is made.
pub(crate) const DEVICE: FlexDevice = FlexDevice;

/// Its name, as in `--devices`.
pub(crate) const NAME: &str = "flex";
