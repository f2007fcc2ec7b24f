//! Functions as they are at run time, and the variables that they share.

use crate::code::Prototype;
use crate::value::{CellId, Native, ThreadId, Value};
use std::sync::Arc;

/// A function of Lua with the variables around it that it uses.
#[derive(Debug)]
pub(crate) struct Closure {
    pub(crate) code: Arc<Prototype>,
    pub(crate) cells: Vec<CellId>,
}

/// A function of a library with values of its own.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) native: Native,
    pub(crate) values: Vec<Value>,
}

/// A variable that functions share.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// It is still on the stack of the thread.
    Open(ThreadId, usize),
    Closed(Value),
}
