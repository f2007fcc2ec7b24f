//! The machine that runs a program.
//!
//! The stack and the calls of the running coroutine are in the machine itself; those of the others
//! are in the heap. Calls of Lua functions, metamethods and coroutines use no stack of this
//! process: only a library function that calls back, such as `table.sort`, runs the machine again
//! from within, and at most a few times.
//!
//! Invariants:
//!   * between two instructions, all values in use are on stacks or in the heap: only then memory
//!     is collected
//!   * limits end a program whatever it does: coroutines cannot catch them

use crate::code::{ALL, Op, Prototype};
use crate::function::{Cell, Closure};
use crate::heap::Heap;
use crate::host::Host;
use crate::lex::CHUNK;
use crate::thread::{After, Frame, Status, Thread};
use crate::value::{BoundId, CellId, Native, StringId, TableId, ThreadId, Value};
use std::sync::Arc;

/// Instructions between two looks at the limit, as in OpenZFS (zfs_lua_check_instrlimit_interval).
const INTERVAL: u64 = 100;
/// Values on the stack of a coroutine: LUAI_MAXSTACK.
const STACK_MAX: usize = 1_000_000;
/// How deep library functions and functions of Lua can call each other, and coroutines wait for
/// each other: LUAI_MAXCCALLS.
pub(crate) const LEVELS_MAX: usize = 20;
/// Bytes that are looked at for the price of one instruction, when memory is nearly exhausted or
/// the program asks for a collection. Guessed.
const BYTES_A_STEP: u64 = 32;

/// Elements, or bytes of a pattern's subject, that a library function looks at for the price of one
/// instruction. Guessed.
pub(crate) const WORK_A_STEP: u64 = 16;

/// Bytes that are copied or compared at once for the price of one element. Guessed.
pub(crate) const BYTES_A_WORK: u64 = 8;

/// Why a program ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// An error of Lua: any value.
    Error(Value),
    /// The memory limit.
    Memory,
    /// The limit of instructions.
    TimedOut,
    Cancelled,
}

pub(crate) type Run<T> = Result<T, Trouble>;

/// How a library function ended.
pub(crate) enum Returned {
    /// That many results are at the top of the stack.
    Values(usize),
    /// Another coroutine runs now.
    Switched,
}

enum Flow {
    Next,
    /// Another function runs now.
    Reload,
}

/// The arguments of a library function on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Arguments {
    pub(crate) base: usize,
    pub(crate) count: usize,
}

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
    concat: StringId,
    length: StringId,
    negate: StringId,
    equal: StringId,
    less: StringId,
    less_equal: StringId,
    arithmetic: [StringId; 6],
    mode: StringId,
}

impl Names {
    fn new(heap: &mut Heap) -> Self {
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

    fn all(&self) -> impl Iterator<Item = Value> + '_ {
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

pub(crate) struct Machine<'h> {
    pub(crate) heap: Heap,
    pub(crate) host: &'h mut dyn Host,
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// Variables on the stack that functions share, the highest last.
    open: Vec<CellId>,
    pub(crate) nested: usize,
    charged_bytes: usize,
    pub(crate) current: ThreadId,
    pub(crate) main: ThreadId,
    pub(crate) globals: TableId,
    /// The metatable of all strings.
    pub(crate) strings: TableId,
    pub(crate) names: Names,
    /// Instructions since the last look at the limit.
    steps: u64,
    /// Work since the last step that was counted for it.
    work: u64,
    /// Instructions that are counted.
    pub(crate) executed: u64,
    limit: u64,
    pub(crate) levels: usize,
}

impl<'h> Machine<'h> {
    pub(crate) fn new(host: &'h mut dyn Host, mut heap: Heap, instruction_limit: u64) -> Self {
        let names = Names::new(&mut heap);
        let (globals, strings) = (heap.new_table(), heap.new_table());
        let main = heap.new_thread(Thread { status: Status::Running, ..Thread::default() });
        Self {
            heap,
            host,
            stack: Vec::new(),
            frames: Vec::new(),
            open: Vec::new(),
            nested: 0,
            charged_bytes: 0,
            current: main,
            main,
            globals,
            strings,
            names,
            steps: 0,
            work: 0,
            executed: 0,
            limit: instruction_limit,
            levels: 1,
        }
    }

