//! What a function consists of while it is compiled: instructions, variables, blocks, labels.

use crate::code::{Capture, Op, Origin, Prototype, Slot};
use crate::value::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// Facts: LUAI_MAXVARS, MAXUPVAL, MAXSTACK of Lua 5.2.
pub(crate) const LOCALS_MAX: usize = 200;
pub(crate) const UPVALUES_MAX: usize = 255;
const DEPTH_MAX: usize = 250;
/// Labels that are visible, and jumps to labels that are not known yet: SHRT_MAX.
pub(crate) const LABELS_MAX: usize = 32_767;

pub(crate) struct LocalVariable {
    pub(crate) name: Arc<str>,
    pub(crate) slot: usize,
    /// A function uses it: it must be closed when it leaves the stack.
    is_captured: bool,
}

#[derive(Default)]
pub(crate) struct Block {
    pub(crate) first_local: usize,
    first_label: usize,
    first_goto: usize,
    pub(crate) depth: usize,
    pub(crate) is_loop: bool,
}

struct Label {
    name: String,
    pc: usize,
    locals: usize,
    depth: usize,
}

/// A jump whose label is not known yet.
struct Goto {
    name: String,
    pc: usize,
    line: u32,
    locals: usize,
}

/// A variable as a function sees it.
pub(crate) enum Variable {
    Local(usize),
    Upvalue(u16),
}

#[derive(Default)]
pub(crate) struct Function {
    pub(crate) code: Prototype,
    constants: HashMap<Value, u32>,
    pub(crate) upvalues: Vec<Arc<str>>,
    pub(crate) locals: Vec<LocalVariable>,
    pub(crate) blocks: Vec<Block>,
    labels: Vec<Label>,
    gotos: Vec<Goto>,
    /// Values on the stack at this point.
    pub(crate) depth: usize,
    /// Line of the last token that was read.
    pub(crate) line: u32,
}

impl Function {
    /// Bytes of memory that it takes while it is compiled.
    pub(crate) fn bytes(&self) -> usize {
        let jumps = self.labels.len() * size_of::<Label>() + self.gotos.len() * size_of::<Goto>();
        // The constants are also the keys of a map.
        self.code.own_bytes() + self.constants.len() * 2 * size_of::<(Value, u32)>() + jumps
    }

    /// Whether there are too many labels or jumps to labels.
    pub(crate) fn has_too_many_labels(&self) -> bool {
        self.labels.len().max(self.gotos.len()) >= LABELS_MAX
    }

    pub(crate) fn pc(&self) -> usize {
        self.code.ops.len()
    }

    pub(crate) fn emit(&mut self, op: Op) -> usize {
        self.code.ops.push(op);
        self.code.lines.push(self.line);
        self.pc() - 1
    }

    /// Emits an instruction after which the depth is another one.
    pub(crate) fn emit_to(&mut self, op: Op, depth: usize) -> usize {
        self.depth = depth;
        self.emit(op)
    }

    pub(crate) fn push(&mut self, op: Op) -> usize {
        self.emit_to(op, self.depth + 1)
    }

    pub(crate) fn pop(&mut self, count: usize) {
        if count > 0 {
            self.emit_to(Op::Pop(count as u16), self.depth - count);
        }
    }

    pub(crate) fn is_too_deep(&self) -> bool {
        self.depth > DEPTH_MAX
    }

    pub(crate) fn constant(&mut self, value: Value) -> u32 {
        let code = &mut self.code;
        *self.constants.entry(value).or_insert_with(|| {
            code.constants.push(value);
            code.constants.len() as u32 - 1
        })
    }

    pub(crate) fn note_origin(&mut self, pc: usize, operand: u8, origin: Origin) {
        if origin != Origin::Unknown {
            self.code.origins.push((pc as u32, operand, origin));
        }
    }

    /// Sets the target of the jump at `at` to the next instruction.
    pub(crate) fn patch(&mut self, at: usize) {
        let here = self.pc() as u32;
        match &mut self.code.ops[at] {
            Op::Jump(target)
            | Op::JumpIf(target)
            | Op::JumpIfNot(target)
            | Op::And(target)
            | Op::Or(target)
            | Op::ForPrepare(_, target) => *target = here,
            op => unreachable!("{op:?} has no target"),
        }
    }

