//! Why a group did not form.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A rank that could not join, or a store that could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A variable of the environment that makes no sense.
    #[error("environment variable {name}: expected {expected}, got {got}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What it may be.
        expected: String,
        /// What it is.
        got: String,
    },
    /// There is no such rank in the world.
    #[error("rank {rank} is out of range: expected a rank below {world}")]
    Rank {
        /// The rank asked for.
        rank: usize,
        /// Ranks in the group.
        world: usize,
    },
    /// No group has that many ranks.
    #[error("expected a world of 1 to {} ranks, got {world}", u32::MAX)]
    World {
        /// The number asked for.
        world: usize,
    },
    /// A text that does not fit in a handshake.
    #[error("{what}: expected at most {limit} bytes, got {got}")]
    Name {
        /// What the text is.
        what: &'static str,
        /// Bytes that it may have.
        limit: usize,
        /// Bytes that it has.
        got: usize,
    },
    /// The token could be guessed.
    #[error("token: expected at least {expected} bytes, got {got}")]
    TokenShort {
        /// The fewest bytes.
        expected: usize,
        /// Its bytes.
        got: usize,
    },
    /// An address that others can reach needs a secret that others don't know.
    #[error(
        "cannot listen at {addr}: any address but loopback needs a token that was given (BURN_VIRTUAL_TOKEN)"
    )]
    TokenNeeded {
        /// The address.
        addr: String,
    },
    /// Where ranks meet at an address that others can reach, they listen at such addresses, too.
    #[error(
        "{store} (MASTER_ADDR) leads to {ip}: any address but loopback needs a token that was given (BURN_VIRTUAL_TOKEN)"
    )]
    StoreNeedsToken {
        /// Where the store is, `host:port`.
        store: String,
        /// An address of it.
        ip: IpAddr,
    },
    /// A rank listens at all addresses of one family, and reaches the others by another.
    #[error(
        "others cannot reach this rank: it listens at {listens}, and reaches the store at {store} from {from}"
    )]
    Family {
        /// Where it listens.
        listens: SocketAddr,
        /// Where the store is, `host:port`.
        store: String,
        /// Its own end of the connection to the store.
        from: IpAddr,
    },
    /// Nobody can find a store whose port is chosen when it is bound.
    #[error(
        "cannot meet at {addr}: expected a port, got 0; bind a store first and use its address"
    )]
    Port {
        /// The address.
        addr: String,
    },
    /// The name of a host leads nowhere.
    #[error("cannot find {addr}: {reason}")]
    Resolve {
        /// The address asked for, `host:port`.
        addr: String,
        /// What the system says.
        reason: String,
    },
    /// The address cannot be listened at.
    #[error("cannot listen at {addr}: {source}")]
    Bind {
        /// The address, `host:port`.
        addr: String,
        /// What the system says; often that the port is busy.
        source: io::Error,
    },
    /// Nobody of this job answered at the address in time.
    #[error("rank {rank}: no {whom} at {addr} within {waited:?}: {reason}")]
    Connect {
        /// This rank.
        rank: usize,
        /// Who was looked for: the store or a rank.
        whom: String,
        /// The address, `host:port`.
        addr: String,
        /// Time since the rank began to join.
        waited: Duration,
        /// How the last try ended.
        reason: String,
    },
    /// Something else answers at the address.
    #[error("rank {rank}: expected {whom} at {addr}, got {got}")]
    Foreign {
        /// This rank.
        rank: usize,
        /// Who was looked for.
        whom: String,
        /// The address, `host:port`.
        addr: String,
        /// What answers.
        got: String,
    },
    /// The two ends do not have the same token.
    #[error(
        "rank {rank}: {whom} at {addr} does not have this rank's token: another job's, or not the same token"
    )]
    Token {
        /// This rank.
        rank: usize,
        /// Who was looked for.
        whom: String,
        /// The address, `host:port`.
        addr: String,
    },
    /// The other end has the token, and does not let this rank in.
    #[error("rank {rank}: refused by {whom} at {addr}: {reason}")]
    Refused {
        /// This rank.
        rank: usize,
        /// Who refused it.
        whom: String,
        /// The address, `host:port`.
        addr: String,
        /// What differs: expected and got.
        reason: String,
    },
    /// Some ranks did not come, or did not connect to the others, in time.
    #[error(
        "rank {rank}: no group of {world} within {waited:?}, missing: {}{}{}",
        list(missing),
        reasons.iter().map(|why| format!("; {why}")).collect::<String>(),
        also(refused)
    )]
    Missing {
        /// This rank.
        rank: usize,
        /// Ranks in the group.
        world: usize,
        /// The ranks that are missing.
        missing: Vec<usize>,
        /// Time since this rank began to join.
        waited: Duration,
        /// Why: the ranks that this one could not connect to, where and why not, and the words of the
        /// rank that was the first to give up, or of the store.
        reasons: Vec<String>,
        /// Who was refused meanwhile, and why.
        refused: Vec<String>,
    },
    /// Another rank could not go on while the group formed.
    #[error("rank {rank}: no group: rank {left} left while it formed: {reason}")]
    Left {
        /// This rank.
        rank: usize,
        /// The rank that left.
        left: usize,
        /// Why.
        reason: String,
    },
    /// The store stopped while the group formed.
    #[error(
        "rank {rank}: the store at {addr} is gone: {reason}; missing: {}",
        list(missing)
    )]
    StoreGone {
        /// This rank.
        rank: usize,
        /// The address, `host:port`.
        addr: String,
        /// What is known.
        reason: String,
        /// The ranks that had not come.
        missing: Vec<usize>,
    },
    /// The system did not give what forming a group needs.
    #[error("{what}: {reason}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system says.
        reason: String,
    },
}

pub(super) fn list(ranks: &[usize]) -> String {
    let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
    ranks.join(", ")
}

fn also(refused: &[String]) -> String {
    match refused {
        [] => String::new(),
        refused => format!("; refused meanwhile: {}", refused.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_lists_missing_and_refused_ranks() {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let error = |reasons: &[&str], refused: &[&str]| {
            JoinError::Missing {
                rank: 0,
                world: 4,
                missing: vec![1, 3],
                waited: Duration::from_secs(2),
                reasons: owned(reasons),
                refused: owned(refused),
            }
            .to_string()
        };
        let text = "rank 0: no group of 4 within 2s, missing: 1, 3";
        assert_eq!(error(&[], &[]), text);
        let reasons = format!("{text}; rank 1 at [::1]:9: no answer");
        assert_eq!(error(&["rank 1 at [::1]:9: no answer"], &[]), reasons);
        let refused = format!("{text}; refused meanwhile: rank 1: no; rank 2: no");
        assert_eq!(error(&[], &["rank 1: no", "rank 2: no"]), refused);
    }
}
