//! Expressions, calls, tables and the bodies of functions.

use super::{ELEMENTS_AT_ONCE, Expression, Parsed, Parser, Target};
use crate::code::{ALL, Op, Origin, Prototype, Slot};
use crate::compile::Function;
use crate::lex::Token;
use crate::value::Value;
use std::sync::Arc;

impl Parser<'_> {
    /// Expressions with commas between: their number, and the last one.
    pub(super) fn expressions(&mut self) -> Parsed<(usize, Expression)> {
        let (mut count, mut last) = (1, self.expression()?);
        while self.accept(",")? {
            last = self.expression()?;
            count += 1;
        }
        Ok((count, last))
    }

    /// Makes `count` expressions supply `targets` values.
    pub(super) fn adjust(&mut self, targets: usize, count: usize, last: Expression) {
        let function = self.function();
        let missing = targets as i64 - count as i64;
        if let (Some(pc), true) = (last.open, missing >= 0) {
            match &mut function.code.ops[pc] {
                Op::Call(_, results) | Op::Vararg(results) => *results = missing as i16 + 1,
                _ => {}
            }
            function.depth += missing as usize;
        } else if missing > 0 {
            function.emit_to(Op::Nil(missing as u16), function.depth + missing as usize);
        } else {
            function.pop(missing.unsigned_abs() as usize);
        }
    }

    pub(super) fn expression(&mut self) -> Parsed<Expression> {
        self.sub_expression(0)
    }

    fn sub_expression(&mut self, limit: u8) -> Parsed<Expression> {
        self.levels += 1;
        self.deeper(0)?;
        let line = self.line;
        let unary = match self.token {
            Token::Word("not") => Some(Op::Not),
            Token::Sign("-") => Some(Op::Negate),
            Token::Sign("#") => Some(Op::Length),
            _ => None,
        };
        let mut left = match unary {
            Some(op) => {
                self.advance()?;
                let operand = self.sub_expression(UNARY_PRIORITY)?;
                self.unary(op, operand, line);
                Expression::default()
            }
            None => self.simple()?,
        };
        while let Some((op, _, right_priority)) = self.binary_operator().filter(|(_, left, _)| *left > limit) {
            let line = self.line;
            self.advance()?;
            left = self.binary(op, left, right_priority, line)?;
        }
        self.levels -= 1;
        Ok(left)
    }

    fn unary(&mut self, op: Op, operand: Expression, line: u32) {
        let function = self.function();
        let read = std::mem::replace(&mut function.line, line);
        // A negative numeral is a constant.
        if let (Op::Negate, true, Some(Op::Constant(at))) = (op, operand.is_numeral, function.code.ops.last().copied())
            && let Value::Number(number) = function.code.constants[at as usize]
        {
            let constant = function.constant(Value::Number(number.wrapping_neg()));
            if let Some(last) = function.code.ops.last_mut() {
                *last = Op::Constant(constant);
            }
        } else {
            let pc = function.emit(op);
            function.note_origin(pc, 0, operand.origin);
        }
        function.line = read;
    }

    fn binary_operator(&self) -> Option<(&'static str, u8, u8)> {
        let (Token::Word(text) | Token::Sign(text)) = self.token else { return None };
        let (left, right) = match text {
            "or" => (1, 1),
            "and" => (2, 2),
            "<" | ">" | "<=" | ">=" | "~=" | "==" => (3, 3),
            ".." => (5, 4),
            "+" | "-" => (6, 6),
            "*" | "/" | "%" => (7, 7),
            "^" => (10, 9),
            _ => return None,
        };
        Some((text, left, right))
    }

    fn binary(&mut self, operator: &str, left: Expression, priority: u8, line: u32) -> Parsed<Expression> {
        if operator == "and" || operator == "or" {
            let op = if operator == "and" { Op::And(0) } else { Op::Or(0) };
            let below = self.function().depth - 1;
            let at = self.function().emit_to(op, below);
            self.sub_expression(priority)?;
            self.function().patch(at);
            return Ok(Expression::default());
        }
        let right = self.sub_expression(priority)?;
        self.check_depth()?;
        let function = self.function();
        let depth = function.depth - 1;
        let read = std::mem::replace(&mut function.line, line);
        if operator == ".." {
            // `a .. (b .. c)`: one instruction more, before those of the rest of the chain.
            let count = match function.code.ops.last() {
                Some(Op::Concat(2)) if right.origin == Origin::Unknown && right.open.is_none() => {
                    let chain = function.code.ops.iter().rev();
                    chain.zip(2u16..).take_while(|(op, count)| **op == Op::Concat(*count)).count()
                }
                _ => 0,
            };
            let first = function.pc() - count;
            function.code.ops.insert(first, Op::Concat(count as u16 + 2));
            function.code.lines.insert(first, line);
            // The first instruction still joins the last two values, whose origins are noted there.
            function.depth = depth;
            if count == 0 {
                function.note_origin(first, 1, right.origin);
            }
            let last = function.pc() - 1;
            function.note_origin(last, 0, left.origin);
        } else {
            let pc = function.emit_to(
                match operator {
                    "+" => Op::Add,
                    "-" => Op::Sub,
                    "*" => Op::Mul,
                    "/" => Op::Div,
                    "%" => Op::Mod,
                    "^" => Op::Pow,
                    "==" => Op::Equal,
                    "~=" => Op::NotEqual,
                    "<" => Op::Less,
                    "<=" => Op::LessEqual,
                    ">" => Op::Greater,
                    _ => Op::GreaterEqual,
                },
                depth,
            );
            function.note_origin(pc, 0, left.origin);
            function.note_origin(pc, 1, right.origin);
        }
        function.line = read;
        Ok(Expression::default())
    }

    fn simple(&mut self) -> Parsed<Expression> {
        let constant = match &self.token {
            Token::Number(number) => Some(Value::Number(*number)),
            Token::Text(text) => Some(Value::String(self.heap.string(text))),
            _ => None,
        };
        if let Some(value) = constant {
            let at = self.function().constant(value);
            self.advance()?;
            self.function().push(Op::Constant(at));
            let is_numeral = matches!(value, Value::Number(_));
            return Ok(Expression { is_numeral, ..Expression::default() });
        }
        let op = match self.token {
            Token::Word("nil") => Op::Nil(1),
            Token::Word("true") => Op::True,
            Token::Word("false") => Op::False,
            Token::Sign("...") => {
                if !self.function().code.is_vararg {
                    return Err(self.error("cannot use '...' outside a vararg function"));
                }
                self.advance()?;
                let pc = self.function().push(Op::Vararg(1));
                return Ok(Expression { open: Some(pc), ..Expression::default() });
            }
            Token::Sign("{") => {
                self.table()?;
                return Ok(Expression::default());
            }
            Token::Word("function") => {
                let line = self.line;
                self.advance()?;
                self.body(false, line)?;
                return Ok(Expression::default());
            }
            _ => {
                let target = self.suffixed()?;
                return self.load(target);
            }
        };
        self.advance()?;
        self.function().push(op);
        Ok(Expression::default())
    }

    fn primary(&mut self) -> Parsed<Target> {
        if let Token::Name(name) = &self.token {
            let name = name.clone();
            self.advance()?;
            return self.variable(&name);
        }
        if self.is("(") {
            let line = self.line;
            self.advance()?;
            self.expression()?;
            self.expect_match(")", "(", line)?;
            // One value, whatever is in it.
            return Ok(Target::Value(Expression::default()));
        }
        Err(self.error("unexpected symbol"))
    }

    pub(super) fn suffixed(&mut self) -> Parsed<Target> {
        let line = self.line;
        let mut target = self.primary()?;
        loop {
            match self.token {
                Token::Sign(".") => target = self.field_of(target)?,
                Token::Sign("[") => {
                    let table = self.load(target)?;
                    let at = self.function().depth - 1;
                    self.advance()?;
                    self.expression()?;
                    self.expect("]")?;
                    target = Target::Index(at, table.origin);
                }
                Token::Sign(":") => {
                    let object = self.load(target)?;
                    self.advance()?;
                    let name = self.name()?;
                    let key = self.text_constant(name.as_bytes());
                    let pc = self.function().push(Op::Method(key));
                    self.function().note_origin(pc, 0, object.origin);
                    self.function().emit(Op::Swap);
                    let slot = self.function().depth - 2;
                    target = self.call(slot, Origin::Method(name), line)?;
                }
                Token::Sign("(" | "{") | Token::Text(_) => {
                    let function = self.load(target)?;
                    let slot = self.function().depth - 1;
                    target = self.call(slot, function.origin, line)?;
                }
                _ => return Ok(target),
            }
        }
    }

    /// `.name` or `:name` after a target.
    pub(super) fn field_of(&mut self, target: Target) -> Parsed<Target> {
        let table = self.load(target)?;
        let at = self.function().depth - 1;
        self.advance()?;
        let name = self.name()?;
        let key = self.text_constant(name.as_bytes());
        Ok(Target::Field(at, key, table.origin, Origin::Field(name)))
    }

    /// The arguments of a call, and the call.
    fn call(&mut self, slot: usize, origin: Origin, line: u32) -> Parsed<Target> {
        match &self.token {
            Token::Text(text) => {
                let text = Value::String(self.heap.string(text));
                let at = self.function().constant(text);
                self.advance()?;
                self.function().push(Op::Constant(at));
            }
            Token::Sign("{") => self.table()?,
            Token::Sign("(") => {
                let opened = self.line;
                self.advance()?;
                if !self.is(")") {
                    let (_, last) = self.expressions()?;
                    self.open(&last);
                }
                self.expect_match(")", "(", opened)?;
            }
            _ => return Err(self.error("function arguments expected")),
        }
        self.check_depth()?;
        let function = self.function();
        let read = std::mem::replace(&mut function.line, line);
        let pc = function.emit_to(Op::Call(slot as Slot, 1), slot + 1);
        function.line = read;
        function.note_origin(pc, 0, origin);
        Ok(Target::Value(Expression { open: Some(pc), ..Expression::default() }))
    }

    /// Lets the last expression supply all its values.
    pub(super) fn open(&mut self, last: &Expression) {
        let Some(pc) = last.open else { return };
        if let Op::Call(_, results) | Op::Vararg(results) = &mut self.function().code.ops[pc] {
            *results = ALL;
        }
    }

    fn table(&mut self) -> Parsed<()> {
        let (line, slot) = (self.line, self.function().depth);
        self.expect("{")?;
        self.function().push(Op::NewTable);
        let (mut stored, mut waiting) = (0u32, 0usize);
        while !self.is("}") {
            let is_named = matches!(self.token, Token::Name(_)) && *self.look_ahead()? == Token::Sign("=");
            if is_named {
                let name = self.name()?;
                let key = self.text_constant(name.as_bytes());
                self.expect("=")?;
                self.expression()?;
                let below = self.function().depth - 1;
                self.function().emit_to(Op::SetField(slot as Slot, key), below);
            } else if self.accept("[")? {
                self.expression()?;
                self.expect("]")?;
                self.expect("=")?;
                self.expression()?;
                let below = self.function().depth - 2;
                self.function().emit_to(Op::SetPair(slot as Slot), below);
            } else {
                let last = self.expression()?;
                waiting += 1;
                let is_end = self.is("}")
                    || matches!(self.token, Token::Sign("," | ";")) && *self.look_ahead()? == Token::Sign("}");
                if is_end && last.open.is_some() {
                    self.open(&last);
                }
                if is_end || waiting == ELEMENTS_AT_ONCE {
                    self.function().emit_to(Op::SetList(slot as Slot, stored + 1), slot + 1);
                    stored += waiting as u32;
                    waiting = 0;
                }
            }
            self.check_depth()?;
            if !self.accept(",")? && !self.accept(";")? {
                break;
            }
        }
        if waiting > 0 {
            self.function().emit_to(Op::SetList(slot as Slot, stored + 1), slot + 1);
        }
        self.expect_match("}", "{", line)
    }

    /// Parameters and body of a function; pushes it.
    pub(super) fn body(&mut self, is_method: bool, line: u32) -> Parsed<()> {
        let mut function = Function::default();
        (function.line, function.code.line) = (self.line, line);
        self.functions.push(function);
        self.function().enter(false);
        self.expect("(")?;
        let mut names: Vec<Arc<str>> = if is_method { vec!["self".into()] } else { Vec::new() };
        while !self.is(")") {
            if self.accept("...")? {
                self.function().code.is_vararg = true;
                break;
            }
            if !matches!(self.token, Token::Name(_)) {
                return Err(self.error("<name> or '...' expected"));
            }
            names.push(self.name()?);
            if !self.accept(",")? {
                break;
            }
            if self.is(")") {
                return Err(self.error("<name> or '...' expected"));
            }
        }
        self.function().code.parameters = names.len() as u16;
        self.function().depth = names.len();
        for (slot, name) in names.into_iter().enumerate() {
            self.declare(name, slot)?;
        }
        self.expect(")")?;
        self.statements()?;
        self.expect_match("end", "function", line)?;
        let code = Arc::new(self.end_function()?);
        let function = self.function();
        function.code.functions.push(code);
        let at = function.code.functions.len() as u32 - 1;
        function.push(Op::Closure(at));
        Ok(())
    }

    pub(super) fn end_function(&mut self) -> Parsed<Prototype> {
        let depth = self.function().depth;
        self.function().emit(Op::Return(depth as Slot));
        self.leave()?;
        let Some(function) = self.functions.pop() else { return Err(self.error("no function")) };
        if let Some((name, line)) = function.unresolved() {
            return Err(Self::jump_error(match name {
                "break" => (line, format!("<break> at line {line} not inside a loop")),
                name => (line, format!("no visible label '{name}' for <goto> at line {line}")),
            }));
        }
        let code = function.finish();
        self.finished_bytes += code.own_bytes();
        Ok(code)
    }
}

/// Binds closer than all binary operators but `^`.
const UNARY_PRIORITY: u8 = 8;
