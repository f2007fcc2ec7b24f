//! The table library. Like Lua 5.2's, it ignores metamethods of elements, except for `__len` and
//! the order of `sort`.

use crate::machine::{Arguments, BYTES_A_WORK, Machine, Run};
use crate::value::{TableId, Value};
use std::sync::Arc;

/// Results of `table.unpack`, and elements that are sorted. Guessed: below the limit of the stack,
/// which Lua checks here.
const UNPACKED_MAX: i64 = 1_000_000;

impl Machine<'_> {
    fn element(&self, table: TableId, at: i64) -> Value {
        self.heap.table(table).get(Value::Number(at))
    }

    fn set_element(&mut self, table: TableId, at: i64, value: Value) {
        self.heap.set(table, Value::Number(at), value);
    }

    /// The length that a program sees.
    fn length_of(&mut self, table: TableId) -> Run<i64> {
        let handler = self.length_handler(Value::Table(table));
        if handler == Value::Nil {
            return Ok(self.heap.table(table).len());
        }
        match self.call_back(handler, &[Value::Table(table)], 1)? {
            Value::Number(length) => Ok(length),
            _ => self.error("object length is not a number"),
        }
    }

    pub(super) fn tab_concat(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let separator = match self.argument(args, 1) {
            Value::Nil => Arc::default(),
            _ => self.text_argument(args, 1)?,
        };
        let first = self.number_or(args, 2, 1)?;
        let last = match self.argument(args, 3) {
            Value::Nil => self.length_of(table)?,
            _ => self.number_argument(args, 3)?,
        };
        let (mut text, mut at) = (Vec::new(), first);
        while at <= last {
            let value = self.element(table, at);
            let Some(part) = self.as_text(value) else {
                let name = value.type_name();
                return self.error(format!("invalid value ({name}) at index {at} in table for 'concat'"));
            };
            let more = part.len() + separator.len();
            self.count_work(1 + more as u64 / BYTES_A_WORK)?;
            self.reserve(text.len() + more)?;
            text.extend_from_slice(&part);
            if at == last {
                break;
            }
            text.extend_from_slice(&separator);
            at += 1;
        }
        Ok(self.push_text(text))
    }

    pub(super) fn tab_insert(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let end = self.length_of(table)?.wrapping_add(1);
        match args.count {
            2 => {
                let value = self.argument(args, 1);
                self.set_element(table, end, value);
            }
            3 => {
                let (at, value) = (self.number_argument(args, 1)?, self.argument(args, 2));
                if at < 1 || at > end {
                    return self.bad_argument(2, "position out of bounds");
                }
                let mut to = end;
                while to > at {
                    let moved = self.element(table, to - 1);
                    self.set_element(table, to, moved);
                    self.count_work(1)?;
                    to -= 1;
                }
                self.set_element(table, at, value);
            }
            _ => return self.error("wrong number of arguments to 'insert'"),
        }
        Ok(0)
    }

    pub(super) fn tab_remove(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let size = self.length_of(table)?;
        let at = self.number_or(args, 1, size)?;
        if at != size && !(1..=size.wrapping_add(1)).contains(&at) {
            return self.bad_argument(1, "position out of bounds");
        }
        let value = self.element(table, at);
        for to in at..size {
            let moved = self.element(table, to + 1);
            self.set_element(table, to, moved);
            self.count_work(1)?;
        }
        self.set_element(table, at.max(size), Value::Nil);
        Ok(self.push(value))
    }

    pub(super) fn tab_pack(&mut self, args: Arguments) -> usize {
        let table = self.heap.new_table();
        self.heap.set_list(table, 1, &self.stack[args.base..args.base + args.count]);
        let name = Value::String(self.names.n);
        self.heap.set(table, name, Value::Number(args.count as i64));
        self.push(Value::Table(table))
    }

    pub(super) fn tab_unpack(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let first = self.number_or(args, 1, 1)?;
        let last = match self.argument(args, 2) {
            Value::Nil => self.length_of(table)?,
            _ => self.number_argument(args, 2)?,
        };
        if first > last {
            return Ok(0);
        }
        let count = last.checked_sub(first).and_then(|n| n.checked_add(1)).filter(|count| *count < UNPACKED_MAX);
        let Some(count) = count else { return self.error("too many results to unpack") };
        self.reserve(count as usize * size_of::<Value>())?;
        for at in first..=last {
            let value = self.element(table, at);
            self.stack.push(value);
        }
        self.count_work(count as u64)?;
        Ok(count as usize)
    }

    pub(super) fn tab_sort(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let order = self.argument(args, 1);
        if order != Value::Nil && !matches!(order, Value::Closure(_) | Value::Native(_) | Value::Bound(_)) {
            return self.type_error(args, 1, "function");
        }
        let size = self.length_of(table)?;
        if size >= UNPACKED_MAX {
            return self.error("array too big");
        }
        // A function of the program may change the table meanwhile: the elements are on the stack,
        // where they are not collected.
        self.reserve(size.max(0) as usize * size_of::<Value>())?;
        let first = self.stack.len();
        for at in 1..=size {
            let value = self.element(table, at);
            self.stack.push(value);
        }
        self.sort(first, size.max(0) as usize, order)?;
        for at in 0..size.max(0) as usize {
            let value = self.stack[first + at];
            self.set_element(table, at as i64 + 1, value);
        }
        self.stack.truncate(first);
        Ok(0)
    }

    fn comes_before(&mut self, a: usize, b: usize, order: Value) -> Run<bool> {
        let (a, b) = (self.stack[a], self.stack[b]);
        self.count_work(1)?;
        match order {
            Value::Nil => self.is_less(a, b),
            order => Ok(self.call_back(order, &[a, b], 1)?.is_true()),
        }
    }

    /// Sorts values on the stack as a heap: no order of the elements makes it slow. An order that
    /// contradicts itself is an error where it shows, as in Lua.
    fn sort(&mut self, first: usize, count: usize, order: Value) -> Run<()> {
        for root in (0..count / 2).rev() {
            self.sift(first, root, count, order)?;
        }
        for end in (1..count).rev() {
            self.stack.swap(first, first + end);
            self.sift(first, 0, end, order)?;
        }
        for at in 1..count {
            // An order that includes equal elements is common, and does no harm.
            let is_other = self.stack[first + at] != self.stack[first + at - 1];
            if is_other && self.comes_before(first + at, first + at - 1, order)? {
                return self.error("invalid order function for sorting");
            }
        }
        Ok(())
    }

    fn sift(&mut self, first: usize, mut root: usize, end: usize, order: Value) -> Run<()> {
        loop {
            let mut child = root * 2 + 1;
            if child >= end {
                return Ok(());
            }
            if child + 1 < end && self.comes_before(first + child, first + child + 1, order)? {
                child += 1;
            }
            if !self.comes_before(first + root, first + child, order)? {
                return Ok(());
            }
            self.stack.swap(first + root, first + child);
            root = child;
        }
    }
}