    /// Runs a compiled program with one argument; its results are on the stack.
    pub(crate) fn start(&mut self, program: Prototype, argument: Value) -> Run<()> {
        let code = Arc::new(program);
        self.heap.add_code(code.clone());
        let globals = self.heap.new_cell(Cell::Closed(Value::Table(self.globals)));
        let closure = self.heap.new_closure(Closure { code, cells: vec![globals] });
        self.stack.extend([Value::Closure(closure), argument]);
        self.call(0, After::Results(ALL))?;
        self.run(self.main, 0)
    }

    // Errors.

    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) -> Value {
        self.note_work(text.as_ref().len() as u64 / BYTES_A_WORK);
        Value::String(self.heap.string(text.as_ref()))
    }

    /// The place of a call in the source, if it is one of Lua. 0: the innermost call.
    pub(crate) fn place(&self, level: usize) -> String {
        let frame = self.frames.len().checked_sub(level + 1).map(|at| &self.frames[at]);
        match frame.and_then(|frame| self.line(frame)) {
            Some(line) => format!("{CHUNK}:{line}: "),
            None => String::new(),
        }
    }

    fn line(&self, frame: &Frame) -> Option<u32> {
        let Value::Closure(id) = frame.function else { return None };
        self.heap.closure(id).code.lines.get(frame.pc.saturating_sub(1)).copied()
    }

    /// An error in the function that runs.
    fn runtime_error<T>(&mut self, message: &str) -> Run<T> {
        let text = format!("{}{message}", self.place(0));
        Err(Trouble::Error(self.text(text)))
    }

    /// An error of a library function: its place is the caller's.
    pub(crate) fn error<T>(&mut self, message: impl AsRef<[u8]>) -> Run<T> {
        let text = [self.place(1).as_bytes(), message.as_ref()].concat();
        Err(Trouble::Error(self.text(text)))
    }

    /// A wrong argument of a library function, counted from 1.
    pub(crate) fn bad_argument<T>(&mut self, mut number: usize, message: &str) -> Run<T> {
        let name = self.frames.len().checked_sub(1).and_then(|at| self.call_name(at));
        if let Some(("method", name)) = &name {
            number -= 1;
            if number == 0 {
                return self.error(format!("calling '{name}' on bad self"));
            }
        }
        let name = name.map_or_else(|| "?".to_owned(), |(_, name)| name);
        self.error(format!("bad argument #{number} to '{name}' ({message})"))
    }

    fn operand_error<T>(&mut self, what: &str, value: Value, operand: u8) -> Run<T> {
        let name = self.frames.last().and_then(|frame| match frame.function {
            Value::Closure(id) => {
                let code = self.heap.closure(id).code.clone();
                let name = code.origin(frame.pc - 1, operand).name();
                name.map(|(kind, name)| format!("{kind} '{name}' (a {} value)", value.type_name()))
            }
            _ => None,
        });
        let name = name.unwrap_or_else(|| format!("a {} value", value.type_name()));
        self.runtime_error(&format!("attempt to {what} {name}"))
    }

    /// What the caller calls the function of a call.
    fn call_name(&self, at: usize) -> Option<(&'static str, String)> {
        if self.frames[at].is_tail {
            return None;
        }
        let caller = &self.frames[at.checked_sub(1)?];
        let Value::Closure(id) = caller.function else { return None };
        let code = &self.heap.closure(id).code;
        let pc = caller.pc - 1;
        let metamethod = |name: &str| Some(("metamethod", name.to_owned()));
        match code.ops[pc] {
            Op::Call(..) | Op::TailCall(_) => code.origin(pc, 0).name().map(|(kind, name)| (kind, name.to_owned())),
            Op::ForCall(..) => Some(("for iterator", "for iterator".to_owned())),
            Op::Index | Op::Field(_) | Op::Method(_) | Op::UpvalueField(..) => metamethod("__index"),
            Op::SetIndex(_) | Op::SetPair(_) | Op::SetField(..) | Op::SetUpvalueField(..) => metamethod("__newindex"),
            Op::Add => metamethod("__add"),
            Op::Sub => metamethod("__sub"),
            Op::Mul => metamethod("__mul"),
            Op::Div => metamethod("__div"),
            Op::Mod => metamethod("__mod"),
            Op::Pow => metamethod("__pow"),
            Op::Negate => metamethod("__unm"),
            Op::Length => metamethod("__len"),
            Op::Concat(_) => metamethod("__concat"),
            Op::Equal | Op::NotEqual => metamethod("__eq"),
            Op::Less | Op::Greater => metamethod("__lt"),
            Op::LessEqual | Op::GreaterEqual => metamethod("__le"),
            _ => None,
        }
    }

