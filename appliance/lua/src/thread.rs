//! A coroutine, or the program itself: its stack and its calls.

use crate::value::{CellId, ThreadId, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Status {
    #[default]
    Suspended,
    Running,
    /// It has resumed another one.
    Normal,
    Dead,
}

/// What happens to the results of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// They replace the function on the stack: that many, or all.
    Results(i16),
    /// The first one decides a comparison; with `true`, it is negated.
    Condition(bool),
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) function: Value,
    /// Where the function is on the stack.
    pub(crate) at: usize,
    /// Its first parameter. Surplus arguments are below.
    pub(crate) base: usize,
    pub(crate) pc: usize,
    pub(crate) after: After,
    /// It has replaced its caller.
    pub(crate) is_tail: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Thread {
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// Variables on the stack that functions share, the highest last.
    pub(crate) open: Vec<CellId>,
    pub(crate) status: Status,
    /// The thread that waits for this one.
    pub(crate) resumer: Option<ThreadId>,
    /// Library functions that wait for a function of Lua: they cannot yield.
    pub(crate) nested: usize,
    /// Memory that is counted for it.
    pub(crate) charged_bytes: usize,
}
