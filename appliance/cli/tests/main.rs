//! What `weir` does when it is run as a program: one test program, with a module for each subject.

mod cache_file;
mod compatibility;
mod daemon;
mod damaged_files;
mod delegation;
mod device_faults;
mod devices_in_use;
mod failures;
mod handover;
mod help;
mod install;
mod kernel_output;
mod kernel_trees;
mod memory;
mod multihost;
mod options;
mod pool_changes;
mod projects;
mod receive;
mod rig;
mod scripts_of_devices;
mod smb;
mod statistics;
mod streams;
mod verify;
