//! Objects made of blocks: byte ranges, name tables (ZAP), system attributes (SA), lists of block
//! pointers (bpobj).
//!
//! **Invariant: an object is read through pointers whose level and size fit their place. A damaged
//! tree gives an error with the object's number, never a loop or a panic.**
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod bpobj;
pub mod bpobj_write;
pub mod live;
pub mod object;
pub mod objset;
pub mod readahead;
pub mod sa;
mod sa_write;
pub mod zap;

pub use bpobj::{Bpobj, BpobjEntry};
pub use live::{Cloneable, NewObject, RawObject, RawObjset, SyncContext, Tx, Written};
pub use object::{Extent, Object, Part, Piece};
pub use objset::ObjectSet;
pub use sa::{Attributes, SaTable};
pub use zap::{Zap, ZapEntry};
