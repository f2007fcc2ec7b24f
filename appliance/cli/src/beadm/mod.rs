//! `weir beadm` and `weir bectl`: boot environments with the command lines of illumos's beadm(8)
//! and FreeBSD's bectl(8). What an environment is: [`admin::environments`].

mod bectl;
mod change;
mod create;
mod face;
mod list;
mod lookup;
mod menus;
mod mount;

use crate::verb::Verb;

pub use bectl::{VERBS as BECTL, split_root};

/// The verbs of beadm(8), and `menu`.
pub static VERBS: &[&Verb] = &[
    &change::ACTIVATE,
    &create::VERB,
    &change::DESTROY,
    &list::VERB,
    &mount::MOUNT,
    &mount::UNMOUNT,
    &mount::UMOUNT,
    &change::RENAME,
    &change::ROLLBACK,
    &change::MENU,
];
