//! What a launcher tells a process of a job, in the words of torchrun.

use std::env::{self, VarError};
use std::num::NonZeroU16;
use std::str::FromStr;

use super::{Host, Job, JoinError, Settings, Token, host_port};

/// The port at which ranks meet where nobody says otherwise.
const PORT: u16 = 29_500;

/// A rank keeps something for each other one: a typing error should not take all memory.
const MOST_RANKS: usize = 1 << 16;

/// What ranks and counts are.
const WHOLE: &str = "a whole number";

/// The place of this process in its job.
///
/// | variable | what it is | without it |
/// |---|---|---|
/// | `RANK`, `WORLD_SIZE` | this rank, and the number of ranks | no job of several processes |
/// | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | the same among the ranks of this host | all ranks are on one host |
/// | `MASTER_ADDR`, `MASTER_PORT` | where ranks meet | 127.0.0.1, 29500 |
/// | `TORCHELASTIC_USE_AGENT_STORE` | `True` where the launcher runs the store | rank 0 does |
/// | `TORCHELASTIC_RUN_ID` | name of the job | one name for all |
/// | `TORCHELASTIC_RESTART_COUNT` | epoch of the group | 0 |
/// | `BURN_VIRTUAL_TOKEN` | secret of the job | the one that everybody knows, good for loopback only |
/// | `BURN_VIRTUAL_BIND` | name or address of this host that other ranks connect to | loopback where the store is reached over that, else all |
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// How to join.
    pub settings: Settings,
    /// This rank among those of its host, in `0..local_world`.
    pub local_rank: usize,
    /// Number of ranks on this host.
    pub local_world: usize,
}

impl Environment {
    /// Reads the environment; `None` where it tells of no job of several processes.
    ///
    /// # Errors
    /// [`JoinError::Variable`] for a variable that makes no sense, is no text, or is missing beside the others;
    /// [`JoinError::TokenShort`].
    pub fn read() -> Result<Option<Self>, JoinError> {
        Self::from_variables(&|name| match env::var(name) {
            Ok(text) => Ok(Some(text)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(got)) => Err(JoinError::Variable {
                name,
                expected: "a text in UTF-8".to_owned(),
                got: format!("{got:?}"),
            }),
        })
    }

    fn from_variables(get: Variables<'_>) -> Result<Option<Self>, JoinError> {
        let (rank, world) = match (
            number(get, "RANK", WHOLE)?,
            number(get, "WORLD_SIZE", WHOLE)?,
        ) {
            (None, None) => return Ok(None),
            (Some(rank), Some(world)) => (rank, world),
            (Some(_), None) => return Err(missing("WORLD_SIZE", "RANK")),
            (None, Some(_)) => return Err(missing("RANK", "WORLD_SIZE")),
        };
        let fits = (1..=MOST_RANKS).contains(&world);
        check("WORLD_SIZE", "1 to 65536", world, fits)?;
        check("RANK", "a rank below WORLD_SIZE", rank, rank < world)?;
        let local_rank = number(get, "LOCAL_RANK", WHOLE)?.unwrap_or(rank);
        let local_world = number(get, "LOCAL_WORLD_SIZE", WHOLE)?.unwrap_or(world);
        let fits = local_rank < local_world;
        check(
            "LOCAL_RANK",
            "a rank below LOCAL_WORLD_SIZE",
            local_rank,
            fits,
        )?;
        let fits = local_world <= world;
        check("LOCAL_WORLD_SIZE", "at most WORLD_SIZE", local_world, fits)?;
        Ok(Some(Self {
            settings: settings(get, rank, world)?,
            local_rank,
            local_world,
        }))
    }
}

