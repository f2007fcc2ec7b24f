//! One instruction at a time, apart from operators.

use super::{Flow, Machine, Run};
use crate::code::{ALL, Op, Prototype};
use crate::function::{Cell, Closure};
use crate::thread::{After, Frame};
use crate::value::{CellId, Value};

impl Machine<'_> {
    pub(super) fn pop(&mut self) -> Value {
        self.stack.pop().unwrap_or_default()
    }

    fn jump(&mut self, target: u32) {
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = target as usize;
        }
    }

    fn upvalue(&self, at: u16) -> Value {
        match self.heap.cell(self.cell_of(at)) {
            Cell::Closed(value) => value,
            Cell::Open(thread, slot) if thread == self.current => self.stack[slot],
            Cell::Open(thread, slot) => self.heap.thread(thread).stack[slot],
        }
    }

    fn set_upvalue(&mut self, at: u16, value: Value) {
        let cell = self.cell_of(at);
        match self.heap.cell(cell) {
            Cell::Closed(_) => self.heap.set_cell(cell, Cell::Closed(value)),
            Cell::Open(thread, slot) if thread == self.current => self.stack[slot] = value,
            Cell::Open(thread, slot) => self.heap.thread_mut(thread).stack[slot] = value,
        }
    }

    fn cell_of(&self, at: u16) -> CellId {
        let function = self.frames.last().map(|frame| frame.function);
        match function {
            Some(Value::Closure(id)) => self.heap.closure(id).cells[at as usize],
            other => unreachable!("{other:?} has no upvalues"),
        }
    }

    /// The cell of the variable at a place on the stack.
    fn capture(&mut self, slot: usize) -> CellId {
        let at = |machine: &Self, cell: CellId| match machine.heap.cell(cell) {
            Cell::Open(_, slot) => slot,
            Cell::Closed(_) => usize::MAX,
        };
        let found = self.open.iter().rposition(|cell| at(self, *cell) <= slot);
        if let Some(found) = found
            && at(self, self.open[found]) == slot
        {
            return self.open[found];
        }
        let cell = self.heap.new_cell(Cell::Open(self.current, slot));
        self.open.insert(found.map_or(0, |found| found + 1), cell);
        cell
    }

    /// Variables from `slot` on leave the stack.
    pub(crate) fn close(&mut self, slot: usize) {
        while let Some(cell) = self.open.last().copied() {
            match self.heap.cell(cell) {
                Cell::Open(_, at) if at < slot => return,
                Cell::Open(_, at) => self.heap.set_cell(cell, Cell::Closed(self.stack[at])),
                Cell::Closed(_) => {}
            }
            self.open.pop();
        }
    }

    pub(super) fn step(&mut self, op: Op, code: &Prototype, base: usize) -> Run<Flow> {
        match op {
            Op::Nil(count) => self.stack.resize(self.stack.len() + count as usize, Value::Nil),
            Op::True => self.stack.push(Value::Boolean(true)),
            Op::False => self.stack.push(Value::Boolean(false)),
            Op::Constant(at) => self.stack.push(code.constants[at as usize]),
            Op::Local(slot) => self.stack.push(self.stack[base + slot as usize]),
            Op::Upvalue(at) => self.stack.push(self.upvalue(at)),
            Op::UpvalueField(at, key) => {
                let (table, key) = (self.upvalue(at), code.constants[key as usize]);
                return self.index(table, key);
            }
            Op::NewTable => {
                let table = Value::Table(self.heap.new_table());
                self.stack.push(table);
            }
            Op::Closure(at) => {
                let code = code.functions[at as usize].clone();
                let cells = code.captures.iter().map(|capture| match capture {
                    crate::code::Capture::Local(slot) => self.capture(base + *slot as usize),
                    crate::code::Capture::Upvalue(at) => self.cell_of(*at),
                });
                let cells = cells.collect();
                let closure = self.heap.new_closure(Closure { code, cells });
                self.stack.push(Value::Closure(closure));
            }
            Op::Vararg(count) => {
                let at = self.frames.last().map_or(0, |frame| frame.at);
                let first = at + 1 + code.parameters as usize;
                let given = base - first;
                if count == ALL {
                    self.stack.extend_from_within(first..base);
                } else {
                    let taken = given.min(count as usize);
                    self.stack.extend_from_within(first..first + taken);
                    self.stack.resize(self.stack.len() + count as usize - taken, Value::Nil);
                }
                self.check_stack()?;
            }
            Op::Index => {
                let (key, table) = (self.pop(), self.pop());
                return self.index(table, key);
            }
            Op::Field(key) => {
                let (table, key) = (self.pop(), code.constants[key as usize]);
                return self.index(table, key);
            }
            Op::Method(key) => {
                let object = self.stack.last().copied().unwrap_or_default();
                return self.index(object, code.constants[key as usize]);
            }
            Op::Swap => {
                let top = self.stack.len();
                self.stack.swap(top - 1, top - 2);
            }
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Mod | Op::Pow => return self.arithmetic(op),
            Op::Negate => {
                let value = self.pop();
                if let Some(number) = self.number_of(value) {
                    self.stack.push(Value::Number(number.wrapping_neg()));
                } else {
                    let handler = self.metamethod(value, self.names.negate);
                    if handler == Value::Nil {
                        return self.operand_error("perform arithmetic on", value, 0);
                    }
                    return self.call_handler(handler, &[value, value], After::Results(1));
                }
            }
            Op::Not => {
                let value = self.pop();
                self.stack.push(Value::Boolean(!value.is_true()));
            }
            Op::Length => return self.length(),
            Op::Concat(count) => return self.concat(count as usize),
            Op::Equal | Op::NotEqual => return self.equal(op == Op::NotEqual),
            Op::Less | Op::LessEqual => {
                let (b, a) = (self.pop(), self.pop());
                return self.compare(a, b, op == Op::LessEqual);
            }
            Op::Greater | Op::GreaterEqual => {
                let (b, a) = (self.pop(), self.pop());
                return self.compare(b, a, op == Op::GreaterEqual);
            }
            Op::SetLocal(slot) => self.stack[base + slot as usize] = self.pop(),
            Op::SetUpvalue(at) => {
                let value = self.pop();
                self.set_upvalue(at, value);
            }
            Op::SetUpvalueField(at, key) => {
                let (value, table) = (self.pop(), self.upvalue(at));
                return self.set_index(table, code.constants[key as usize], value);
            }
            Op::SetIndex(slot) => {
                let (value, at) = (self.pop(), base + slot as usize);
                return self.set_index(self.stack[at], self.stack[at + 1], value);
            }
            Op::SetPair(slot) => {
                let (value, key) = (self.pop(), self.pop());
                return self.set_index(self.stack[base + slot as usize], key, value);
            }
            Op::SetField(slot, key) => {
                let value = self.pop();
                return self.set_index(self.stack[base + slot as usize], code.constants[key as usize], value);
            }
            Op::SetList(slot, first) => {
                let at = base + slot as usize;
                if let Value::Table(table) = self.stack[at] {
                    self.heap.set_list(table, first as usize, &self.stack[at + 1..]);
                }
                self.stack.truncate(at + 1);
            }
            Op::Pop(count) => self.stack.truncate(self.stack.len() - count as usize),
            Op::Close(slot) => self.close(base + slot as usize),
            Op::Jump(target) => self.jump(target),
            Op::JumpOut(slot, target) => {
                self.close(base + slot as usize);
                self.stack.truncate(base + slot as usize);
                self.jump(target);
            }
            Op::JumpIfNot(target) => {
                if !self.pop().is_true() {
                    self.jump(target);
                }
            }
            Op::JumpIf(target) => {
                if self.pop().is_true() {
                    self.jump(target);
                }
            }
            Op::And(target) | Op::Or(target) => {
                let is_true = self.stack.last().is_some_and(|value| value.is_true());
                if is_true == matches!(op, Op::Or(_)) {
                    self.jump(target);
                } else {
                    self.pop();
                }
            }
            Op::Call(slot, results) => {
                self.call(base + slot as usize, After::Results(results))?;
                return Ok(Flow::Reload);
            }
            Op::TailCall(slot) => {
                self.tail_call(base + slot as usize)?;
                return Ok(Flow::Reload);
            }
            Op::Return(slot) => {
                self.leave(base, base + slot as usize)?;
                return Ok(Flow::Reload);
            }
            Op::ForPrepare(slot, target) => self.prepare_loop(base + slot as usize, target)?,
            Op::ForLoop(slot, target) => self.advance_loop(base + slot as usize, target),
            Op::ForCall(slot, count) => {
                let at = base + slot as usize;
                self.stack.extend_from_within(at..at + 3);
                self.call(at + 3, After::Results(count as i16))?;
                return Ok(Flow::Reload);
            }
            Op::ForNext(slot, target) => {
                let at = base + slot as usize;
                match self.stack[at + 3] {
                    Value::Nil => self.stack.truncate(at + 3),
                    value => {
                        self.stack[at + 2] = value;
                        self.jump(target);
                    }
                }
            }
        }
        Ok(Flow::Next)
    }

    fn tail_call(&mut self, at: usize) -> Run<()> {
        if !matches!(self.stack[at], Value::Closure(_)) {
            return self.call(at, After::Results(ALL));
        }
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        self.close(frame.base);
        self.stack.drain(frame.at..at);
        let function = self.stack[frame.at];
        self.enter(Frame { function, base: frame.at + 1, pc: 0, is_tail: true, ..frame })
    }

    /// Returns the values from `first` on from a function of Lua.
    fn leave(&mut self, base: usize, first: usize) -> Run<()> {
        self.close(base);
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        if self.frames.is_empty() && self.current != self.main {
            return self.end_thread(first);
        }
        self.supply(frame.at, first, frame.after);
        Ok(())
    }

    fn loop_number(&mut self, at: usize, what: &str) -> Run<i64> {
        match self.number_of(self.stack[at]) {
            Some(number) => Ok(number),
            None => self.runtime_error(&format!("'for' {what} must be a number")),
        }
    }

    fn prepare_loop(&mut self, at: usize, target: u32) -> Run<()> {
        let start = self.loop_number(at, "initial value")?;
        let limit = self.loop_number(at + 1, "limit")?;
        let step = self.loop_number(at + 2, "step")?;
        for (place, number) in (at..).zip([start, limit, step]) {
            self.stack[place] = Value::Number(number);
        }
        if if step > 0 { start <= limit } else { start >= limit } {
            self.stack.push(Value::Number(start));
        } else {
            self.jump(target);
        }
        Ok(())
    }

    fn advance_loop(&mut self, at: usize, target: u32) {
        let [Value::Number(index), Value::Number(limit), Value::Number(step)] = self.stack[at..at + 3] else { return };
        let Some(index) = index.checked_add(step) else { return };
        if if step > 0 { index <= limit } else { index >= limit } {
            self.stack[at] = Value::Number(index);
            self.stack.push(Value::Number(index));
            self.jump(target);
        }
    }
}
