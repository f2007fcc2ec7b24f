//! `zpool split`: turns one side of each mirror into a new pool, which is left exported.

use super::{lease_status, record};
use crate::create::check_name;
use crate::pool_properties::{PoolSetting, When, parse};
use crate::split;
use crate::vdev_names;
use crate::verbs::line::{assignments, line};
use crate::verbs::{Invocation, Kind, PoolLease, Reason, Refusal};
use pool::status::PoolStatus;

/// A pool to split.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitRequest {
    pub pool: String,
    pub new_name: String,
    /// One device of each mirror; by default, the last.
    pub devices: Vec<String>,
    /// Properties of the new pool, which the caller sets after the split (`-o`).
    pub properties: Vec<(String, String)>,
    /// The caller imports the new pool after the split; then all properties are possible (`-R`).
    pub imports: bool,
    /// Only find out which devices would leave (`-n`).
    pub dry_run: bool,
}

pub struct SplitOutcome {
    /// Status of the pool before the split.
    pub status: PoolStatus,
    /// Guids of the devices of the new pool.
    pub devices: Vec<u64>,
}

impl SplitRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let operands = [&self.pool, &self.new_name].into_iter().chain(&self.devices).map(String::as_str);
        line("zpool split", &[(self.dry_run, "-n")], &assignments("-o", &self.properties), operands)
    }

    /// Refuses properties that cannot be set without an import of the new pool.
    fn check_properties(&self) -> Result<(), Refusal> {
        for (property, value) in self.properties.iter().filter(|_| !self.imports) {
            match parse(property, value, When::Set).map_err(|reason| reason.refuse(&self.cannot()))? {
                PoolSetting::Stored(name, _) if name != "bootfs" => {}
                PoolSetting::Feature(..) => {}
                _ => {
                    let what = format!("unsupported: 'zpool split' with '-o {property}' and without '-R'");
                    return Err(Refusal::new(Kind::Unsupported, what));
                }
            }
        }
        Ok(())
    }

    fn cannot(&self) -> String {
        format!("Unable to split {}", self.pool)
    }
}

impl SplitOutcome {
    /// Paths of the devices of the new pool.
    pub fn places(&self) -> Vec<String> {
        let all = self.status.root.walk();
        let path = |guid: &u64| all.iter().find(|v| v.guid == *guid)?.path.clone();
        self.devices.iter().filter_map(path).collect()
    }
}

/// Splits the pool, or with `dry_run` only determines the devices of the new one.
pub fn run(invocation: &Invocation<'_>, request: &SplitRequest) -> Result<SplitOutcome, Refusal> {
    let record = record(invocation, &request.pool)?;
    let refuse = |reason: Reason| reason.refuse(&request.cannot());
    let exists = invocation.state.pool(&request.new_name).map_err(|e| refuse(e.into()))?.is_some();
    if exists {
        return Err(refuse(Reason::new(Kind::Conflict, "pool already exists")));
    }
    check_name(&request.new_name).map_err(|why| refuse(Reason::new(Kind::Invalid, why)))?;
    request.check_properties()?;
    let pool = invocation.open(&record).map_err(refuse)?;
    let done = in_pool(invocation, request, &pool);
    let closed = pool.finish().map_err(|e| refuse(e.into()));
    let outcome = done?;
    closed?;
    Ok(outcome)
}

fn in_pool(invocation: &Invocation<'_>, request: &SplitRequest, pool: &PoolLease) -> Result<SplitOutcome, Refusal> {
    let status = lease_status(pool)?;
    let refuse = |reason: Reason| reason.refuse(&request.cannot());
    let named = request.devices.iter().map(|device| match vdev_names::find(&status, device) {
        Some(found) => Ok(found.guid),
        None => {
            let why = "Device list must include at most one disk from each mirror";
            Err(refuse(Reason::new(Kind::NotFound, why)))
        }
    });
    let named = named.collect::<Result<Vec<u64>, Refusal>>()?;
    let devices = pool.writer().plan_split(&named).map_err(|e| refuse(e.into()))?;
    if !request.dry_run {
        let split = split::split(pool, &request.new_name, &named);
        split.and_then(|()| pool.note_command(&invocation.command)).map_err(|e| refuse(e.into()))?;
    }
    Ok(SplitOutcome { status, devices })
}
