//! The backends of this build, by the names that `--devices` takes.

use std::fmt;
use std::str::FromStr;

use burn::backend::Autodiff;
use burn_virtual::backend::VirtualBackend;
use burn_virtual::nodes::VirtualAutodiff;

/// A backend to train on.
pub(crate) trait Hardware: VirtualAutodiff {
    /// Its name on the command line.
    const NAME: &'static str;

    /// Whether it gives the same bits from run to run.
    const REPEATS: bool;

    /// The device of an index.
    fn device(index: usize) -> Self::Device;
}

/// A table of backends: feature, variant, name, whether it repeats its bits, inner backend, device
/// of an index.
macro_rules! backends {
    ($($(#[$feature:meta])? $kind:ident $name:literal $repeats:literal: $inner:ty, $device:expr;)*) => {
        /// Which backend.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($(#[$feature])? $kind,)*
        }

        impl Kind {
            /// All that this build has.
            pub(crate) const ALL: &[Self] = &[$($(#[$feature])? Self::$kind,)*];

            /// The name on the command line.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $($(#[$feature])? Self::$kind => $name,)*
                }
            }

            /// Runs something on the backend.
            pub(crate) fn run<R: OnBackend>(self, on: R) -> R::Output {
                match self {
                    $($(#[$feature])? Self::$kind => on.run::<Autodiff<VirtualBackend<$inner>>>(),)*
                }
            }
        }

        $($(#[$feature])? impl Hardware for Autodiff<VirtualBackend<$inner>> {
            const NAME: &'static str = $name;
            const REPEATS: bool = $repeats;

            fn device(index: usize) -> Self::Device {
                let device: fn(usize) -> Self::Device = $device;
                device(index)
            }
        })*
    };
}

backends! {
    // One device, the CPU; its indices name ranks that share it.
    Flex "flex" true: burn_flex::Flex, |_| burn_flex::FlexDevice;
    #[cfg(feature = "ndarray")]
    NdArray "ndarray" false: burn_ndarray::NdArray, |_| burn_ndarray::NdArrayDevice::Cpu;
}

/// Something that runs on any backend.
pub(crate) trait OnBackend {
    /// What it comes to.
    type Output;

    /// Runs it.
    fn run<B: Hardware>(self) -> Self::Output;
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|kind| kind.name() == text);
        known.copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!(
                "unknown backend '{text}': this build has {}",
                names.join(", ")
            )
        })
    }
}
