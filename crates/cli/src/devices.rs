//! Devices by name.

use std::fmt;
use std::str::FromStr;

use burn_flex::FlexDevice;

use crate::args::MOST_DEVICES;
use crate::error::RunError;

/// A device of a backend that this build has, as `flex:0`.
///
/// Flex has one device, the CPU; its indices name ranks that share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    index: usize,
}

impl Device {
    /// The device as Burn knows it.
    pub(crate) fn flex(self) -> FlexDevice {
        FlexDevice
    }
}

/// Refuses more devices than a process can well have ranks.
pub(crate) fn check_count(devices: &[Device]) -> Result<(), RunError> {
    match devices.len() {
        count if count > MOST_DEVICES => Err(RunError::Devices(count)),
        _ => Ok(()),
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flex:{}", self.index)
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (backend, index) = text
            .split_once(':')
            .ok_or_else(|| "expected BACKEND:INDEX, as flex:0".to_owned())?;
        if backend != "flex" {
            return Err(format!("unknown backend '{backend}': this build has flex"));
        }
        let index = index
            .parse()
            .map_err(|_| format!("expected a device index from 0, got '{index}'"))?;
        Ok(Self { index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_round_trip_when_well_formed() {
        assert_eq!("flex:3".parse::<Device>().unwrap().to_string(), "flex:3");
    }

    #[test]
    fn devices_are_refused_by_name_when_unknown() {
        let refuse = |text: &str| text.parse::<Device>().unwrap_err();
        assert!(refuse("gpu:0").contains("unknown backend 'gpu'"));
        assert!(refuse("flex:x").contains("got 'x'"));
        assert!(refuse("flex:-1").contains("got '-1'"));
        assert!(refuse("flex").contains("BACKEND:INDEX"));
        assert!(refuse("").contains("BACKEND:INDEX"));
    }
}
