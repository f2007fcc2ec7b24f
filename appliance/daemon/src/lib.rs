//! The process that owns pools: `weir serve`, and on a smaller scale `weir mount`.
//!
//! Below: `admin` (the pools), `serve` (FUSE, NFS). Beside: `api` (messages on the wire). Above:
//! the program, which supplies its commands ([`Commands`]) and starts [`run`].
//!
//! ```text
//!   client ── STATE/run/weir.sock ── http: router ── command ──> Commands (the program's own verbs, in a thread each)
//!                                                                   └── Owner: House (pools), mounts
//! ```
//!
//! Invariants:
//!   * one daemon per state directory: it holds the lock `run/weir.lock` for its whole life
//!   * output and exit code of a command are the same as without a daemon
//!   * the engine knows no async runtime: work that may wait for a disk runs in a thread of its own

pub mod access;
pub mod alerts;
mod analytics;
mod body;
pub mod clients;
pub mod command;
pub mod config;
mod control;
pub mod events;
pub mod exports;
pub mod flows;
mod health;
pub mod http;
pub mod jobs;
pub mod key_server;
mod lines;
pub mod mounts;
pub mod nbd;
pub mod nfs;
mod otlp;
mod outgoing;
pub mod owner;
mod page;
mod peer;
mod places;
mod process;
mod programs;
mod run;
mod scan_job;
pub mod schedules;
mod secret_file;
pub mod service;
pub mod smb;
pub mod socket;
pub mod tcp;
pub mod tls;
mod verify;
mod wake;
pub mod watch;
pub mod web;

pub use command::{Input, Io, Output, Stream};
pub use config::Config;
pub use control::Control;
pub use flows::{Direction, Flow};
pub use mounts::Mounts;
pub use owner::{Commands, Owner};
pub use peer::Peer;
pub use run::run;
pub use service::SetLevel;