/// Where variables come from; none where one is not set.
type Variables<'a> = &'a dyn Fn(&'static str) -> Result<Option<String>, JoinError>;

fn settings(get: Variables<'_>, rank: usize, world: usize) -> Result<Settings, JoinError> {
    let master = get("MASTER_ADDR")?.unwrap_or_else(|| "127.0.0.1".to_owned());
    // Nobody can find a store at port 0, which is any that is free.
    let port = number::<NonZeroU16>(get, "MASTER_PORT", "a port of 1 to 65535")?;
    let port = port.map_or(PORT, NonZeroU16::get);
    let hosted = get("TORCHELASTIC_USE_AGENT_STORE")?.unwrap_or_default();
    let mut job = Job::new(world);
    job.id = get("TORCHELASTIC_RUN_ID")?.unwrap_or(job.id);
    job.epoch = number(get, "TORCHELASTIC_RESTART_COUNT", WHOLE)?.unwrap_or(job.epoch);
    let token = get("BURN_VIRTUAL_TOKEN")?.map(Token::new).transpose()?;
    Ok(Settings {
        job,
        token: token.unwrap_or_default(),
        host: if hosted.eq_ignore_ascii_case("true") {
            Host::Launcher
        } else {
            Host::Rank0
        },
        bind: get("BURN_VIRTUAL_BIND")?,
        ..Settings::new(host_port(&master, port), rank, world)
    })
}

fn number<T: FromStr>(
    get: Variables<'_>,
    name: &'static str,
    expected: &str,
) -> Result<Option<T>, JoinError> {
    let parse = |text: String| {
        text.parse().map_err(|_| JoinError::Variable {
            name,
            expected: expected.to_owned(),
            got: format!("{text:?}"),
        })
    };
    get(name)?.map(parse).transpose()
}

fn check(name: &'static str, expected: &str, got: usize, fits: bool) -> Result<(), JoinError> {
    let refused = || JoinError::Variable {
        name,
        expected: expected.to_owned(),
        got: got.to_string(),
    };
    fits.then_some(()).ok_or_else(refused)
}

fn missing(name: &'static str, beside: &str) -> JoinError {
    JoinError::Variable {
        name,
        expected: format!("{WHOLE}, as {beside} is set"),
        got: "nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Environment>, String> {
        let get = |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            Ok(found.map(|(_, value)| (*value).to_owned()))
        };
        Environment::from_variables(&get).map_err(|error| error.to_string())
    }

    #[test]
    fn none_where_no_job_of_several_processes_is_told_of() {
        assert_eq!(read(&[("MASTER_ADDR", "10.0.0.1")]), Ok(None));
    }

    #[test]
    fn rank_and_world_are_enough_on_one_host() {
        let got = read(&[("RANK", "1"), ("WORLD_SIZE", "4")])
            .unwrap()
            .unwrap();
        let settings = Settings::new("127.0.0.1:29500", 1, 4);
        assert_eq!((got.local_rank, got.local_world), (1, 4));
        assert_eq!(got.settings, settings);
    }

    #[test]
    fn everything_that_a_launcher_tells_is_taken() {
        let got = read(&[
            ("RANK", "5"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("MASTER_ADDR", "fd00::1"),
            ("MASTER_PORT", "4000"),
            ("TORCHELASTIC_USE_AGENT_STORE", "True"),
            ("TORCHELASTIC_RUN_ID", "digits"),
            ("TORCHELASTIC_RESTART_COUNT", "3"),
            ("BURN_VIRTUAL_TOKEN", "0123456789abcdef"),
            ("BURN_VIRTUAL_BIND", "node1"),
        ]);
        let Environment {
            settings,
            local_rank,
            local_world,
        } = got.unwrap().unwrap();
        assert_eq!((local_rank, local_world), (1, 4));
        assert_eq!(settings.store, "[fd00::1]:4000");
        assert_eq!(settings.bind.as_deref(), Some("node1"));
        assert_eq!(settings.host, Host::Launcher);
        assert_eq!((&*settings.job.id, settings.job.epoch), ("digits", 3));
        assert!(settings.token.is_given());
    }

    #[test]
    fn place_to_meet_is_taken_with_and_without_brackets() {
        for (master, store) in [
            ("node0", "node0:29500"),
            ("10.0.0.7", "10.0.0.7:29500"),
            ("::1", "[::1]:29500"),
            ("[::1]", "[::1]:29500"),
        ] {
            let variables = [("RANK", "0"), ("WORLD_SIZE", "1"), ("MASTER_ADDR", master)];
            let settings = read(&variables).unwrap().unwrap().settings;
            assert_eq!((&*settings.store, settings.bind), (store, None));
        }
    }

    #[test]
    fn variable_is_named_when_it_makes_no_sense() {
        for (variables, expected) in [
            (
                &[("RANK", "0")][..],
                "environment variable WORLD_SIZE: expected a whole number, as RANK is set, got nothing",
            ),
            (
                &[("WORLD_SIZE", "2")],
                "environment variable RANK: expected a whole number, as WORLD_SIZE is set, got nothing",
            ),
            (
                &[("RANK", "x"), ("WORLD_SIZE", "2")],
                "environment variable RANK: expected a whole number, got \"x\"",
            ),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "0")],
                "environment variable WORLD_SIZE: expected 1 to 65536, got 0",
            ),
            (
                &[("RANK", "2"), ("WORLD_SIZE", "2")],
                "environment variable RANK: expected a rank below WORLD_SIZE, got 2",
            ),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "70000")],
                "environment variable MASTER_PORT: expected a port of 1 to 65535, got \"70000\"",
            ),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "0")],
                "environment variable MASTER_PORT: expected a port of 1 to 65535, got \"0\"",
            ),
            (
                &[("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "2")],
                "environment variable LOCAL_RANK: expected a rank below LOCAL_WORLD_SIZE, got 2",
            ),
            (
                &[
                    ("RANK", "0"),
                    ("WORLD_SIZE", "2"),
                    ("LOCAL_WORLD_SIZE", "3"),
                ],
                "environment variable LOCAL_WORLD_SIZE: expected at most WORLD_SIZE, got 3",
            ),
            (
                &[
                    ("RANK", "0"),
                    ("WORLD_SIZE", "2"),
                    ("BURN_VIRTUAL_TOKEN", "short"),
                ],
                "token: expected at least 16 bytes, got 5",
            ),
        ] {
            assert_eq!(read(variables), Err(expected.to_owned()));
        }
    }
}
