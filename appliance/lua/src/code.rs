//! Compiled functions: instructions of a machine with a stack.
//!
//! A local variable is the place on the stack where its first value was pushed. The compiler knows
//! the depth of the stack at each instruction, except where a call or `...` supplied as many values
//! as there were; the instruction after those takes all that is above a known place.

use crate::value::Value;
use std::sync::Arc;

/// Places on the stack, counted from the first parameter of the function.
pub(crate) type Slot = u16;

/// The number of results of a call, or all of them.
pub(crate) const ALL: i16 = -1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Push.
    Nil(u16),
    True,
    False,
    Constant(u32),
    Local(Slot),
    Upvalue(u16),
    /// A field of the table in an upvalue: a global variable.
    UpvalueField(u16, u32),
    NewTable,
    Closure(u32),
    Vararg(i16),
    /// Replace operands by the result.
    Index,
    Field(u32),
    /// Pushes the method of the object at the top, and leaves the object below it.
    Method(u32),
    Swap,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Negate,
    Not,
    Length,
    /// Joins that many values if they are strings and numbers, and skips the instructions that
    /// follow for the rest of the chain. Otherwise joins the last two.
    Concat(u16),
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Pop a value into a variable.
    SetLocal(Slot),
    SetUpvalue(u16),
    SetUpvalueField(u16, u32),
    /// The table is at the place, the key above it.
    SetIndex(Slot),
    /// The table is at the place. Pops a value and its key.
    SetPair(Slot),
    SetField(Slot, u32),
    /// Everything above the table at the place becomes elements from that one on.
    SetList(Slot, u32),
    Pop(u16),
    /// Variables from the place on leave the stack, if functions still use them.
    Close(Slot),
    Jump(u32),
    /// Cuts the stack to the place, closes the variables above, and jumps.
    JumpOut(Slot, u32),
    /// Pop the condition.
    JumpIfNot(u32),
    JumpIf(u32),
    /// Keep the value and jump if it decides, otherwise pop it.
    And(u32),
    Or(u32),
    /// The function is at the place, its arguments above. The number of results.
    Call(Slot, i16),
    TailCall(Slot),
    /// Everything from the place on is returned.
    Return(Slot),
    /// Index, limit and step of a loop are at the place.
    ForPrepare(Slot, u32),
    ForLoop(Slot, u32),
    /// Iterator, state and control value are at the place. The number of variables.
    ForCall(Slot, u16),
    /// The number of variables follows from the place and the depth.
    ForNext(Slot, u32),
}

impl Op {
    /// What the instruction counts for. An operand is part of another instruction in OpenZFS's
    /// machine, which has registers.
    pub(crate) fn cost(self) -> u64 {
        match self {
            Self::Local(_) | Self::Constant(_) | Self::True | Self::False | Self::Pop(_) | Self::Swap => 0,
            _ => 1,
        }
    }
}

/// What an operand was in the source, for messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Origin {
    #[default]
    Unknown,
    Local(Arc<str>),
    Upvalue(Arc<str>),
    Global(Arc<str>),
    Field(Arc<str>),
    Method(Arc<str>),
}

impl Origin {
    /// The kind of a name, and the name.
    pub(crate) fn name(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Unknown => None,
            Self::Local(name) => Some(("local", name)),
            Self::Upvalue(name) => Some(("upvalue", name)),
            Self::Global(name) => Some(("global", name)),
            Self::Field(name) => Some(("field", name)),
            Self::Method(name) => Some(("method", name)),
        }
    }
}

/// Memory of an operand's name, which others may share. Guessed.
const ORIGIN_BYTES: usize = size_of::<(u32, u8, Origin)>() + 24;

/// Where a closure finds a variable when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capture {
    /// On the stack of the function around it.
    Local(Slot),
    /// Among the upvalues of the function around it.
    Upvalue(u16),
}

/// A compiled function.
#[derive(Debug, Default)]
pub(crate) struct Prototype {
    pub(crate) ops: Vec<Op>,
    /// The line of each instruction.
    pub(crate) lines: Vec<u32>,
    pub(crate) constants: Vec<Value>,
    pub(crate) functions: Vec<Arc<Prototype>>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) parameters: u16,
    pub(crate) is_vararg: bool,
    /// The line where it begins; 0: the main program.
    pub(crate) line: u32,
    /// Operands of instructions: instruction, operand from the left, what it is.
    pub(crate) origins: Vec<(u32, u8, Origin)>,
}

impl Prototype {
    /// What an operand of an instruction was.
    pub(crate) fn origin(&self, pc: usize, operand: u8) -> &Origin {
        const UNKNOWN: &Origin = &Origin::Unknown;
        let key = (pc as u32, operand);
        match self.origins.binary_search_by_key(&key, |(pc, operand, _)| (*pc, *operand)) {
            Ok(at) => &self.origins[at].2,
            Err(_) => UNKNOWN,
        }
    }

    /// Bytes of memory that it takes, without the functions in it.
    pub(crate) fn own_bytes(&self) -> usize {
        size_of::<Self>()
            + self.ops.len() * (size_of::<Op>() + size_of::<u32>())
            + self.constants.len() * size_of::<Value>()
            + self.origins.len() * ORIGIN_BYTES
            + self.captures.len() * size_of::<Capture>()
    }

    /// Bytes of memory that it takes, with the functions in it.
    pub(crate) fn bytes(&self) -> usize {
        self.own_bytes() + self.functions.iter().map(|function| function.bytes()).sum::<usize>()
    }
}
