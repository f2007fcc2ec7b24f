//! Values of Lua, and what they refer to.
//!
//! A value is small and `Copy`: strings, tables, functions and coroutines are numbers of entries in
//! the heap. Equal strings are the same entry, so comparing and hashing a value never looks at its
//! contents.

use crate::host::FunctionId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

macro_rules! ids {
    ($($name:ident),*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) struct $name(pub(crate) u32);
    )*};
}

ids!(StringId, TableId, ClosureId, BoundId, CellId, ThreadId);

/// A value of Lua. Numbers are 64-bit integers, as in OpenZFS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Value {
    #[default]
    Nil,
    Boolean(bool),
    Number(i64),
    String(StringId),
    Table(TableId),
    Closure(ClosureId),
    /// A function of a library.
    Native(Native),
    /// A function of a library with values of its own.
    Bound(BoundId),
    Thread(ThreadId),
}

impl Value {
    pub(crate) fn is_true(self) -> bool {
        !matches!(self, Self::Nil | Self::Boolean(false))
    }

    /// The name of its type.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Table(_) => "table",
            Self::Closure(_) | Self::Native(_) | Self::Bound(_) => "function",
            Self::Thread(_) => "thread",
        }
    }
}

/// The functions of the libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Native {
    Assert,
    CollectGarbage,
    Error,
    GetMetatable,
    Ipairs,
    IpairsNext,
    Next,
    Pairs,
    RawEqual,
    RawGet,
    RawLen,
    RawSet,
    Select,
    SetMetatable,
    ToNumber,
    ToString,
    Type,
    CoCreate,
    CoResume,
    CoRunning,
    CoStatus,
    CoWrap,
    /// What `coroutine.wrap` returns.
    CoWrapped,
    CoYield,
    StrByte,
    StrChar,
    StrFind,
    StrFormat,
    StrGmatch,
    /// What `string.gmatch` returns.
    StrGmatchNext,
    StrGsub,
    StrLen,
    StrLower,
    StrMatch,
    StrRep,
    StrReverse,
    StrSub,
    StrUpper,
    TabConcat,
    TabInsert,
    TabPack,
    TabRemove,
    TabSort,
    TabUnpack,
    /// An iterator over rows that the host returned.
    Rows,
    /// A function of the host.
    Host(FunctionId),
}

/// Hashes values by one multiplication: no key comes from outside of the program's own memory
/// limit, and its instructions are counted.
#[derive(Default)]
pub(crate) struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 29)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, number: i64) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

type Positions = HashMap<Value, usize, BuildHasherDefault<QuickHasher>>;

/// A table: an array of the keys from 1 on, and all others in the order of their insertion.
///
/// Invariants:
///   * the array does not end with nil
///   * the key after the array's last one is not in `entries`
#[derive(Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    entries: Vec<(Value, Value)>,
    positions: Positions,
    /// Entries whose value is nil. They stay until the next key is inserted, so that a loop over
    /// the table may remove what it meets.
    vacant: usize,
    pub(crate) metatable: Option<TableId>,
}

