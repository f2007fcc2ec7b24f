//! Boot menus.

use crate::context::Context;
use admin::environments::{MenuChange, refresh_menus};
use admin::state::Imported;
use admin::write::WritablePool;

/// Updates the boot menus of a pool. Failures are only reported: the change itself is kept.
pub(super) fn refresh(
    cx: &mut Context<'_>,
    pool: &WritablePool,
    record: &Imported,
    change: &MenuChange,
    verbose: bool,
) {
    match refresh_menus(pool, &record.name, change) {
        Ok(done) => {
            for path in done.changed.iter().filter(|_| verbose) {
                cx.print(&format!("{}: /{path} follows\n", record.name));
            }
        }
        Err(error) => cx.complain(&format!("weir: boot menus of '{}' were not changed: {error:#}", record.name)),
    }
}
