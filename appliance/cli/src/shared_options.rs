//! Options that several verbs have.

use crate::getopt::{ArgKind, Opt, flag, long_flag, value};

pub const JSON: Opt = flag('j', "Print JSON.").long("json");
pub const JSON_INT: Opt = long_flag('I', "json-int", "With -j, print numbers as integers instead of strings.");
pub const KEY_GUID: Opt =
    long_flag('G', "json-pool-key-guid", "With -j, use the GUIDs of pools as keys instead of their names.");
pub const SCRIPTED: Opt = flag('H', "For scripts: no headings, one tab between fields.");
pub const EXACT: Opt = flag('p', "Print exact numbers.");
/// How devices are named.
pub const GUIDS: Opt = flag('g', "Show devices by GUID instead of by name.");
pub const FOLLOW: Opt = flag('L', "Show the real path of devices, with all symbolic links resolved.");
pub const PATHS: Opt = flag('P', "Show the full path of devices instead of its last component.");
pub const STAMP: Opt =
    value('T', "u|d", ArgKind::Words(&["u", "d"]), "Print the time before each report: u as a number, d as date(1).");
/// `-c` of `zpool status` and `zpool iostat`.
pub const SCRIPTS: Opt = value(
    'c',
    "script,...",
    ArgKind::Text,
    "Run these scripts for each device and add their output as columns; without an argument, list the scripts.",
)
.optional();
