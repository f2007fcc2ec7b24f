//! Operators and the metamethods behind them.

use super::{BYTES_A_WORK, Flow, Machine, Run};
use crate::code::Op;
use crate::thread::After;
use crate::value::{StringId, TableId, Value};
use std::sync::Arc;

impl Machine<'_> {
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

    pub(super) fn call_handler(&mut self, handler: Value, operands: &[Value], after: After) -> Run<Flow> {
        let at = self.stack.len();
        self.stack.push(handler);
        self.stack.extend_from_slice(operands);
        self.call(at, after)?;
        Ok(Flow::Reload)
    }

    /// Pushes the value of a key.
    pub(super) fn index(&mut self, mut object: Value, key: Value) -> Run<Flow> {
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

    pub(super) fn set_index(&mut self, mut object: Value, key: Value, value: Value) -> Run<Flow> {
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

    pub(super) fn arithmetic(&mut self, op: Op) -> Run<Flow> {
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

    pub(super) fn length(&mut self) -> Run<Flow> {
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

    pub(super) fn concat(&mut self, count: usize) -> Run<Flow> {
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

    pub(super) fn equal(&mut self, is_negated: bool) -> Run<Flow> {
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

    pub(super) fn compare(&mut self, a: Value, b: Value, or_equal: bool) -> Run<Flow> {
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