    /// The calls that led here. Facts: luaL_traceback.
    pub(crate) fn traceback(&self) -> String {
        const FIRST: usize = 12;
        const LAST: usize = 10;
        let (mut text, count) = ("stack traceback:".to_owned(), self.frames.len());
        let mut level = 1;
        while level <= count {
            let at = count - level;
            level += 1;
            if count > FIRST + LAST && level == FIRST {
                text += "\n\t...";
                level = count - LAST;
                continue;
            }
            let frame = &self.frames[at];
            let code = match frame.function {
                Value::Closure(id) => Some(&self.heap.closure(id).code),
                _ => None,
            };
            text += "\n\t";
            match self.line(frame) {
                Some(line) => text += &format!("{CHUNK}:{line}: in "),
                None => text += "[C]: in ",
            }
            text += &match (self.call_name(at), code) {
                (Some((_, name)), _) => format!("function '{name}'"),
                (None, Some(code)) if code.line == 0 => "main chunk".to_owned(),
                (None, Some(code)) => format!("function <{CHUNK}:{}>", code.line),
                (None, None) => "?".to_owned(),
            };
            if frame.is_tail {
                text += "\n\t(...tail calls...)";
            }
        }
        text
    }

    // Memory and time.

    /// Fails if `bytes` more are too much. All values in use must be on the stack.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Run<()> {
        if self.heap.is_due(0) || self.heap.exceeds(bytes) {
            self.collect(bytes)?;
        }
        Ok(())
    }

    fn collect(&mut self, more: usize) -> Run<()> {
        let is_short = self.heap.exceeds(more);
        if is_short {
            // So that a program at the edge of its memory ends by its limit of instructions.
            self.collect_for_program();
        } else {
            self.collect_garbage();
        }
        if self.heap.exceeds(more) { Err(Trouble::Memory) } else { Ok(()) }
    }

    /// Collects where the program is the reason, and counts the work.
    pub(crate) fn collect_for_program(&mut self) {
        self.steps += self.heap.used_bytes() as u64 / BYTES_A_STEP + self.heap.entry_count() as u64 / WORK_A_STEP;
        self.collect_garbage();
    }

    fn collect_garbage(&mut self) {
        self.park();
        let roots = [
            Value::Thread(self.current),
            Value::Thread(self.main),
            Value::Table(self.globals),
            Value::Table(self.strings),
        ];
        self.heap.collect(roots.into_iter().chain(self.names.all()), self.names.mode);
        self.unpark();
    }

    /// Puts the running coroutine into the heap.
    pub(crate) fn park(&mut self) {
        let thread = self.heap.thread_mut(self.current);
        std::mem::swap(&mut thread.stack, &mut self.stack);
        std::mem::swap(&mut thread.frames, &mut self.frames);
        std::mem::swap(&mut thread.open, &mut self.open);
        thread.nested = self.nested;
        thread.charged_bytes = self.charged_bytes;
    }

    pub(crate) fn unpark(&mut self) {
        let thread = self.heap.thread_mut(self.current);
        std::mem::swap(&mut thread.stack, &mut self.stack);
        std::mem::swap(&mut thread.frames, &mut self.frames);
        std::mem::swap(&mut thread.open, &mut self.open);
        self.nested = thread.nested;
        self.charged_bytes = thread.charged_bytes;
    }

    fn check_limits(&mut self) -> Run<()> {
        self.executed += self.steps / INTERVAL * INTERVAL;
        self.steps %= INTERVAL;
        if self.host.is_cancelled() {
            return Err(Trouble::Cancelled);
        }
        if self.executed > self.limit { Err(Trouble::TimedOut) } else { Ok(()) }
    }

    /// Counts the memory of the stack.
    fn check_stack(&mut self) -> Run<()> {
        if self.stack.len() > STACK_MAX {
            return self.runtime_error("stack overflow");
        }
        let bytes = self.stack.len() * size_of::<Value>() + self.frames.len() * size_of::<Frame>();
        if bytes > self.charged_bytes {
            let more = bytes * 2 - self.charged_bytes;
            self.reserve(more)?;
            self.heap.charge(more);
            self.charged_bytes += more;
        }
        Ok(())
    }

    // Metatables.

    pub(crate) fn metatable(&self, value: Value) -> Option<TableId> {
        match value {
            Value::Table(id) => self.heap.table(id).metatable,
            Value::String(_) => Some(self.strings),
            _ => None,
        }
    }

    pub(crate) fn metamethod(&self, value: Value, name: StringId) -> Value {
        match self.metatable(value) {
            Some(table) => self.heap.table(table).get(Value::String(name)),
            None => Value::Nil,
        }
    }

    // Calls.

    /// Calls the function at `at` with the values above. A function of Lua has then begun, a
    /// library function has ended or another coroutine runs.
    pub(crate) fn call(&mut self, at: usize, after: After) -> Run<()> {
        loop {
            let function = self.stack[at];
            let frame = Frame { function, at, base: at + 1, pc: 0, after, is_tail: false };
            let (native, bound) = match function {
                Value::Closure(_) => return self.enter(frame),
                Value::Native(native) => (native, None),
                Value::Bound(id) => (self.heap.bound(id).native, Some(id)),
                other => {
                    let handler = self.metamethod(other, self.names.call);
                    if !matches!(handler, Value::Closure(_) | Value::Native(_) | Value::Bound(_)) {
                        return self.operand_error("call", other, 0);
                    }
                    self.stack.insert(at, handler);
                    continue;
                }
            };
            return self.call_native(native, bound, frame);
        }
    }

    fn call_native(&mut self, native: Native, bound: Option<BoundId>, frame: Frame) -> Run<()> {
        self.frames.push(frame);
        self.check_stack()?;
        let arguments = Arguments { base: frame.base, count: self.stack.len() - frame.base };
        if let Returned::Values(count) = self.native(native, bound, arguments)? {
            self.frames.pop();
            self.supply(frame.at, self.stack.len() - count, frame.after);
        }
        Ok(())
    }

    /// Begins a function of Lua.
    fn enter(&mut self, mut frame: Frame) -> Run<()> {
        let Value::Closure(id) = frame.function else { return Ok(()) };
        let code = &self.heap.closure(id).code;
        let (parameters, is_vararg) = (code.parameters as usize, code.is_vararg);
        let given = self.stack.len() - frame.base;
        if is_vararg {
            self.stack.resize(frame.base + given.max(parameters), Value::Nil);
            let first = frame.base;
            frame.base = self.stack.len();
            self.stack.extend_from_within(first..first + parameters);
        } else {
            self.stack.resize(frame.base + parameters, Value::Nil);
        }
        self.frames.push(frame);
        self.check_stack()
    }

    /// Puts the values from `first` on where a call was.
    pub(crate) fn supply(&mut self, at: usize, first: usize, after: After) {
        match after {
            After::Results(ALL) => drop(self.stack.drain(at..first)),
            After::Results(1) => {
                let value = self.stack.get(first).copied().unwrap_or_default();
                self.stack.truncate(at);
                self.stack.push(value);
            }
            After::Results(count) => {
                self.stack.drain(at..first);
                self.stack.resize(at + count as usize, Value::Nil);
            }
            After::Condition(is_negated) => {
                let value = self.stack.get(first).copied().unwrap_or_default();
                self.stack.truncate(at);
                self.stack.push(Value::Boolean(value.is_true() != is_negated));
            }
        }
    }

    /// Calls a function from a library function, and returns its first result. `weight`: what it
    /// adds to the depth of such calls.
    pub(crate) fn call_back(&mut self, function: Value, arguments: &[Value], weight: usize) -> Run<Value> {
        self.call_for(function, arguments, 1, weight)?;
        Ok(self.pop())
    }

    /// The same, with another number of results, on the stack.
    pub(crate) fn call_for(&mut self, function: Value, arguments: &[Value], results: i16, weight: usize) -> Run<()> {
        if self.levels + weight > LEVELS_MAX {
            return self.runtime_error("C stack overflow");
        }
        let (at, stop, home, levels) = (self.stack.len(), self.frames.len(), self.current, self.levels);
        self.stack.push(function);
        self.stack.extend_from_slice(arguments);
        self.levels += weight;
        self.nested += 1;
        let called = match self.call(at, After::Results(results)) {
            // A coroutine that was continued at once.
            Err(Trouble::Error(value)) if self.current != home => self.end_thread_with(value, home),
            called => called,
        };
        let result = called.and_then(|()| self.run(home, stop));
        // Elsewhere, a limit has ended the program.
        if self.current == home {
            self.nested -= 1;
            self.levels = levels;
        }
        result
    }

    /// Counts work of a library function, so that it cannot take for ever. It is much cheaper than
    /// instructions.
    pub(crate) fn count_work(&mut self, amount: u64) -> Run<()> {
        self.note_work(amount);
        if self.steps >= INTERVAL { self.check_limits() } else { Ok(()) }
    }

    /// The same, where the limit is looked at later.
    pub(crate) fn note_work(&mut self, amount: u64) {
        self.work += amount;
        self.steps += self.work / WORK_A_STEP;
        self.work %= WORK_A_STEP;
    }

    /// Work of a library function that is left before the limit.
    pub(crate) fn work_left(&self) -> u64 {
        let left = self.limit.saturating_sub(self.executed + self.steps);
        left.saturating_add(INTERVAL).saturating_mul(WORK_A_STEP)
    }

    /// The metamethod for the length of a value.
    pub(crate) fn length_handler(&self, value: Value) -> Value {
        self.metamethod(value, self.names.length)
    }

    /// Runs until coroutine `home` is back at `stop` calls.
    fn run(&mut self, home: ThreadId, stop: usize) -> Run<()> {
        loop {
            match self.run_frames(home, stop) {
                Err(Trouble::Error(value)) if self.current != home => self.end_thread_with(value, home)?,
                result => return result,
            }
        }
    }

    fn run_frames(&mut self, home: ThreadId, stop: usize) -> Run<()> {
        loop {
            if self.frames.len() == stop && self.current == home {
                return Ok(());
            }
            let top = self.frames.len() - 1;
            let frame = self.frames[top];
            let Value::Closure(id) = frame.function else { return self.runtime_error("no function runs") };
            let code = self.heap.closure(id).code.clone();
            loop {
                if self.heap.is_due(0) {
                    self.collect(0)?;
                }
                let pc = self.frames[top].pc;
                self.frames[top].pc = pc + 1;
                let op = code.ops[pc];
                self.steps += op.cost();
                if self.steps >= INTERVAL {
                    self.check_limits()?;
                }
                if let Flow::Reload = self.step(op, &code, frame.base)? {
                    break;
                }
            }
        }
    }

    fn pop(&mut self) -> Value {
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

    fn step(&mut self, op: Op, code: &Prototype, base: usize) -> Run<Flow> {
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

    // Operators.

    fn call_handler(&mut self, handler: Value, operands: &[Value], after: After) -> Run<Flow> {
        let at = self.stack.len();
        self.stack.push(handler);
        self.stack.extend_from_slice(operands);
        self.call(at, after)?;
        Ok(Flow::Reload)
    }

    /// Pushes the value of a key.
    fn index(&mut self, mut object: Value, key: Value) -> Run<Flow> {
        for _ in 0..LOOP_MAX {
            if let Value::Table(id) = object {
                let value = self.heap.table(id).get(key);
                if value != Value::Nil || self.heap.table(id).metatable.is_none() {
                    self.stack.push(value);
                    return Ok(Flow::Next);
                }
            }
            match (self.metamethod(object, self.names.index), object) {
                (Value::Nil, Value::Table(_)) => {
                    self.stack.push(Value::Nil);
                    return Ok(Flow::Next);
                }
                (Value::Nil, _) => return self.operand_error("index", object, 0),
                (handler @ (Value::Closure(_) | Value::Native(_) | Value::Bound(_)), _) => {
                    return self.call_handler(handler, &[object, key], After::Results(1));
                }
                (next, _) => object = next,
            }
        }
        self.runtime_error("loop in gettable")
    }

    fn set_index(&mut self, mut object: Value, key: Value, value: Value) -> Run<Flow> {
        for _ in 0..LOOP_MAX {
            if let Value::Table(id) = object {
                let table = self.heap.table(id);
                let is_plain = table.metatable.is_none() || table.get(key) != Value::Nil;
                if is_plain || self.metamethod(object, self.names.newindex) == Value::Nil {
                    if key == Value::Nil {
                        return self.runtime_error("table index is nil");
                    }
                    self.heap.set(id, key, value);
                    return Ok(Flow::Next);
                }
            }
            match self.metamethod(object, self.names.newindex) {
                Value::Nil => return self.operand_error("index", object, 0),
                handler @ (Value::Closure(_) | Value::Native(_) | Value::Bound(_)) => {
                    return self.call_handler(handler, &[object, key, value], After::Results(0));
                }
                next => object = next,
            }
        }
        self.runtime_error("loop in settable")
    }

    /// The number that a value is.
    pub(crate) fn number_of(&mut self, value: Value) -> Option<i64> {
        match value {
            Value::Number(number) => Some(number),
            Value::String(id) => {
                let text = self.heap.text(id).clone();
                self.note_work(text.len() as u64 / BYTES_A_WORK);
                crate::number::parse(&text)
            }
            _ => None,
        }
    }

    fn arithmetic(&mut self, op: Op) -> Run<Flow> {
        use crate::number::{divide, modulo, power};
        let (b, a) = (self.pop(), self.pop());
        let (Some(x), Some(y)) = (self.number_of(a), self.number_of(b)) else {
            let at = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Mod, Op::Pow].iter().position(|other| *other == op);
            let name = self.names.arithmetic[at.unwrap_or(0)];
            let mut handler = self.metamethod(a, name);
            if handler == Value::Nil {
                handler = self.metamethod(b, name);
            }
            if handler == Value::Nil {
                let (culprit, operand) = if self.number_of(a).is_none() { (a, 0) } else { (b, 1) };
                return self.operand_error("perform arithmetic on", culprit, operand);
            }
            return self.call_handler(handler, &[a, b], After::Results(1));
        };
        let result = match op {
            Op::Add => Some(x.wrapping_add(y)),
            Op::Sub => Some(x.wrapping_sub(y)),
            Op::Mul => Some(x.wrapping_mul(y)),
            Op::Div => divide(x, y),
            Op::Mod => modulo(x, y),
            _ => Some(power(x, y)),
        };
        match result {
            Some(number) => self.stack.push(Value::Number(number)),
            None if op == Op::Div => return self.runtime_error("attempt to divide by zero"),
            None => return self.runtime_error("attempt to perform 'n%0'"),
        }
        Ok(Flow::Next)
    }

    fn length(&mut self) -> Run<Flow> {
        let value = self.pop();
        if let Value::String(id) = value {
            self.stack.push(Value::Number(self.heap.text(id).len() as i64));
            return Ok(Flow::Next);
        }
        let handler = self.metamethod(value, self.names.length);
        match (handler, value) {
            (Value::Nil, Value::Table(id)) => {
                self.stack.push(Value::Number(self.heap.table(id).len()));
                Ok(Flow::Next)
            }
            (Value::Nil, _) => self.operand_error("get length of", value, 0),
            (handler, _) => self.call_handler(handler, &[value], After::Results(1)),
        }
    }

    /// The text of a string or number.
    pub(crate) fn as_text(&self, value: Value) -> Option<Arc<[u8]>> {
        match value {
            Value::String(id) => Some(self.heap.text(id).clone()),
            Value::Number(number) => Some(number.to_string().into_bytes().into()),
            _ => None,
        }
    }

    fn concat(&mut self, count: usize) -> Run<Flow> {
        let first = self.stack.len() - count;
        let is_text = |value: &Value| matches!(value, Value::String(_) | Value::Number(_));
        let start = if self.stack[first..].iter().all(is_text) { first } else { self.stack.len() - 2 };
        if self.stack[start..].iter().all(is_text) {
            let bytes = self.stack[start..].iter().map(|value| match value {
                Value::String(id) => self.heap.text(*id).len(),
                _ => 20,
            });
            let bytes = bytes.sum();
            self.reserve(bytes)?;
            let mut text = Vec::with_capacity(bytes);
            for value in &self.stack[start..] {
                match value {
                    Value::String(id) => text.extend_from_slice(self.heap.text(*id)),
                    Value::Number(number) => text.extend_from_slice(number.to_string().as_bytes()),
                    _ => {}
                }
            }
            let text = self.text(text);
            self.stack.truncate(start);
            self.stack.push(text);
            if start == first
                && let Some(frame) = self.frames.last_mut()
            {
                frame.pc += count - 2;
            }
            return Ok(Flow::Next);
        }
        let (b, a) = (self.pop(), self.pop());
        let mut handler = self.metamethod(a, self.names.concat);
        if handler == Value::Nil {
            handler = self.metamethod(b, self.names.concat);
        }
        if handler == Value::Nil {
            let (culprit, operand) = if is_text(&a) { (b, 1) } else { (a, 0) };
            return self.operand_error("concatenate", culprit, operand);
        }
        self.call_handler(handler, &[a, b], After::Results(1))
    }

    fn equal(&mut self, is_negated: bool) -> Run<Flow> {
        let (b, a) = (self.pop(), self.pop());
        let handler = match (a, b) {
            (Value::Table(_), Value::Table(_)) if a != b => {
                let (x, y) = (self.metamethod(a, self.names.equal), self.metamethod(b, self.names.equal));
                if x == y { x } else { Value::Nil }
            }
            _ => Value::Nil,
        };
        if handler != Value::Nil {
            return self.call_handler(handler, &[a, b], After::Condition(is_negated));
        }
        self.stack.push(Value::Boolean((a == b) != is_negated));
        Ok(Flow::Next)
    }

    /// The order of two numbers or two strings.
    fn order(&mut self, a: Value, b: Value) -> Option<std::cmp::Ordering> {
        match (a, b) {
            (Value::Number(a), Value::Number(b)) => Some(a.cmp(&b)),
            (Value::String(a), Value::String(b)) => {
                let (a, b) = (self.heap.text(a), self.heap.text(b));
                let (order, bytes) = (a.cmp(b), a.len().min(b.len()) as u64);
                self.note_work(bytes / BYTES_A_WORK);
                Some(order)
            }
            _ => None,
        }
    }

    fn compare(&mut self, a: Value, b: Value, or_equal: bool) -> Run<Flow> {
        if let Some(order) = self.order(a, b) {
            self.stack.push(Value::Boolean(if or_equal { order.is_le() } else { order.is_lt() }));
            return Ok(Flow::Next);
        }
        let handler = |machine: &Self, name: StringId| match machine.metamethod(a, name) {
            Value::Nil => machine.metamethod(b, name),
            handler => handler,
        };
        if or_equal {
            let direct = handler(self, self.names.less_equal);
            if direct != Value::Nil {
                return self.call_handler(direct, &[a, b], After::Condition(false));
            }
        }
        let less = handler(self, self.names.less);
        if less == Value::Nil {
            return self.order_error(a, b);
        }
        let operands = if or_equal { [b, a] } else { [a, b] };
        self.call_handler(less, &operands, After::Condition(or_equal))
    }

    fn order_error<T>(&mut self, a: Value, b: Value) -> Run<T> {
        let (a, b) = (a.type_name(), b.type_name());
        if a == b {
            self.runtime_error(&format!("attempt to compare two {a} values"))
        } else {
            self.runtime_error(&format!("attempt to compare {a} with {b}"))
        }
    }

    /// Whether `a` comes before `b`, from a library function.
    pub(crate) fn is_less(&mut self, a: Value, b: Value) -> Run<bool> {
        if let Some(order) = self.order(a, b) {
            return Ok(order.is_lt());
        }
        let mut handler = self.metamethod(a, self.names.less);
        if handler == Value::Nil {
            handler = self.metamethod(b, self.names.less);
        }
        if handler == Value::Nil {
            return self.order_error(a, b);
        }
        Ok(self.call_back(handler, &[a, b], 1)?.is_true())
    }

    /// The value of a key, from a library function. `weight`: as of [`Self::call_back`].
    pub(crate) fn get(&mut self, mut object: Value, key: Value, weight: usize) -> Run<Value> {
        for _ in 0..LOOP_MAX {
            if let Value::Table(id) = object {
                let value = self.heap.table(id).get(key);
                if value != Value::Nil {
                    return Ok(value);
                }
            }
            match (self.metamethod(object, self.names.index), object) {
                (Value::Nil, Value::Table(_)) => return Ok(Value::Nil),
                (Value::Nil, _) => return self.operand_error("index", object, 0),
                (handler @ (Value::Closure(_) | Value::Native(_) | Value::Bound(_)), _) => {
                    return self.call_back(handler, &[object, key], weight);
                }
                (next, _) => object = next,
            }
        }
        self.runtime_error("loop in gettable")
    }
}

/// Metatables that lead to each other: MAXTAGLOOP.
const LOOP_MAX: usize = 100;
