//! `filesystem_limit` and `snapshot_limit`: they bind users to whom something is delegated. The
//! owner of the pools, and users who may change a limit, may also exceed it.
//!
//! Facts: `dsl_fs_ss_limit_check`, `dsl_enforce_ds_ss_limits` in module/zfs/dsl_dir.c.

use super::cx::Cx;
use super::limits::Counted;
use super::{props, tree};
use crate::delegation::{Question, VERSION};
use errors::{Refusal, Result};

/// Rejects `more` of a kind at or below directory `id`, if the user for whom the task runs is bound
/// by a limit there or above, up to directory `end` exclusive (0: up to the root).
pub(crate) fn check(cx: &Cx<'_>, id: u64, what: Counted, more: u64, end: u64) -> Result<()> {
    let mut at = id;
    while at != 0 && at != end && cx.user.is_some() {
        if !check_here(cx, at, what, more)? {
            break;
        }
        at = cx.dir(at)?.phys.parent;
    }
    Ok(())
}

/// The same for directory `id` alone. Returns whether counts are kept for it.
pub(crate) fn check_here(cx: &Cx<'_>, id: u64, what: Counted, more: u64) -> Result<bool> {
    let Some(count) = cx.field_u64(id, what.field())? else { return Ok(false) };
    let is_over = more > 0 && count.saturating_add(more) > props::own_number(cx, id, what.limit())?;
    if is_over && cx.user.is_some() && !is_granted(cx, id, what.limit())? {
        return Err(Refusal::QuotaExceeded.at(tree::name_of(cx, id)?));
    }
    Ok(true)
}

/// Whether `permission` on directory `dir` is delegated to the user for whom the task runs.
fn is_granted(cx: &Cx<'_>, dir: u64, permission: &str) -> Result<bool> {
    let Some(user) = cx.user.filter(|_| cx.sync.version() >= VERSION) else { return Ok(false) };
    let zaps = tree::ancestors(cx, dir)?.into_iter().map(|dir| Ok(cx.dir(dir)?.phys.delegation_zap));
    let zaps = zaps.collect::<Result<Vec<_>>>()?;
    let open = |id| cx.zap(id);
    Question::new(&open, permission, user).decide(&zaps, true)
}
