//! Names of hosts.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;

use super::JoinError;
use crate::Deadline;

/// `host` and `port` as one address; IPv6 addresses get their brackets.
pub fn host_port(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// All addresses of `at`, which is `host:port`.
pub(super) fn resolve(at: &str, deadline: Deadline) -> Result<Vec<SocketAddr>, JoinError> {
    if let Ok(address) = at.parse() {
        return Ok(vec![address]);
    }
    let failed = |reason: String| JoinError::Resolve {
        addr: at.to_owned(),
        reason,
    };
    // The system's own limit may be minutes: it is asked by a thread that nobody waits for.
    let (sender, receiver) = mpsc::channel();
    let name = at.to_owned();
    thread::Builder::new()
        .name(format!("resolve {at}"))
        .spawn(move || sender.send(name.to_socket_addrs().map(Vec::from_iter)))
        .map_err(|fault| failed(fault.to_string()))?;
    let answer = receiver.recv_timeout(deadline.remaining().unwrap_or_default());
    match answer {
        Err(_) => Err(failed(format!("no answer within {:?}", deadline.elapsed()))),
        Ok(Err(fault)) => Err(failed(fault.to_string())),
        Ok(Ok(addresses)) if addresses.is_empty() => Err(failed("it has no address".to_owned())),
        Ok(Ok(addresses)) => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn addresses(at: &str) -> Result<Vec<SocketAddr>, JoinError> {
        resolve(at, Deadline::after(Duration::from_secs(10)))
    }

    #[test]
    fn address_round_trips_whatever_its_family() {
        for (host, text) in [("::1", "[::1]:29500"), ("127.0.0.1", "127.0.0.1:29500")] {
            let at = host_port(host, 29500);
            assert_eq!(at, text);
            assert_eq!(addresses(&at).unwrap()[0].to_string(), text);
        }
        assert_eq!(host_port("[::1]", 1), "[::1]:1");
    }

    #[test]
    fn name_gives_addresses_and_no_name_an_error_that_holds_it() {
        let local = addresses("localhost:29500").unwrap();
        assert!(local.iter().all(|address| address.ip().is_loopback()));
        for wrong in ["no port", "::1:29500:", "127.0.0.1:99999"] {
            let error = addresses(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }

    #[test]
    fn resolving_ends_when_its_deadline_has_passed() {
        let late = resolve("localhost:1", Deadline::after(Duration::ZERO));
        // The answer may be faster than the look at the clock.
        assert!(late.is_ok() || late.unwrap_err().to_string().contains("no answer"));
    }
}
