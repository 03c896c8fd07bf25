#![doc = include_str!("README.md")]

mod claims;
mod courier;
mod dial;
mod door;
mod environment;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod half_open;
mod handshake;
mod join;
mod joining;
mod link;
mod listen;
mod meeting;
mod message;
mod pace;
mod proof;
mod refusals;
mod resolve;
mod settings;
mod shared;
mod stall;
mod store;
mod timed;
mod token;
mod transport;
mod turn;

pub use environment::Environment;
pub use error::JoinError;
pub use group::group;
pub use join::join;
pub use resolve::host_port;
pub use settings::{Host, Job, Limits, Settings};
pub use stall::{Awaited, OnStall, Stall};
pub use store::Store;
pub use token::Token;
pub use transport::TcpTransport;

use door::Door;
