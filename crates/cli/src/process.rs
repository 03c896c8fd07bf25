//! This process among those of its job.

use std::ops::Range;

use burn::module::AutodiffModule;
use burn_virtual::distributed::tcp::{self, Environment};
use burn_virtual::nodes::{Session, VirtualNodes};

use crate::args::{PlacingArgs, WaitingArgs};
use crate::backend::Hardware;
use crate::error::RunError;

/// The one process of a job, or one of several that a launcher started: then it is one rank.
pub(crate) struct Process(Option<Environment>);

/// Who runs on what.
pub(crate) struct Devices {
    /// The devices of this process.
    pub(crate) here: PlacingArgs,
    /// One for each rank of the job.
    pub(crate) everywhere: PlacingArgs,
}

impl Process {
    /// As the environment tells.
    pub(crate) fn read() -> Result<Self, RunError> {
        Ok(Self(Environment::read()?))
    }

    /// Refuses a command that one process does by itself: each of several would do it all.
    pub(crate) fn check_alone(command: &'static str) -> Result<(), RunError> {
        match Self::read()?.0 {
            None => Ok(()),
            Some(place) => Err(RunError::Alone {
                command,
                world: place.settings.job.world,
            }),
        }
    }

    /// Whether it is the one that shows progress and the result.
    pub(crate) fn speaks(&self) -> bool {
        self.rank() == 0
    }

    /// Its rank; the first of them where it is the only process.
    pub(crate) fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |place| place.settings.rank)
    }

    /// Shares the devices of this host out. A lone process has a rank on each; of several, each has
    /// its own device, or they have one together.
    pub(crate) fn devices(&self, placing: &PlacingArgs) -> Result<Devices, RunError> {
        let Some(place) = &self.0 else {
            return Ok(Devices {
                here: placing.clone(),
                everywhere: placing.clone(),
            });
        };
        let device = match placing.devices[..] {
            [device] => Ok([device].repeat(place.local_world)),
            ref devices if devices.len() == place.local_world => Ok(devices.to_vec()),
            ref devices => Err(RunError::Processes {
                expected: place.local_world,
                got: devices.len(),
            }),
        }?;
        // Ranks are counted host by host, as many on each.
        let devices = |ranks: Range<usize>| PlacingArgs {
            devices: ranks.map(|rank| device[rank % device.len()]).collect(),
        };
        Ok(Devices {
            here: devices(place.local_rank..place.local_rank + 1),
            everywhere: devices(0..place.settings.job.world),
        })
    }

    /// Starts a job, together with the other processes if there are any: those that are late are
    /// awaited for so long, and missed aloud.
    pub(crate) fn start<B: Hardware, M: AutodiffModule<B>>(
        &self,
        nodes: VirtualNodes<Vec<B::Device>>,
        model: &mut M,
        waiting: &WaitingArgs,
    ) -> Result<Session<B>, RunError> {
        let Some(place) = &self.0 else {
            return Ok(nodes.start(model)?);
        };
        let settings = tcp::Settings {
            timeout: waiting.first_timeout,
            stall: waiting.stall_after,
            ..place.settings.clone()
        };
        Ok(nodes.start_in(model, [tcp::join(&settings)?])?)
    }
}
