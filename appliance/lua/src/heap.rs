//! The memory of a program: everything that values refer to, and what it takes.
//!
//! Invariants:
//!   * equal strings are one entry
//!   * nothing is collected except between two instructions, or where a library function asks for
//!     memory while all values that it uses are on the stack

use crate::code::Prototype;
use crate::function::{Bound, Cell, Closure};
use crate::thread::Thread;
use crate::value::{BoundId, CellId, ClosureId, Native, StringId, Table, TableId, ThreadId, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// Memory of an entry besides its contents. Guessed, from the sizes of Lua's objects.
const ENTRY_BYTES: usize = 40;
/// Memory that is used before anything is collected for the first time. Guessed.
const FIRST_COLLECTION_BYTES: usize = 256 << 10;

struct Slab<T> {
    entries: Vec<Option<T>>,
    marks: Vec<bool>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), marks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn add(&mut self, entry: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = Some(entry);
                at
            }
            None => {
                self.entries.push(Some(entry));
                self.marks.push(false);
                self.entries.len() as u32 - 1
            }
        }
    }

    fn get(&self, at: u32) -> &T {
        self.entries[at as usize].as_ref().expect("a value that is in use was not collected")
    }

    fn get_mut(&mut self, at: u32) -> &mut T {
        self.entries[at as usize].as_mut().expect("a value that is in use was not collected")
    }

    /// Marks an entry; whether it was not marked before.
    fn mark(&mut self, at: u32) -> bool {
        !std::mem::replace(&mut self.marks[at as usize], true)
    }

    /// Removes all entries that are not marked, and all marks.
    fn sweep(&mut self, mut gone: impl FnMut(u32, T)) {
        for (at, is_marked) in self.marks.iter_mut().enumerate() {
            if !std::mem::take(is_marked)
                && let Some(entry) = self.entries[at].take()
            {
                self.free.push(at as u32);
                gone(at as u32, entry);
            }
        }
    }
}

pub(crate) struct Heap {
    strings: Slab<Arc<[u8]>>,
    numbers: HashMap<Arc<[u8]>, StringId>,
    tables: Slab<Table>,
    closures: Slab<Closure>,
    bounds: Slab<Bound>,
    cells: Slab<Cell>,
    threads: Slab<Thread>,
    /// Functions of the program, which are never collected.
    code: Vec<Arc<Prototype>>,
    used_bytes: usize,
    limit_bytes: usize,
    collect_at: usize,
}

