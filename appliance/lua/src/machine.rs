//! The machine that runs a program.
//!
//! The stack and the calls of the running coroutine are in the machine itself; those of the others
//! are in the heap. Calls of Lua functions, metamethods and coroutines use no stack of this
//! process: only a library function that calls back, such as `table.sort`, runs the machine again
//! from within, and at most a few times.
//!
//! Here: its state, calls, memory and limits. [`step`]: instructions; [`operators`]: operators and
//! metamethods; [`errors`]: messages with names and places; `switch.rs`: coroutines.
//!
//! Invariants:
//!   * between two instructions, all values in use are on stacks or in the heap: only then memory
//!     is collected
//!   * limits end a program whatever it does: coroutines cannot catch them

mod errors;
mod names;
mod operators;
mod step;

use crate::code::{ALL, Prototype};
use crate::function::{Cell, Closure};
use crate::heap::Heap;
use crate::host::Host;
use crate::thread::{After, Frame, Status, Thread};
use crate::value::{BoundId, CellId, Native, TableId, ThreadId, Value};
use names::Names;
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
}