    /// Declares the value at `slot` to be a variable from here on.
    pub(crate) fn declare(&mut self, name: Arc<str>, slot: usize) {
        self.locals.push(LocalVariable { name, slot, is_captured: false });
    }

    pub(crate) fn local(&self, name: &str) -> Option<usize> {
        self.locals.iter().rposition(|local| &*local.name == name)
    }

    pub(crate) fn capture(&mut self, local: usize) -> Capture {
        self.locals[local].is_captured = true;
        Capture::Local(self.locals[local].slot as Slot)
    }

    pub(crate) fn enter(&mut self, is_loop: bool) {
        self.blocks.push(Block {
            first_local: self.locals.len(),
            first_label: self.labels.len(),
            first_goto: self.gotos.len(),
            depth: self.depth,
            is_loop,
        });
    }

    /// Removes the variables of the block from the stack.
    fn drop_locals(&mut self, first: usize, depth: usize) {
        if let Some(captured) = self.locals[first..].iter().find(|local| local.is_captured) {
            let slot = captured.slot as Slot;
            self.emit(Op::Close(slot));
        }
        self.locals.truncate(first);
        self.pop(self.depth - depth);
    }

    /// Ends the block. The error: a jump into the scope of a variable.
    pub(crate) fn leave(&mut self) -> Result<(), (u32, String)> {
        let Some(block) = self.blocks.pop() else { return Ok(()) };
        self.drop_locals(block.first_local, block.depth);
        self.labels.truncate(block.first_label);
        for goto in &mut self.gotos[block.first_goto..] {
            goto.locals = goto.locals.min(block.first_local);
        }
        if block.is_loop {
            self.resolve(block.first_goto, "break")?;
        }
        Ok(())
    }

    /// Patches the jumps to a label at this point.
    fn resolve(&mut self, first: usize, name: &str) -> Result<(), (u32, String)> {
        let (here, depth, count) = (self.pc() as u32, self.depth as Slot, self.locals.len());
        for goto in self.gotos.split_off(first) {
            if goto.name != name {
                self.gotos.push(goto);
                continue;
            }
            if goto.locals < count {
                let local = &self.locals[goto.locals].name;
                let message = format!("<goto {name}> at line {} jumps into the scope of local '{local}'", goto.line);
                return Err((goto.line, message));
            }
            self.code.ops[goto.pc] = Op::JumpOut(depth, here);
        }
        Ok(())
    }

    /// The line of an earlier label of that name in the current function.
    pub(crate) fn label_line(&self, name: &str) -> Option<u32> {
        let first = self.blocks.last().map_or(0, |block| block.first_label);
        let label = self.labels[first..].iter().find(|label| label.name == name)?;
        Some(self.code.lines.get(label.pc).copied().unwrap_or(self.line))
    }

    /// Places a label. At the end of a block, jumps may come from before its variables.
    pub(crate) fn label(&mut self, name: String, is_last: bool) -> Result<(), (u32, String)> {
        let (first_local, first_goto, depth) =
            self.blocks.last().map_or((0, 0, 0), |block| (block.first_local, block.first_goto, block.depth));
        if is_last {
            self.drop_locals(first_local, depth);
        }
        self.labels.push(Label { name: name.clone(), pc: self.pc(), locals: self.locals.len(), depth: self.depth });
        self.resolve(first_goto, &name)
    }

    /// Jumps to a label, which may follow later.
    pub(crate) fn goto(&mut self, name: &str, line: u32) {
        let known = self.labels.iter().rfind(|label| label.name == name);
        if let Some(label) = known {
            debug_assert!(label.locals <= self.locals.len());
            let op = Op::JumpOut(label.depth as Slot, label.pc as u32);
            self.emit(op);
            return;
        }
        let pc = self.emit(Op::Jump(0));
        self.gotos.push(Goto { name: name.to_owned(), pc, line, locals: self.locals.len() });
    }

    /// A jump without a label: its name and line.
    pub(crate) fn unresolved(&self) -> Option<(&str, u32)> {
        self.gotos.first().map(|goto| (&*goto.name, goto.line))
    }

    /// The compiled function.
    pub(crate) fn finish(mut self) -> Prototype {
        self.code.origins.sort_by_key(|(pc, operand, _)| (*pc, *operand));
        self.code
    }
}