impl Heap {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            strings: Slab::default(),
            numbers: HashMap::new(),
            tables: Slab::default(),
            closures: Slab::default(),
            bounds: Slab::default(),
            cells: Slab::default(),
            threads: Slab::default(),
            code: Vec::new(),
            used_bytes: 0,
            limit_bytes,
            collect_at: FIRST_COLLECTION_BYTES.min(limit_bytes),
        }
    }

    /// Counts memory that is not an entry's.
    pub(crate) fn charge(&mut self, bytes: usize) {
        self.used_bytes += bytes;
    }

    pub(crate) fn discharge(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Entries, with those that are free: a collection looks at all of them.
    pub(crate) fn entry_count(&self) -> usize {
        let functions = self.closures.marks.len() + self.bounds.marks.len() + self.cells.marks.len();
        self.strings.marks.len() + self.tables.marks.len() + self.threads.marks.len() + functions
    }

    /// Whether it is time to collect, when `more` bytes are added.
    pub(crate) fn is_due(&self, more: usize) -> bool {
        self.used_bytes.saturating_add(more) > self.collect_at
    }

    /// Whether `more` bytes exceed the limit.
    pub(crate) fn exceeds(&self, more: usize) -> bool {
        self.used_bytes.saturating_add(more) > self.limit_bytes
    }

    pub(crate) fn string(&mut self, text: &[u8]) -> StringId {
        if let Some(id) = self.numbers.get(text) {
            return *id;
        }
        let text: Arc<[u8]> = text.into();
        self.used_bytes += text.len() + ENTRY_BYTES;
        let id = StringId(self.strings.add(text.clone()));
        self.numbers.insert(text, id);
        id
    }

    pub(crate) fn text(&self, id: StringId) -> &Arc<[u8]> {
        self.strings.get(id.0)
    }

    pub(crate) fn new_table(&mut self) -> TableId {
        let table = Table::default();
        self.used_bytes += table.bytes();
        TableId(self.tables.add(table))
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        self.tables.get(id.0)
    }

    pub(crate) fn set_metatable(&mut self, id: TableId, metatable: Option<TableId>) {
        self.tables.get_mut(id.0).metatable = metatable;
    }

    /// Sets a key, which must not be nil.
    pub(crate) fn set(&mut self, id: TableId, key: Value, value: Value) {
        let table = self.tables.get_mut(id.0);
        let before = table.bytes();
        table.set(key, value);
        self.used_bytes = (self.used_bytes + table.bytes()).saturating_sub(before);
    }

    /// Sets the keys from `first` on.
    pub(crate) fn set_list(&mut self, id: TableId, first: usize, values: &[Value]) {
        let table = self.tables.get_mut(id.0);
        let before = table.bytes();
        table.set_list(first, values);
        self.used_bytes = (self.used_bytes + table.bytes()).saturating_sub(before);
    }

    pub(crate) fn set_field(&mut self, id: TableId, name: &str, value: Value) {
        let key = Value::String(self.string(name.as_bytes()));
        self.set(id, key, value);
    }

    pub(crate) fn new_closure(&mut self, closure: Closure) -> ClosureId {
        self.used_bytes += ENTRY_BYTES + closure.cells.len() * 8;
        ClosureId(self.closures.add(closure))
    }

    pub(crate) fn closure(&self, id: ClosureId) -> &Closure {
        self.closures.get(id.0)
    }

    pub(crate) fn new_bound(&mut self, native: Native, values: Vec<Value>) -> Value {
        self.used_bytes += ENTRY_BYTES + values.len() * size_of::<Value>();
        Value::Bound(BoundId(self.bounds.add(Bound { native, values })))
    }

    pub(crate) fn bound(&self, id: BoundId) -> &Bound {
        self.bounds.get(id.0)
    }

    pub(crate) fn bound_mut(&mut self, id: BoundId) -> &mut Bound {
        self.bounds.get_mut(id.0)
    }

    pub(crate) fn new_cell(&mut self, cell: Cell) -> CellId {
        self.used_bytes += ENTRY_BYTES;
        CellId(self.cells.add(cell))
    }

    pub(crate) fn cell(&self, id: CellId) -> Cell {
        *self.cells.get(id.0)
    }

    pub(crate) fn set_cell(&mut self, id: CellId, cell: Cell) {
        *self.cells.get_mut(id.0) = cell;
    }

    pub(crate) fn new_thread(&mut self, thread: Thread) -> ThreadId {
        self.used_bytes += size_of::<Thread>() + ENTRY_BYTES;
        ThreadId(self.threads.add(thread))
    }

    pub(crate) fn thread(&self, id: ThreadId) -> &Thread {
        self.threads.get(id.0)
    }

    pub(crate) fn thread_mut(&mut self, id: ThreadId) -> &mut Thread {
        self.threads.get_mut(id.0)
    }

    /// Keeps the constants of a program.
    pub(crate) fn add_code(&mut self, code: Arc<Prototype>) {
        self.used_bytes += code.bytes();
        self.code.push(code);
    }

    /// Removes everything that cannot be reached from `roots`.
    pub(crate) fn collect(&mut self, roots: impl IntoIterator<Item = Value>, mode: StringId) {
        let mut marking = Marking { queue: roots.into_iter().collect(), weak: Vec::new(), mode: Value::String(mode) };
        let mut code: Vec<Arc<Prototype>> = self.code.clone();
        while let Some(function) = code.pop() {
            marking.queue.extend(function.constants.iter().copied());
            code.extend(function.functions.iter().cloned());
        }
        while let Some(value) = marking.queue.pop() {
            self.mark(value, &mut marking);
        }
        for (id, keys, values) in std::mem::take(&mut marking.weak) {
            self.drop_weak(id, keys, values);
        }
        self.sweep();
        self.collect_at = (self.used_bytes * 2).max(FIRST_COLLECTION_BYTES).min(self.limit_bytes.max(self.used_bytes));
    }

    fn mark(&mut self, value: Value, marking: &mut Marking) {
        match value {
            Value::String(id) => drop(self.strings.mark(id.0)),
            Value::Table(id) if self.tables.mark(id.0) => {
                let table = self.tables.get(id.0);
                marking.queue.extend(table.metatable.map(Value::Table));
                let mode = table.metatable.map(|meta| self.tables.get(meta.0).get(marking.mode));
                let (mut keys, mut values) = (false, false);
                if let Some(Value::String(mode)) = mode {
                    let mode = self.strings.get(mode.0);
                    (keys, values) = (mode.contains(&b'k'), mode.contains(&b'v'));
                }
                for (key, value) in table.iter() {
                    // Strings are values, and never removed from weak tables.
                    if !keys || matches!(key, Value::String(_)) {
                        marking.queue.push(key);
                    }
                    if !values || matches!(value, Value::String(_)) {
                        marking.queue.push(value);
                    }
                }
                if keys || values {
                    marking.weak.push((id, keys, values));
                }
            }
            Value::Closure(id) if self.closures.mark(id.0) => {
                for cell in &self.closures.get(id.0).cells {
                    if self.cells.mark(cell.0) {
                        match *self.cells.get(cell.0) {
                            Cell::Closed(value) => marking.queue.push(value),
                            // The variable needs its stack, even if nothing else needs the thread.
                            Cell::Open(thread, _) => marking.queue.push(Value::Thread(thread)),
                        }
                    }
                }
            }
            Value::Bound(id) if self.bounds.mark(id.0) => marking.queue.extend(&self.bounds.get(id.0).values),
            Value::Thread(id) if self.threads.mark(id.0) => {
                let thread = self.threads.get(id.0);
                marking.queue.extend(&thread.stack);
                marking.queue.extend(thread.resumer.map(Value::Thread));
                marking.queue.extend(thread.frames.iter().map(|frame| frame.function));
                for cell in &thread.open {
                    self.cells.mark(cell.0);
                }
            }
            _ => {}
        }
    }

    fn is_gone(&self, value: Value) -> bool {
        match value {
            Value::Table(id) => !self.tables.marks[id.0 as usize],
            Value::Closure(id) => !self.closures.marks[id.0 as usize],
            Value::Bound(id) => !self.bounds.marks[id.0 as usize],
            Value::Thread(id) => !self.threads.marks[id.0 as usize],
            _ => false,
        }
    }

    fn drop_weak(&mut self, id: TableId, keys: bool, values: bool) {
        let mut table = std::mem::take(self.tables.get_mut(id.0));
        let before = table.bytes();
        table.remove_where(|key, value| keys && self.is_gone(key) || values && self.is_gone(value));
        self.used_bytes = (self.used_bytes + table.bytes()).saturating_sub(before);
        *self.tables.get_mut(id.0) = table;
    }

    fn sweep(&mut self) {
        let mut freed = 0;
        let numbers = &mut self.numbers;
        self.strings.sweep(|_, text| {
            freed += text.len() + ENTRY_BYTES;
            numbers.remove(&text);
        });
        self.tables.sweep(|_, table| freed += table.bytes());
        self.closures.sweep(|_, closure| freed += ENTRY_BYTES + closure.cells.len() * 8);
        self.bounds.sweep(|_, bound| freed += ENTRY_BYTES + bound.values.len() * size_of::<Value>());
        self.cells.sweep(|_, _| freed += ENTRY_BYTES);
        self.threads.sweep(|_, thread| freed += size_of::<Thread>() + ENTRY_BYTES + thread.charged_bytes);
        self.used_bytes = self.used_bytes.saturating_sub(freed);
    }
}

struct Marking {
    queue: Vec<Value>,
    /// Tables whose keys or values do not keep anything.
    weak: Vec<(TableId, bool, bool)>,
    mode: Value,
}
