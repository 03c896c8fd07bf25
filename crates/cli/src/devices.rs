//! Devices by name.

use std::fmt;
use std::str::FromStr;

use crate::args::{MOST_DEVICES, PlacingArgs};
use crate::backend::{Hardware, Kind};
use crate::error::RunError;

/// A device of a backend that this build has, as `flex:0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    kind: Kind,
    index: usize,
}

impl PlacingArgs {
    /// The backend of all devices, at least one and not too many.
    pub(crate) fn kind(&self) -> Result<Kind, RunError> {
        let [first, others @ ..] = &self.devices[..] else {
            return Err(RunError::Devices(0));
        };
        if self.devices.len() > MOST_DEVICES {
            return Err(RunError::Devices(self.devices.len()));
        }
        match others.iter().find(|other| other.kind != first.kind) {
            Some(other) => Err(RunError::Mixed(first.kind, other.kind)),
            None => Ok(first.kind),
        }
    }

    /// The devices as Burn knows them, if all of them are there.
    pub(crate) fn on<B: Hardware>(&self) -> Result<Vec<B::Device>, RunError> {
        let present = |(rank, device): (usize, &Device)| {
            let on = B::device(device.index);
            // Ranks may share a device: looking for it once is enough.
            let seen = self.devices[..rank].contains(device);
            match (!seen).then(|| B::missing(&on)).flatten() {
                None => Ok(on),
                Some(reason) => Err(RunError::Missing {
                    device: device.to_string(),
                    reason,
                }),
            }
        };
        self.devices.iter().enumerate().map(present).collect()
    }

    /// The devices' names.
    pub(crate) fn names(&self) -> Vec<String> {
        self.devices.iter().map(Device::to_string).collect()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.index)
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, index) = text
            .split_once(':')
            .ok_or_else(|| "expected BACKEND:INDEX, as flex:0".to_owned())?;
        let kind = kind.parse()?;
        let index = index
            .parse()
            .map_err(|_| format!("expected a device index from 0, got '{index}'"))?;
        Ok(Self { kind, index })
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
        assert!(refuse("gpu:0").contains("unknown backend 'gpu': this build has flex"));
        assert!(refuse("flex:x").contains("got 'x'"));
        assert!(refuse("flex:-1").contains("got '-1'"));
        assert!(refuse("flex").contains("BACKEND:INDEX"));
        assert!(refuse("").contains("BACKEND:INDEX"));
    }
}
