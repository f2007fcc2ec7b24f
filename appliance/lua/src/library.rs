//! The libraries: the functions of Lua's base, coroutine, string and table libraries that OpenZFS
//! has, and those of the host.
//!
//! Facts: lbaselib.c, lcorolib.c of Lua 5.2, and what OpenZFS removed from them.

mod base;
mod coroutines;
mod pattern;
mod strings;
mod tables;

use crate::host::{Complaint, Datum};
use crate::machine::{Arguments, BYTES_A_WORK, Machine, Returned, Run};
use crate::value::{BoundId, Native, TableId, Value};
use std::sync::Arc;

const BASE: &[(&str, Native)] = &[
    ("assert", Native::Assert),
    ("collectgarbage", Native::CollectGarbage),
    ("error", Native::Error),
    ("getmetatable", Native::GetMetatable),
    ("ipairs", Native::Ipairs),
    ("next", Native::Next),
    ("pairs", Native::Pairs),
    ("rawequal", Native::RawEqual),
    ("rawget", Native::RawGet),
    ("rawlen", Native::RawLen),
    ("rawset", Native::RawSet),
    ("select", Native::Select),
    ("setmetatable", Native::SetMetatable),
    ("tonumber", Native::ToNumber),
    ("tostring", Native::ToString),
    ("type", Native::Type),
];

const COROUTINE: &[(&str, Native)] = &[
    ("create", Native::CoCreate),
    ("resume", Native::CoResume),
    ("running", Native::CoRunning),
    ("status", Native::CoStatus),
    ("wrap", Native::CoWrap),
    ("yield", Native::CoYield),
];

const STRING: &[(&str, Native)] = &[
    ("byte", Native::StrByte),
    ("char", Native::StrChar),
    ("find", Native::StrFind),
    ("format", Native::StrFormat),
    ("gmatch", Native::StrGmatch),
    ("gsub", Native::StrGsub),
    ("len", Native::StrLen),
    ("lower", Native::StrLower),
    ("match", Native::StrMatch),
    ("rep", Native::StrRep),
    ("reverse", Native::StrReverse),
    ("sub", Native::StrSub),
    ("upper", Native::StrUpper),
];

const TABLE: &[(&str, Native)] = &[
    ("concat", Native::TabConcat),
    ("insert", Native::TabInsert),
    ("pack", Native::TabPack),
    ("remove", Native::TabRemove),
    ("sort", Native::TabSort),
    ("unpack", Native::TabUnpack),
];