impl Table {
    fn array_index(&self, key: Value) -> Option<usize> {
        match key {
            Value::Number(n) if n >= 1 && n <= self.array.len() as i64 => Some(n as usize - 1),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: Value) -> Value {
        match self.array_index(key) {
            Some(at) => self.array[at],
            None => match self.positions.get(&key) {
                Some(at) => self.entries[*at].1,
                None => Value::Nil,
            },
        }
    }

    /// Sets a key that is not nil.
    pub(crate) fn set(&mut self, key: Value, value: Value) {
        if let Some(at) = self.array_index(key) {
            self.array[at] = value;
            if value == Value::Nil && at + 1 == self.array.len() {
                while self.array.last() == Some(&Value::Nil) {
                    self.array.pop();
                }
            }
            return;
        }
        if let Some(at) = self.positions.get(&key) {
            let entry = &mut self.entries[*at].1;
            match (*entry == Value::Nil, value == Value::Nil) {
                (false, true) => self.vacant += 1,
                (true, false) => self.vacant -= 1,
                _ => {}
            }
            *entry = value;
            // The array may have become shorter, so that the key is next to it now.
            if value != Value::Nil && key == Value::Number(self.array.len() as i64 + 1) {
                self.remove_entry(key);
                self.append(value);
            }
            return;
        }
        if value == Value::Nil {
            return;
        }
        if key == Value::Number(self.array.len() as i64 + 1) {
            self.append(value);
        } else {
            if self.vacant > self.entries.len() / 2 {
                self.compact();
            }
            self.positions.insert(key, self.entries.len());
            self.entries.push((key, value));
        }
    }

    /// Sets the keys from `first` on. Among them may be nil: the last other one is the length.
    pub(crate) fn set_list(&mut self, first: usize, values: &[Value]) {
        if first != self.array.len() + 1 {
            values.iter().zip(first as i64..).for_each(|(value, key)| self.set(Value::Number(key), *value));
            return;
        }
        for (value, key) in values.iter().zip(first as i64..) {
            if !self.positions.is_empty() {
                self.remove_entry(Value::Number(key));
            }
            self.array.push(*value);
        }
        while self.array.last() == Some(&Value::Nil) {
            self.array.pop();
        }
        self.take_next();
    }

    fn append(&mut self, value: Value) {
        self.array.push(value);
        self.take_next();
    }

    /// Moves what follows the array into it.
    fn take_next(&mut self) {
        while !self.positions.is_empty() {
            let next = Value::Number(self.array.len() as i64 + 1);
            let Some(value) = self.remove_entry(next).filter(|value| *value != Value::Nil) else { break };
            self.array.push(value);
        }
    }

    fn remove_entry(&mut self, key: Value) -> Option<Value> {
        let at = self.positions.get(&key).copied()?;
        let value = std::mem::take(&mut self.entries[at].1);
        if value != Value::Nil {
            self.vacant += 1;
        }
        Some(value)
    }

    fn compact(&mut self) {
        self.entries.retain(|(_, value)| *value != Value::Nil);
        self.positions = self.entries.iter().enumerate().map(|(at, (key, _))| (*key, at)).collect();
        self.vacant = 0;
    }

    /// The number of elements: a key whose successor has no value.
    pub(crate) fn len(&self) -> i64 {
        self.array.len() as i64
    }

    /// The first entry after `key`; `Err`: there is no such key.
    pub(crate) fn next(&self, key: Value) -> Result<Option<(Value, Value)>, ()> {
        let mut at = match key {
            Value::Nil => 0,
            key => match (self.array_index(key), self.positions.get(&key)) {
                (Some(at), _) => at + 1,
                (None, Some(at)) => self.array.len() + at + 1,
                // The end of the array was removed while a loop was there.
                (None, None) => match key {
                    Value::Number(n) if n > 0 => self.array.len(),
                    _ => return Err(()),
                },
            },
        };
        while at < self.array.len() {
            if self.array[at] != Value::Nil {
                return Ok(Some((Value::Number(at as i64 + 1), self.array[at])));
            }
            at += 1;
        }
        let rest = self.entries.get(at - self.array.len()..).unwrap_or_default();
        Ok(rest.iter().find(|(_, value)| *value != Value::Nil).copied())
    }

    /// All entries, in the order of [`Table::next`].
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Value, Value)> + '_ {
        let array = self.array.iter().enumerate().map(|(at, value)| (Value::Number(at as i64 + 1), *value));
        array.chain(self.entries.iter().copied()).filter(|(_, value)| *value != Value::Nil)
    }

    /// Removes the entries for which `is_gone` holds.
    pub(crate) fn remove_where(&mut self, is_gone: impl Fn(Value, Value) -> bool) {
        let keys: Vec<Value> = self.iter().filter(|(key, value)| is_gone(*key, *value)).map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.set(key, Value::Nil));
        self.compact();
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        const VALUE: usize = size_of::<Value>();
        size_of::<Self>()
            + self.array.capacity() * VALUE
            + self.entries.capacity() * 2 * VALUE
            + self.positions.capacity() * (VALUE + 9)
    }
}
