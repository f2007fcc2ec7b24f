//! Who may do what, and how much of it at once.

use crate::access::password::Turns;
use crate::access::{Accounts, AuditLog, Hosts, Limits, Refusals, Sessions, SetupLink};
use crate::config::ApiConfig;
use crate::places::Places;
use anyhow::Result;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::watch;

/// Limit for concurrent requests: fewer than the threads for them, so that one is left for health
/// checks.
const REQUESTS: usize = 384;
/// The same for one caller.
const REQUESTS_OF_ONE: usize = 64;
/// Limit for concurrent commands of callers other than the owner of the pools. Each has a thread.
const COMMANDS: usize = 256;
/// The same for one caller.
const COMMANDS_OF_ONE: usize = 32;
/// Limit for open streams.
const STREAMS: usize = 256;
/// The same for one caller: some dozens of open pages.
const STREAMS_OF_ONE: usize = 64;

/// Users, sessions and tokens, limits on their requests, and the audit log.
pub struct Access {
    pub accounts: Accounts,
    pub sessions: Sessions,
    /// Limits on password guessing.
    pub limits: Limits,
    /// Queue for checking passwords.
    pub turns: Turns,
    /// Changes when sessions or tokens end, or roles change.
    pub revocations: watch::Sender<u64>,
    /// Active requests by caller.
    pub(crate) requests: Arc<Places<String>>,
    /// Running commands by caller.
    pub(crate) commands: Arc<Places<String>>,
    /// Open streams by caller.
    pub(crate) streams: Arc<Places<String>>,
    /// Refusals for the audit log.
    pub(crate) refusals: Refusals,
    /// The link for the first administrator.
    pub setup: SetupLink,
    /// Host names of this machine.
    pub hosts: Hosts,
    pub audit: AuditLog,
}

impl Access {
    /// Opens the accounts and the audit log of the state directory.
    pub fn open(state: &Path, config: &ApiConfig) -> Result<Self> {
        Ok(Self {
            accounts: Accounts::open(state)?,
            sessions: Sessions::new(config.session_hours),
            limits: Limits::default(),
            turns: Turns::default(),
            revocations: watch::Sender::new(0),
            requests: Places::new(REQUESTS, REQUESTS_OF_ONE),
            commands: Places::new(COMMANDS, COMMANDS_OF_ONE),
            streams: Places::new(STREAMS, STREAMS_OF_ONE),
            refusals: Refusals::default(),
            setup: SetupLink::default(),
            hosts: Hosts::new(&config.hosts),
            audit: AuditLog::open(state)?,
        })
    }
}
