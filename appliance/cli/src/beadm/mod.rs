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

use crate::context::{Verb, for_anyone, for_owner};

pub use bectl::{VERBS as BECTL, split_root};

/// The verbs of beadm(8), and `menu`.
pub static VERBS: &[Verb] = &[
    for_owner("activate", &["[-v] beName"], "Set the environment to boot", change::activate),
    for_owner(
        "create",
        &[
            "[-a] [-d description] [-e beName|beName@snapshot] [-o property=value] ... [-p zpool] [-v] beName",
            "[-v] beName@snapshot",
        ],
        "Create an environment from another one, or from a snapshot",
        create::run,
    ),
    for_owner(
        "destroy",
        &["[-fFsv] beName|beName@snapshot"],
        "Destroy an environment, or a snapshot of one",
        change::destroy,
    ),
    for_anyone(
        "list",
        &["[-a | -ds] [-H] [-j] [-k date|name|space | -K date|name|space] [-v] [beName]"],
        "Show environments",
        list::run,
    ),
    for_owner("mount", &["[-v] beName [mountpoint]"], "Mount all parts of an environment", mount::mount),
    for_owner("unmount", &["[-fv] beName|mountpoint"], "Unmount an environment", mount::unmount),
    for_owner("umount", &["[-fv] beName|mountpoint"], "Unmount an environment", mount::unmount),
    for_owner("rename", &["[-v] beName newBeName"], "Rename an environment", change::rename),
    for_owner(
        "rollback",
        &["[-v] beName snapshot", "[-v] beName@snapshot"],
        "Roll back to a snapshot",
        change::rollback,
    ),
    for_owner("menu", &["zpool"], "Write boot loader menus to a pool that has none", change::menu),
];
