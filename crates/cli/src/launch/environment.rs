//! What each process finds in its environment, in torchrun's words.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use super::args::cores;
use super::settings::{Settings, TOKEN};
use crate::failure;

/// Threads of a process's CPU backends.
const THREADS: &str = "RAYON_NUM_THREADS";

/// The variables of one process of a job that meets at `port`.
pub(super) fn variables(
    settings: &Settings,
    port: u16,
    local_rank: usize,
    error_file: &Path,
) -> Vec<(&'static str, OsString)> {
    let number = |number: usize| OsString::from(number.to_string());
    let mut variables = vec![
        ("RANK", number(settings.rank(local_rank))),
        ("LOCAL_RANK", number(local_rank)),
        ("WORLD_SIZE", number(settings.world())),
        ("LOCAL_WORLD_SIZE", number(settings.local_world)),
        ("GROUP_RANK", number(settings.node)),
        ("MASTER_ADDR", settings.host.clone().into()),
        ("MASTER_PORT", port.to_string().into()),
        ("TORCHELASTIC_RUN_ID", settings.run_id.clone().into()),
        ("TORCHELASTIC_RESTART_COUNT", number(0)),
        ("TORCHELASTIC_MAX_RESTARTS", number(0)),
        ("TORCHELASTIC_USE_AGENT_STORE", "True".into()),
        (failure::VARIABLE, error_file.into()),
        (TOKEN, settings.token.expose().into()),
    ];
    // Each process would take all cores.
    if settings.local_world > 1 && env::var_os(THREADS).is_none() {
        variables.push((THREADS, number((cores() / settings.local_world).max(1))));
    }
    variables
}
