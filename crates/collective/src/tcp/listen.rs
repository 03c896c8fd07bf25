//! Opening a port, and who may open which.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};

use super::resolve::resolve;
use super::{JoinError, Token};
use crate::Deadline;

/// A listener at `at`, which is `host:port`: at the first of the host's addresses that can be had.
/// It does not block.
pub(super) fn listen(
    at: &str,
    token: &Token,
    deadline: Deadline,
) -> Result<TcpListener, JoinError> {
    let addresses = resolve(at, deadline)?;
    if beyond_loopback(token, &addresses).is_some() {
        let addr = at.to_owned();
        return Err(JoinError::TokenNeeded { addr });
    }
    bind(&addresses).map_err(|source| JoinError::Bind {
        addr: at.to_owned(),
        source,
    })
}

fn bind(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addresses)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The first of the addresses that may not be used with this token.
pub(super) fn beyond_loopback(token: &Token, addresses: &[SocketAddr]) -> Option<IpAddr> {
    let ips = addresses.iter().map(|address| address.ip().to_canonical());
    let mut beyond = ips.filter(|ip| !token.is_given() && !ip.is_loopback());
    beyond.next()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn open(at: &str, token: &Token) -> Result<TcpListener, JoinError> {
        listen(at, token, Deadline::after(Duration::from_secs(10)))
    }

    #[test]
    fn address_that_others_reach_refused_without_a_token() {
        // Documentation addresses (RFC 5737, 3849): nobody is there, and nothing is bound.
        for at in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:0"] {
            let error = open(at, &Token::default()).unwrap_err();
            assert!(matches!(error, JoinError::TokenNeeded { .. }), "{error}");
            assert!(error.to_string().contains(at), "{error}");
        }
        let given = Token::new("0123456789abcdef").unwrap();
        let error = open("192.0.2.1:0", &given).unwrap_err();
        assert!(matches!(error, JoinError::Bind { .. }), "{error}");
    }

    #[test]
    fn loopback_is_open_to_all_whatever_its_spelling() {
        for at in ["127.0.0.1:0", "127.1.2.3:0", "localhost:0"] {
            open(at, &Token::default()).unwrap();
        }
    }

    #[test]
    fn error_holds_address_and_port_when_the_port_is_busy_case_40() {
        let holder = open("127.0.0.1:0", &Token::default()).unwrap();
        let at = holder.local_addr().unwrap().to_string();
        let error = open(&at, &Token::default()).unwrap_err().to_string();
        assert!(error.contains(&at), "{error}");
    }
}
