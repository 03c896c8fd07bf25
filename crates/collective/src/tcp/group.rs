//! A whole group in one process.

use std::thread;

use super::{Host, Job, JoinError, Limits, Settings, Store, TcpTransport, Token, join};

/// The ends of a group of `world` ranks on the loopback address, in rank order; each goes to its
/// own thread. For tests and measurements: ranks of one process have no need of sockets.
///
/// # Errors
/// As [`join`].
pub fn group(world: usize) -> Result<Vec<TcpTransport>, JoinError> {
    let (job, token) = (Job::new(world), Token::random()?);
    let store = Store::bind("127.0.0.1:0", &job, &token, &Limits::default())?;
    let settings = |rank| Settings {
        token: token.clone(),
        host: Host::Launcher,
        ..Settings::new(store.addr().to_string(), rank, world)
    };
    thread::scope(|scope| {
        let ranks: Vec<_> = (0..world)
            .map(|rank| {
                let settings = settings(rank);
                scope.spawn(move || join(&settings))
            })
            .collect();
        let panicked = || JoinError::System {
            what: "a thread for a rank",
            reason: "it panicked".to_owned(),
        };
        let joined = ranks.into_iter().map(|rank| rank.join());
        joined
            .map(|joined| joined.unwrap_or_else(|_| Err(panicked())))
            .collect()
    })
}
