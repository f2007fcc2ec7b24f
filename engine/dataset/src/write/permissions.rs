//! The ZAPs of delegated permissions in the syncing txg. What they hold: [`crate::delegation`].
//!
//! Facts: `dsl_deleg_set_create_perms`, `dsl_deleg_destroy` in module/zfs/dsl_deleg.c.

use super::cx::Cx;
use crate::delegation::VERSION;
use errors::Result;
use object::Zap;
use object::zap::ZapSpec;
use ondisk::ObjectType;

/// The permissions under `key`; `None`: there are none.
pub(super) fn find_zap(cx: &Cx<'_>, dir: u64, key: &str) -> Result<Option<Zap>> {
    match cx.dir(dir)?.phys.delegation_zap {
        0 => Ok(None),
        base => cx.zap(base)?.lookup_u64(key)?.map(|id| cx.zap(id)).transpose(),
    }
}

/// The permissions under `key`, created if there are none.
pub(super) fn zap_of(cx: &Cx<'_>, dir: u64, key: &str) -> Result<Zap> {
    if let Some(zap) = find_zap(cx, dir, key)? {
        return Ok(zap);
    }
    if cx.dir(dir)?.phys.delegation_zap == 0 {
        let base = cx.create_zap(ObjectType::DSL_PERMS)?;
        cx.change_dir(dir, |dir| dir.delegation_zap = base)?;
    }
    let base = cx.zap(cx.dir(dir)?.phys.delegation_zap)?;
    Zap::create_linked(cx.mos(), cx.tx(), &ZapSpec::new(ObjectType::DSL_PERMS), &base, key)
}

/// Removes all permissions under `key`.
pub(super) fn remove_key(cx: &Cx<'_>, dir: u64, key: &str) -> Result<()> {
    let base = cx.dir(dir)?.phys.delegation_zap;
    if base == 0 {
        return Ok(());
    }
    let base = cx.zap(base)?;
    let Some(id) = base.lookup_u64(key)? else { return Ok(()) };
    base.remove(cx.tx(), key.as_bytes())?;
    cx.free_object(id)
}

/// Gives the creator of directory `dir` what the directories above it delegate to creators.
pub(super) fn give_to_creator(cx: &Cx<'_>, dir: u64) -> Result<()> {
    if cx.sync.version() < VERSION {
        return Ok(());
    }
    let (uid, _) = cx.creator();
    let mut at = cx.dir(dir)?.phys.parent;
    while at != 0 {
        let above = cx.dir(at)?.phys;
        for (from, to) in [("c-$", "ul$"), ("C-$", "Ul$")] {
            let Some(given) = find_zap(cx, at, from)? else { continue };
            let own = zap_of(cx, dir, &format!("{to}{uid}"))?;
            for entry in given.entries()? {
                own.update_u64(cx.tx(), &entry.name, 0)?;
            }
        }
        at = above.parent;
    }
    Ok(())
}

/// Frees delegated permissions: a ZAP of ZAPs.
pub(super) fn free(cx: &Cx<'_>, zap: u64) -> Result<()> {
    if zap == 0 {
        return Ok(());
    }
    for entry in cx.zap(zap)?.entries()? {
        if let Some(inner) = entry.value.as_u64() {
            cx.free_object(inner)?;
        }
    }
    cx.free_object(zap)
}
