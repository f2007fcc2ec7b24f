//! The base library, without functions that load or print.

use crate::machine::{Arguments, BYTES_A_WORK, Machine, Returned, Run, Trouble};
use crate::number;
use crate::value::{Native, Value};
use std::sync::Arc;

impl Machine<'_> {
    pub(super) fn assert(&mut self, args: Arguments) -> Run<usize> {
        if self.argument(args, 0).is_true() {
            return Ok(args.count);
        }
        self.any(args, 0)?;
        match self.argument(args, 1) {
            Value::Nil => self.error("assertion failed!"),
            message => match self.as_text(message) {
                Some(text) => self.error(text),
                None => self.type_error(args, 1, "string"),
            },
        }
    }

    pub(super) fn error_function(&mut self, args: Arguments) -> Run<Returned> {
        let level = self.number_or(args, 1, 1)?;
        let mut value = self.argument(args, 0);
        if let (Some(text), true) = (self.as_text(value), level > 0) {
            let text = [self.place(level as usize).as_bytes(), &text].concat();
            value = self.text(text);
        }
        Err(Trouble::Error(value))
    }

    pub(super) fn collect_garbage_function(&mut self, args: Arguments) -> Run<usize> {
        let option = match self.argument(args, 0) {
            Value::Nil => b"collect".as_slice().into(),
            _ => self.text_argument(args, 0)?,
        };
        let result = match &*option {
            b"collect" | b"step" => {
                self.collect_for_program();
                let is_step = &*option == b"step";
                if is_step { Value::Boolean(true) } else { Value::Number(0) }
            }
            b"count" => {
                let bytes = self.heap.used_bytes() as i64;
                self.push(Value::Number(bytes / 1024));
                self.push(Value::Number(bytes % 1024));
                return Ok(2);
            }
            b"stop" | b"restart" | b"setpause" | b"setstepmul" | b"setmajorinc" | b"generational" | b"incremental" => {
                Value::Number(0)
            }
            b"isrunning" => Value::Boolean(true),
            option => {
                let message = format!("invalid option '{}'", String::from_utf8_lossy(option));
                return self.bad_argument(1, &message);
            }
        };
        Ok(self.push(result))
    }

    pub(super) fn getmetatable(&mut self, args: Arguments) -> Run<usize> {
        let value = self.any(args, 0)?;
        let Some(table) = self.metatable(value) else { return Ok(self.push(Value::Nil)) };
        let shown = self.heap.table(table).get(Value::String(self.names.metatable));
        Ok(self.push(if shown == Value::Nil { Value::Table(table) } else { shown }))
    }

    pub(super) fn setmetatable(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let metatable = match self.argument(args, 1) {
            Value::Table(id) => Some(id),
            Value::Nil if args.count > 1 => None,
            _ => return self.bad_argument(2, "nil or table expected"),
        };
        if self.metamethod(Value::Table(table), self.names.metatable) != Value::Nil {
            return self.error("cannot change a protected metatable");
        }
        self.heap.set_metatable(table, metatable);
        Ok(self.push(Value::Table(table)))
    }

    /// `pairs` and `ipairs` with metamethods.
    fn iterate_by(&mut self, args: Arguments, handler: Value) -> Run<usize> {
        let table = self.argument(args, 0);
        self.call_for(handler, &[table], 3, 1)?;
        Ok(3)
    }

    pub(super) fn pairs(&mut self, args: Arguments) -> Run<usize> {
        let value = self.any(args, 0)?;
        let handler = self.metamethod(value, self.names.pairs);
        if handler != Value::Nil {
            return self.iterate_by(args, handler);
        }
        self.table_argument(args, 0)?;
        self.stack.extend([Value::Native(Native::Next), value, Value::Nil]);
        Ok(3)
    }

    pub(super) fn ipairs(&mut self, args: Arguments) -> Run<usize> {
        let value = self.any(args, 0)?;
        let handler = self.metamethod(value, self.names.ipairs);
        if handler != Value::Nil {
            return self.iterate_by(args, handler);
        }
        self.table_argument(args, 0)?;
        self.stack.extend([Value::Native(Native::IpairsNext), value, Value::Number(0)]);
        Ok(3)
    }

    pub(super) fn ipairs_next(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        let at = self.number_argument(args, 1)?.wrapping_add(1);
        let value = self.heap.table(table).get(Value::Number(at));
        if value == Value::Nil {
            return Ok(self.push(Value::Nil));
        }
        self.stack.extend([Value::Number(at), value]);
        Ok(2)
    }

    pub(super) fn next(&mut self, args: Arguments) -> Run<usize> {
        let table = self.table_argument(args, 0)?;
        match self.heap.table(table).next(self.argument(args, 1)) {
            Ok(Some((key, value))) => {
                self.stack.extend([key, value]);
                Ok(2)
            }
            Ok(None) => Ok(self.push(Value::Nil)),
            Err(()) => self.error("invalid key to 'next'"),
        }
    }

    pub(super) fn rawequal(&mut self, args: Arguments) -> Run<usize> {
        let (a, b) = (self.any(args, 0)?, self.any(args, 1)?);
        Ok(self.push(Value::Boolean(a == b)))
    }

    pub(super) fn rawget(&mut self, args: Arguments) -> Run<usize> {
        let (table, key) = (self.table_argument(args, 0)?, self.any(args, 1)?);
        let value = self.heap.table(table).get(key);
        Ok(self.push(value))
    }

    pub(super) fn rawset(&mut self, args: Arguments) -> Run<usize> {
        let (table, key, value) = (self.table_argument(args, 0)?, self.any(args, 1)?, self.any(args, 2)?);
        if key == Value::Nil {
            return self.error("table index is nil");
        }
        self.heap.set(table, key, value);
        Ok(self.push(Value::Table(table)))
    }

    pub(super) fn rawlen(&mut self, args: Arguments) -> Run<usize> {
        let length = match self.argument(args, 0) {
            Value::Table(id) => self.heap.table(id).len(),
            Value::String(id) => self.heap.text(id).len() as i64,
            _ => return self.bad_argument(1, "table or string expected"),
        };
        Ok(self.push(Value::Number(length)))
    }

    pub(super) fn select(&mut self, args: Arguments) -> Run<usize> {
        if self.as_text(self.argument(args, 0)).as_deref() == Some(b"#") {
            return Ok(self.push(Value::Number(args.count as i64 - 1)));
        }
        let (at, count) = (self.number_argument(args, 0)?, args.count as i64);
        let first = if at < 0 { count.saturating_add(at) } else { at.min(count) };
        if first < 1 {
            return self.bad_argument(1, "index out of range");
        }
        Ok((count - first) as usize)
    }

    pub(super) fn tonumber(&mut self, args: Arguments) -> Run<usize> {
        let number = match self.argument(args, 1) {
            Value::Nil => {
                let value = self.any(args, 0)?;
                self.number_of(value)
            }
            _ => {
                let (text, base) = (self.text_argument(args, 0)?, self.number_argument(args, 1)?);
                if !(2..=36).contains(&base) {
                    return self.bad_argument(2, "base out of range");
                }
                self.note_work(text.len() as u64 / BYTES_A_WORK);
                number::parse_in(&text, base as u32)
            }
        };
        Ok(self.push(number.map_or(Value::Nil, Value::Number)))
    }

    pub(super) fn tostring(&mut self, args: Arguments) -> Run<usize> {
        let value = self.any(args, 0)?;
        let text = self.show(value)?;
        Ok(self.push_text(text))
    }

    /// A value as a text, as `tostring` does it.
    pub(super) fn show(&mut self, value: Value) -> Run<Arc<[u8]>> {
        let handler = self.metamethod(value, self.names.tostring);
        if handler != Value::Nil {
            let shown = self.call_back(handler, &[value], 1)?;
            return match self.as_text(shown) {
                Some(text) => Ok(text),
                None => self.error("'tostring' must return a string to 'print'"),
            };
        }
        let text = match value {
            Value::Nil => b"nil".to_vec(),
            Value::Boolean(is_true) => is_true.to_string().into_bytes(),
            Value::Table(id) => format!("table: 0x{:08x}", id.0).into_bytes(),
            Value::Closure(id) => format!("function: 0x{:08x}", id.0).into_bytes(),
            Value::Bound(id) => format!("function: 0x{:08x}", id.0).into_bytes(),
            Value::Native(native) => format!("function: builtin: {native:?}").into_bytes(),
            Value::Thread(id) => format!("thread: 0x{:08x}", id.0).into_bytes(),
            other => return Ok(self.as_text(other).unwrap_or_default()),
        };
        Ok(text.into())
    }

    pub(super) fn type_function(&mut self, args: Arguments) -> Run<usize> {
        let name = self.any(args, 0)?.type_name();
        Ok(self.push_text(name))
    }
}
