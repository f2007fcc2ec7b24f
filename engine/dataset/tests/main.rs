//! The tests of this crate in one program, because each would link the engine again.

mod common;
mod delegation;
mod device_work;
mod devices;
mod figures;
mod foreign;
mod heal;
mod history;
mod intent_log;
mod judged_blocks;
mod kernel_properties;
mod read_by_zdb;
mod rebuild;
mod receive;
mod receive_raw;
mod redact;
mod reservations;
mod send;
mod shape;
mod snapshots;
mod unclean;
mod writing;
