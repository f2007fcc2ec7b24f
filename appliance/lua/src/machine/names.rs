//! Names that the machine looks for.

use crate::heap::Heap;
use crate::value::{StringId, Value};

/// Names that the machine looks for.
pub(crate) struct Names {
    pub(crate) index: StringId,
    pub(crate) newindex: StringId,
    pub(crate) call: StringId,
    pub(crate) metatable: StringId,
    pub(crate) tostring: StringId,
    pub(crate) pairs: StringId,
    pub(crate) ipairs: StringId,
    pub(crate) n: StringId,
    pub(super) concat: StringId,
    pub(super) length: StringId,
    pub(super) negate: StringId,
    pub(super) equal: StringId,
    pub(super) less: StringId,
    pub(super) less_equal: StringId,
    pub(super) arithmetic: [StringId; 6],
    pub(super) mode: StringId,
}

impl Names {
    pub(super) fn new(heap: &mut Heap) -> Self {
        let mut name = |text: &str| heap.string(text.as_bytes());
        Self {
            index: name("__index"),
            newindex: name("__newindex"),
            call: name("__call"),
            metatable: name("__metatable"),
            tostring: name("__tostring"),
            pairs: name("__pairs"),
            ipairs: name("__ipairs"),
            n: name("n"),
            concat: name("__concat"),
            length: name("__len"),
            negate: name("__unm"),
            equal: name("__eq"),
            less: name("__lt"),
            less_equal: name("__le"),
            arithmetic: ["__add", "__sub", "__mul", "__div", "__mod", "__pow"].map(name),
            mode: heap.string(b"__mode"),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Value> + '_ {
        let own = [
            self.index,
            self.newindex,
            self.call,
            self.metatable,
            self.tostring,
            self.pairs,
            self.ipairs,
            self.n,
            self.concat,
            self.length,
            self.negate,
            self.equal,
            self.less,
            self.less_equal,
            self.mode,
        ];
        own.into_iter().chain(self.arithmetic).map(Value::String)
    }
}