impl Machine<'_> {
    /// Adds the libraries of Lua to the global variables.
    pub(crate) fn open_libraries(&mut self) {
        let globals = self.globals;
        self.heap.set_field(globals, "_G", Value::Table(globals));
        let version = self.text("Lua 5.2");
        self.heap.set_field(globals, "_VERSION", version);
        for (name, native) in BASE {
            self.heap.set_field(globals, name, Value::Native(*native));
        }
        for (library, functions) in [("coroutine", COROUTINE), ("string", STRING), ("table", TABLE)] {
            let table = self.subtable(globals, library);
            for (name, native) in functions {
                self.heap.set_field(table, name, Value::Native(*native));
            }
            if library == "string" {
                let (strings, index) = (self.strings, self.names.index);
                self.heap.set(strings, Value::String(index), Value::Table(table));
            }
        }
    }

    fn subtable(&mut self, table: TableId, name: &str) -> TableId {
        let key = self.text(name);
        if let Value::Table(found) = self.heap.table(table).get(key) {
            return found;
        }
        let made = self.heap.new_table();
        self.heap.set(table, key, Value::Table(made));
        made
    }

    /// Makes a value of the host a global variable: `a.b.c` is in tables, which are made.
    pub(crate) fn set_global(&mut self, name: &str, value: Value) {
        let (tables, last) = name.rsplit_once('.').unwrap_or(("", name));
        let parts = tables.split('.').filter(|part| !part.is_empty());
        let table = parts.fold(self.globals, |table, part| self.subtable(table, part));
        self.heap.set_field(table, last, value);
    }

    /// Runs a function of a library.
    pub(crate) fn native(&mut self, native: Native, bound: Option<BoundId>, args: Arguments) -> Run<Returned> {
        let count = match native {
            Native::CoResume => return self.co_resume(args),
            Native::CoWrapped => return self.co_wrapped(bound, args),
            Native::CoYield => return self.suspend(args.base),
            Native::CoCreate => self.co_create(args)?,
            Native::CoWrap => self.co_wrap(args)?,
            Native::CoRunning => self.co_running(),
            Native::CoStatus => self.co_status(args)?,
            Native::Assert => self.assert(args)?,
            Native::CollectGarbage => self.collect_garbage_function(args)?,
            Native::Error => return self.error_function(args),
            Native::GetMetatable => self.getmetatable(args)?,
            Native::Ipairs => self.ipairs(args)?,
            Native::IpairsNext => self.ipairs_next(args)?,
            Native::Next => self.next(args)?,
            Native::Pairs => self.pairs(args)?,
            Native::RawEqual => self.rawequal(args)?,
            Native::RawGet => self.rawget(args)?,
            Native::RawLen => self.rawlen(args)?,
            Native::RawSet => self.rawset(args)?,
            Native::Select => self.select(args)?,
            Native::SetMetatable => self.setmetatable(args)?,
            Native::ToNumber => self.tonumber(args)?,
            Native::ToString => self.tostring(args)?,
            Native::Type => self.type_function(args)?,
            Native::StrByte => self.str_byte(args)?,
            Native::StrChar => self.str_char(args)?,
            Native::StrFind => self.str_find(args, true)?,
            Native::StrMatch => self.str_find(args, false)?,
            Native::StrFormat => self.str_format(args)?,
            Native::StrGmatch => self.str_gmatch(args)?,
            Native::StrGmatchNext => self.str_gmatch_next(bound)?,
            Native::StrGsub => self.str_gsub(args)?,
            Native::StrLen => self.str_len(args)?,
            Native::StrLower => self.str_map(args, |byte| byte.to_ascii_lowercase())?,
            Native::StrUpper => self.str_map(args, |byte| byte.to_ascii_uppercase())?,
            Native::StrRep => self.str_rep(args)?,
            Native::StrReverse => self.str_reverse(args)?,
            Native::StrSub => self.str_sub(args)?,
            Native::TabConcat => self.tab_concat(args)?,
            Native::TabInsert => self.tab_insert(args)?,
            Native::TabPack => self.tab_pack(args),
            Native::TabRemove => self.tab_remove(args)?,
            Native::TabSort => self.tab_sort(args)?,
            Native::TabUnpack => self.tab_unpack(args)?,
            Native::Rows => self.next_row(bound),
            Native::Host(function) => self.call_host(function, args)?,
        };
        Ok(Returned::Values(count))
    }

    // Arguments.

    /// Argument `at`, counted from 0.
    pub(crate) fn argument(&self, args: Arguments, at: usize) -> Value {
        if at < args.count { self.stack[args.base + at] } else { Value::Nil }
    }

    fn push(&mut self, value: Value) -> usize {
        self.stack.push(value);
        1
    }

    fn push_text(&mut self, text: impl AsRef<[u8]>) -> usize {
        let value = self.text(text);
        self.push(value)
    }

    fn type_error<T>(&mut self, args: Arguments, at: usize, expected: &str) -> Run<T> {
        let got = if at < args.count { self.argument(args, at).type_name() } else { "no value" };
        self.bad_argument(at + 1, &format!("{expected} expected, got {got}"))
    }

    fn any(&mut self, args: Arguments, at: usize) -> Run<Value> {
        if at < args.count { Ok(self.argument(args, at)) } else { self.bad_argument(at + 1, "value expected") }
    }

    fn table_argument(&mut self, args: Arguments, at: usize) -> Run<TableId> {
        match self.argument(args, at) {
            Value::Table(id) => Ok(id),
            _ => self.type_error(args, at, "table"),
        }
    }

    fn number_argument(&mut self, args: Arguments, at: usize) -> Run<i64> {
        match self.number_of(self.argument(args, at)) {
            Some(number) => Ok(number),
            None => self.type_error(args, at, "number"),
        }
    }

    fn number_or(&mut self, args: Arguments, at: usize, default: i64) -> Run<i64> {
        match self.argument(args, at) {
            Value::Nil => Ok(default),
            _ => self.number_argument(args, at),
        }
    }

    fn text_argument(&mut self, args: Arguments, at: usize) -> Run<Arc<[u8]>> {
        match self.as_text(self.argument(args, at)) {
            Some(text) => Ok(text),
            None => self.type_error(args, at, "string"),
        }
    }

    // The host.

    fn call_host(&mut self, function: crate::host::FunctionId, args: Arguments) -> Run<usize> {
        let values: Vec<Value> = self.stack[args.base..args.base + args.count].to_vec();
        let arguments: Vec<Datum> = values.into_iter().map(|value| self.show_to_host(value, 1)).collect();
        let bytes: u64 = arguments.iter().map(|argument| argument.bytes() as u64).sum();
        self.count_work(bytes / BYTES_A_WORK)?;
        match self.host.call(function, arguments) {
            Ok(results) => {
                let count = results.len();
                for datum in results {
                    let value = self.bring(datum);
                    self.stack.push(value);
                }
                Ok(count)
            }
            Err(Complaint::Error(message)) => self.error(message),
            Err(Complaint::Argument(number, message)) => self.bad_argument(number, &message),
        }
    }

    /// A value for the host, with tables down to `levels`.
    fn show_to_host(&self, value: Value, levels: usize) -> Datum {
        match value {
            Value::Nil => Datum::Nil,
            Value::Boolean(is_true) => Datum::Boolean(is_true),
            Value::Number(number) => Datum::Number(number),
            Value::String(id) => Datum::Text(self.heap.text(id).to_vec()),
            Value::Table(id) if levels > 0 => {
                let entries = self.heap.table(id).iter();
                Datum::Table(
                    entries.map(|(k, v)| (self.show_to_host(k, 0), self.show_to_host(v, levels - 1))).collect(),
                )
            }
            other => Datum::Other(other.type_name()),
        }
    }

    /// A value from the host.
    pub(crate) fn bring(&mut self, datum: Datum) -> Value {
        match datum {
            Datum::Nil | Datum::Other(_) => Value::Nil,
            Datum::Boolean(is_true) => Value::Boolean(is_true),
            Datum::Number(number) => Value::Number(number),
            Datum::Text(text) => self.text(text),
            Datum::Table(entries) => {
                let table = self.heap.new_table();
                for (key, value) in entries {
                    let (key, value) = (self.bring(key), self.bring(value));
                    if key != Value::Nil {
                        self.heap.set(table, key, value);
                    }
                }
                Value::Table(table)
            }
            Datum::Rows(rows) => {
                let table = self.heap.new_table();
                for (row, at) in rows.into_iter().zip(1..) {
                    let row = Datum::array(row);
                    let row = self.bring(row);
                    self.heap.set(table, Value::Number(at), row);
                }
                self.heap.new_bound(Native::Rows, vec![Value::Table(table), Value::Number(1)])
            }
        }
    }

    /// The values of the next row.
    fn next_row(&mut self, bound: Option<BoundId>) -> usize {
        let Some(bound) = bound else { return 0 };
        let [Value::Table(rows), Value::Number(at)] = self.heap.bound(bound).values[..] else { return 0 };
        let Value::Table(row) = self.heap.table(rows).get(Value::Number(at)) else { return 0 };
        self.heap.bound_mut(bound).values[1] = Value::Number(at + 1);
        let values: Vec<Value> = self.heap.table(row).iter().map(|(_, value)| value).collect();
        self.stack.extend_from_slice(&values);
        values.len()
    }
}
