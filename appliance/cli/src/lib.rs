//! The `weir` program: commands, tables, progress.
//!
//! **Invariant: a command parses its arguments, calls the layers below, and prints. Only `inspect`
//! knows the on-disk format.**

pub mod beadm;
pub mod client;
pub mod command_runner;
pub mod commands;
pub mod completions;
pub mod context;
pub mod copy;
pub mod daemon_client;
pub mod dispatch;
pub mod exit_code;
pub mod figures;
pub mod forward;
pub mod getopt;
pub mod handover;
pub mod help;
pub mod hold;
pub mod http;
pub mod json;
pub mod manual;
pub mod mount_process;
pub mod mount_table;
pub mod mounts;
pub mod number;
pub mod program;
pub mod report;
pub mod shared_options;
pub mod source;
pub mod state_folder;
pub mod state_option;
pub mod suggest;
pub mod table;
pub mod text;
pub mod tree;
pub mod vdev_scripts;
pub mod verb;
pub mod version;
pub mod zfs;
pub mod zpool;
