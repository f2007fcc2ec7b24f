//! Programs into instructions, in one pass.
//!
//! Facts: the grammar of Lua 5.2's manual; lparser.c for messages and limits.

use crate::code::{ALL, Capture, Op, Origin, Prototype, Slot};
use crate::compile::{Function, LABELS_MAX, LOCALS_MAX, UPVALUES_MAX, Variable};
use crate::failure::Failure;
use crate::heap::Heap;
use crate::lex::{CHUNK, Lexer, Token};
use crate::value::Value;
use std::sync::Arc;

/// How deeply statements and expressions may be nested: OpenZFS's LUAI_MAXCCALLS.
const LEVELS_MAX: usize = 20;
/// Elements of a table that wait on the stack. As Lua (LFIELDS_PER_FLUSH).
const ELEMENTS_AT_ONCE: usize = 50;

type Parsed<T> = Result<T, String>;

/// An expression whose value is on the stack.
#[derive(Default)]
struct Expression {
    origin: Origin,
    /// The call or `...` at its end, which can supply another number of values than one.
    open: Option<usize>,
    /// It is one number in the source.
    is_numeral: bool,
}

/// Something that can be assigned to, or an expression.
enum Target {
    Local(usize),
    Upvalue(u16),
    /// A field of the table in the upvalue.
    Global(u16, u32),
    /// The table is at the place, the key above it.
    Index(usize, Origin),
    Field(usize, u32, Origin, Origin),
    Value(Expression),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    heap: &'a mut Heap,
    token: Token,
    /// Its text, for messages.
    text: String,
    line: u32,
    ahead: Option<(Token, String, u32)>,
    functions: Vec<Function>,
    levels: usize,
    /// Memory of the functions that have ended.
    finished_bytes: usize,
    is_out_of_memory: bool,
}

/// Compiles a program. The message of an error names the place.
pub(crate) fn parse(source: &[u8], heap: &mut Heap) -> Result<Prototype, Failure> {
    let (lexer, mut main) = (Lexer::new(source), Function::default());
    main.upvalues.push("_ENV".into());
    main.code.is_vararg = true;
    main.code.captures.push(Capture::Upvalue(0));
    let mut parser = Parser {
        lexer,
        heap,
        token: Token::End,
        text: String::new(),
        line: 1,
        ahead: None,
        functions: vec![main],
        levels: 0,
        finished_bytes: 0,
        is_out_of_memory: false,
    };
    parser.program().map_err(|message| if parser.is_out_of_memory { Failure::Memory } else { Failure::Syntax(message) })
}

impl Parser<'_> {
    fn program(&mut self) -> Parsed<Prototype> {
        self.advance()?;
        self.function().enter(false);
        self.statements()?;
        if self.token != Token::End {
            return Err(self.expected("<eof>"));
        }
        self.end_function()
    }

    /// Ends the compilation if there is no memory for what is compiled.
    fn check_memory(&mut self) -> Parsed<()> {
        let open: usize = self.functions.iter().map(Function::bytes).sum();
        self.is_out_of_memory = self.heap.exceeds(self.finished_bytes + open + self.text.len());
        if self.is_out_of_memory { Err("not enough memory".to_owned()) } else { Ok(()) }
    }

    fn function(&mut self) -> &mut Function {
        let last = self.functions.len() - 1;
        &mut self.functions[last]
    }

    fn advance(&mut self) -> Parsed<()> {
        let line = self.line;
        self.function().line = line;
        (self.token, self.text, self.line) = match self.ahead.take() {
            Some(ahead) => ahead,
            None => self.read()?,
        };
        self.check_memory()
    }

    fn read(&mut self) -> Parsed<(Token, String, u32)> {
        let token = self.lexer.next()?;
        Ok((token, self.lexer.text(), self.lexer.line))
    }

    fn look_ahead(&mut self) -> Parsed<&Token> {
        if self.ahead.is_none() {
            self.ahead = Some(self.read()?);
        }
        Ok(self.ahead.as_ref().map_or(&Token::End, |ahead| &ahead.0))
    }

    fn error(&self, message: &str) -> String {
        match self.token {
            Token::End => format!("{CHUNK}:{}: {message} near <eof>", self.line),
            _ => format!("{CHUNK}:{}: {message} near '{}'", self.line, self.text),
        }
    }

    fn expected(&self, what: &str) -> String {
        let what = if what.starts_with('<') { what.to_owned() } else { format!("'{what}'") };
        self.error(&format!("{what} expected"))
    }

    fn is(&self, text: &str) -> bool {
        matches!(self.token, Token::Word(found) | Token::Sign(found) if found == text)
    }

    fn accept(&mut self, text: &str) -> Parsed<bool> {
        let is_there = self.is(text);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.accept(text)? { Ok(()) } else { Err(self.expected(text)) }
    }

    /// The end of something that began with `opener` in `line`.
    fn expect_match(&mut self, text: &str, opener: &str, line: u32) -> Parsed<()> {
        if self.accept(text)? {
            Ok(())
        } else if line == self.line {
            Err(self.expected(text))
        } else {
            Err(self.error(&format!("'{text}' expected (to close '{opener}' at line {line})")))
        }
    }

    fn name(&mut self) -> Parsed<Arc<str>> {
        let Token::Name(name) = &self.token else { return Err(self.expected("<name>")) };
        let name = name.as_str().into();
        self.advance()?;
        Ok(name)
    }

    fn text_constant(&mut self, text: &[u8]) -> u32 {
        let value = Value::String(self.heap.string(text));
        self.function().constant(value)
    }

    fn limit(&self, what: &str, limit: usize) -> String {
        let function = &self.functions[self.functions.len() - 1];
        let place = match function.code.line {
            0 => "main function".to_owned(),
            line => format!("function at line {line}"),
        };
        self.error(&format!("too many {what} (limit is {limit}) in {place}"))
    }

    fn deeper(&mut self, more: usize) -> Parsed<()> {
        if self.levels + more > LEVELS_MAX {
            return Err(self.limit("C levels", LEVELS_MAX));
        }
        Ok(())
    }

    fn check_labels(&mut self) -> Parsed<()> {
        match self.function().has_too_many_labels() {
            true => Err(format!("too many labels/gotos (limit is {LABELS_MAX})")),
            false => Ok(()),
        }
    }

    fn check_depth(&mut self) -> Parsed<()> {
        if self.function().is_too_deep() {
            return Err(self.error("function or expression too complex"));
        }
        Ok(())
    }

    /// An error about a jump.
    fn jump_error((line, message): (u32, String)) -> String {
        format!("{CHUNK}:{line}: {message}")
    }

    // Variables.

    fn declare(&mut self, name: Arc<str>, slot: usize) -> Parsed<()> {
        if self.function().locals.len() >= LOCALS_MAX {
            return Err(self.limit("local variables", LOCALS_MAX));
        }
        self.function().declare(name, slot);
        Ok(())
    }

    fn resolve(&mut self, level: usize, name: &str) -> Parsed<Option<Variable>> {
        if let Some(local) = self.functions[level].local(name) {
            return Ok(Some(Variable::Local(local)));
        }
        if let Some(at) = self.functions[level].upvalues.iter().position(|upvalue| &**upvalue == name) {
            return Ok(Some(Variable::Upvalue(at as u16)));
        }
        if level == 0 {
            return Ok(None);
        }
        let capture = match self.resolve(level - 1, name)? {
            None => return Ok(None),
            Some(Variable::Local(local)) => self.functions[level - 1].capture(local),
            Some(Variable::Upvalue(at)) => Capture::Upvalue(at),
        };
        if self.functions[level].upvalues.len() >= UPVALUES_MAX {
            return Err(self.limit("upvalues", UPVALUES_MAX));
        }
        let function = &mut self.functions[level];
        function.upvalues.push(name.into());
        function.code.captures.push(capture);
        Ok(Some(Variable::Upvalue(function.upvalues.len() as u16 - 1)))
    }

    fn variable(&mut self, name: &str) -> Parsed<Target> {
        let level = self.functions.len() - 1;
        match self.resolve(level, name)? {
            Some(Variable::Local(local)) => return Ok(Target::Local(local)),
            Some(Variable::Upvalue(at)) => return Ok(Target::Upvalue(at)),
            None => {}
        }
        let key = self.text_constant(name.as_bytes());
        Ok(match self.resolve(level, "_ENV")? {
            Some(Variable::Local(local)) => {
                let slot = self.function().locals[local].slot;
                let at = self.function().depth;
                self.function().push(Op::Local(slot as Slot));
                Target::Field(at, key, Origin::Local("_ENV".into()), Origin::Global(name.into()))
            }
            Some(Variable::Upvalue(at)) => Target::Global(at, key),
            None => return Err(self.error("there is no _ENV")),
        })
    }

    /// The text of a constant, for messages.
    fn constant_text(&self, key: u32) -> Arc<str> {
        match self.functions[self.functions.len() - 1].code.constants[key as usize] {
            Value::String(text) => String::from_utf8_lossy(self.heap.text(text)).as_ref().into(),
            _ => "?".into(),
        }
    }

    /// Pushes the value of a target.
    fn load(&mut self, target: Target) -> Parsed<Expression> {
        let origin = match target {
            Target::Value(expression) => return Ok(expression),
            Target::Local(local) => {
                let (slot, name) = {
                    let local = &self.function().locals[local];
                    (local.slot, local.name.clone())
                };
                self.function().push(Op::Local(slot as Slot));
                Origin::Local(name)
            }
            Target::Upvalue(at) => {
                self.function().push(Op::Upvalue(at));
                Origin::Upvalue(self.function().upvalues[at as usize].clone())
            }
            Target::Global(at, key) => {
                let name = self.constant_text(key);
                let pc = self.function().push(Op::UpvalueField(at, key));
                self.function().note_origin(pc, 0, Origin::Upvalue("_ENV".into()));
                Origin::Global(name)
            }
            Target::Index(at, table) => {
                let pc = self.function().emit_to(Op::Index, at + 1);
                self.function().note_origin(pc, 0, table);
                Origin::Unknown
            }
            Target::Field(at, key, table, origin) => {
                let pc = self.function().emit_to(Op::Field(key), at + 1);
                self.function().note_origin(pc, 0, table);
                origin
            }
        };
        self.check_depth()?;
        Ok(Expression { origin, ..Expression::default() })
    }

    /// Pops a value into a target. Its table and key stay on the stack.
    fn store(&mut self, target: &Target) {
        let function = self.function();
        let depth = function.depth - 1;
        let pc = match target {
            Target::Local(local) => {
                let slot = function.locals[*local].slot;
                function.emit_to(Op::SetLocal(slot as Slot), depth)
            }
            Target::Upvalue(at) => function.emit_to(Op::SetUpvalue(*at), depth),
            Target::Global(at, key) => function.emit_to(Op::SetUpvalueField(*at, *key), depth),
            Target::Index(at, _) => function.emit_to(Op::SetIndex(*at as Slot), depth),
            Target::Field(at, key, ..) => function.emit_to(Op::SetField(*at as Slot, *key), depth),
            Target::Value(_) => function.emit_to(Op::Pop(1), depth),
        };
        if let Target::Index(_, origin) | Target::Field(_, _, origin, _) = target {
            let origin = origin.clone();
            function.note_origin(pc, 0, origin);
        }
    }

    // Statements.

    fn block_ends(&self, with_until: bool) -> bool {
        match self.token {
            Token::Word("else" | "elseif" | "end") | Token::End => true,
            Token::Word("until") => with_until,
            _ => false,
        }
    }

    fn statements(&mut self) -> Parsed<()> {
        while !self.block_ends(true) {
            if self.is("return") {
                return self.statement();
            }
            self.statement()?;
        }
        Ok(())
    }

    fn leave(&mut self) -> Parsed<()> {
        self.function().leave().map_err(Self::jump_error)
    }

    fn block(&mut self, is_loop: bool) -> Parsed<()> {
        self.function().enter(is_loop);
        self.statements()?;
        self.leave()
    }

    fn statement(&mut self) -> Parsed<()> {
        self.levels += 1;
        self.deeper(0)?;
        let line = self.line;
        match self.token {
            Token::Sign(";") => self.advance()?,
            Token::Word("if") => self.if_statement(line)?,
            Token::Word("while") => self.while_statement(line)?,
            Token::Word("do") => {
                self.advance()?;
                self.block(false)?;
                self.expect_match("end", "do", line)?;
            }
            Token::Word("for") => self.for_statement(line)?,
            Token::Word("repeat") => self.repeat_statement(line)?,
            Token::Word("function") => self.function_statement(line)?,
            Token::Word("local") => {
                self.advance()?;
                if self.accept("function")? { self.local_function()? } else { self.local_statement()? }
            }
            Token::Sign("::") => self.label_statement()?,
            Token::Word("return") => self.return_statement()?,
            Token::Word("break") => {
                self.advance()?;
                self.check_labels()?;
                self.function().goto("break", line);
            }
            Token::Word("goto") => {
                self.advance()?;
                let name = self.name()?;
                self.check_labels()?;
                self.function().goto(&name, line);
            }
            _ => self.expression_statement()?,
        }
        self.levels -= 1;
        Ok(())
    }

    fn if_statement(&mut self, line: u32) -> Parsed<()> {
        let mut ends = Vec::new();
        loop {
            // `if` or `elseif`.
            self.advance()?;
            self.condition()?;
            self.expect("then")?;
            let depth = self.function().depth - 1;
            let otherwise = self.function().emit_to(Op::JumpIfNot(0), depth);
            self.block(false)?;
            let has_more = self.is("else") || self.is("elseif");
            if has_more {
                ends.push(self.function().emit(Op::Jump(0)));
            }
            self.function().patch(otherwise);
            if self.is("elseif") {
                continue;
            }
            if self.accept("else")? {
                self.block(false)?;
            }
            break;
        }
        self.expect_match("end", "if", line)?;
        ends.into_iter().for_each(|at| self.function().patch(at));
        Ok(())
    }

    fn condition(&mut self) -> Parsed<()> {
        self.expression().map(drop)
    }

    fn while_statement(&mut self, line: u32) -> Parsed<()> {
        self.advance()?;
        let start = self.function().pc() as u32;
        self.condition()?;
        let depth = self.function().depth - 1;
        let exit = self.function().emit_to(Op::JumpIfNot(0), depth);
        self.expect("do")?;
        self.function().enter(true);
        self.block(false)?;
        self.expect_match("end", "while", line)?;
        self.function().emit(Op::Jump(start));
        self.function().patch(exit);
        self.leave()
    }

    fn repeat_statement(&mut self, line: u32) -> Parsed<()> {
        self.advance()?;
        let start = self.function().pc() as u32;
        let depth = self.function().depth;
        self.function().enter(true);
        self.function().enter(false);
        self.statements()?;
        self.expect_match("until", "repeat", line)?;
        self.condition()?;
        let below = self.function().depth - 1;
        let exit = self.function().emit_to(Op::JumpIf(0), below);
        self.function().emit(Op::JumpOut(depth as Slot, start));
        self.function().patch(exit);
        self.leave()?;
        self.leave()
    }

    fn for_statement(&mut self, line: u32) -> Parsed<()> {
        self.advance()?;
        self.function().enter(true);
        let name = self.name()?;
        match self.token {
            Token::Sign("=") => self.numeric_for(name, line)?,
            Token::Sign(",") | Token::Word("in") => self.generic_for(name, line)?,
            _ => return Err(self.error("'=' or 'in' expected")),
        }
        self.leave()
    }

    fn hidden(&mut self, names: [&str; 3], slot: usize) -> Parsed<()> {
        names.into_iter().enumerate().try_for_each(|(at, name)| self.declare(name.into(), slot + at))
    }

    fn numeric_for(&mut self, name: Arc<str>, line: u32) -> Parsed<()> {
        let slot = self.function().depth;
        self.advance()?;
        self.expression()?;
        self.expect(",")?;
        self.expression()?;
        if self.accept(",")? {
            self.expression()?;
        } else {
            let one = self.function().constant(Value::Number(1));
            self.function().push(Op::Constant(one));
        }
        self.hidden(["(for index)", "(for limit)", "(for step)"], slot)?;
        self.expect("do")?;
        let at = self.function().emit(Op::ForPrepare(slot as Slot, 0));
        let start = self.function().pc() as u32;
        self.function().enter(false);
        self.function().depth += 1;
        self.declare(name, slot + 3)?;
        self.statements()?;
        self.leave()?;
        self.expect_match("end", "for", line)?;
        self.function().line = line;
        self.function().emit(Op::ForLoop(slot as Slot, start));
        self.function().patch(at);
        Ok(())
    }

    fn generic_for(&mut self, name: Arc<str>, line: u32) -> Parsed<()> {
        let mut names = vec![name];
        while self.accept(",")? {
            names.push(self.name()?);
        }
        self.expect("in")?;
        let (slot, at_line) = (self.function().depth, self.line);
        let (count, last) = self.expressions()?;
        self.adjust(3, count, last);
        self.hidden(["(for generator)", "(for state)", "(for control)"], slot)?;
        self.expect("do")?;
        let call = self.function().emit(Op::Jump(0));
        let start = self.function().pc() as u32;
        let count = names.len();
        self.function().enter(false);
        self.function().depth += count;
        for (at, name) in names.into_iter().enumerate() {
            self.declare(name, slot + 3 + at)?;
        }
        self.check_depth()?;
        self.statements()?;
        self.leave()?;
        self.expect_match("end", "for", line)?;
        self.function().patch(call);
        self.function().line = at_line;
        self.function().emit(Op::ForCall(slot as Slot, count as u16));
        self.function().emit(Op::ForNext(slot as Slot, start));
        Ok(())
    }

    fn function_statement(&mut self, line: u32) -> Parsed<()> {
        self.advance()?;
        let depth = self.function().depth;
        let name = self.name()?;
        let mut target = self.variable(&name)?;
        let mut is_method = false;
        while self.is(".") || self.is(":") {
            is_method = self.is(":");
            target = self.field_of(target)?;
            if is_method {
                break;
            }
        }
        self.body(is_method, line)?;
        self.function().line = line;
        self.store(&target);
        let more = self.function().depth - depth;
        self.function().pop(more);
        Ok(())
    }

    fn local_function(&mut self) -> Parsed<()> {
        let (slot, name, line) = (self.function().depth, self.name()?, self.line);
        // The variable is visible in the function.
        self.function().push(Op::Nil(1));
        self.declare(name, slot)?;
        self.body(false, line)?;
        let below = self.function().depth - 1;
        self.function().emit_to(Op::SetLocal(slot as Slot), below);
        Ok(())
    }

    fn local_statement(&mut self) -> Parsed<()> {
        let slot = self.function().depth;
        let mut names = vec![self.name()?];
        while self.accept(",")? {
            names.push(self.name()?);
        }
        let (count, last) = if self.accept("=")? { self.expressions()? } else { (0, Expression::default()) };
        self.adjust(names.len(), count, last);
        self.check_depth()?;
        names.into_iter().enumerate().try_for_each(|(at, name)| self.declare(name, slot + at))
    }

    fn label_statement(&mut self) -> Parsed<()> {
        self.advance()?;
        let name = self.name()?;
        self.expect("::")?;
        if let Some(line) = self.function().label_line(&name) {
            return Err(self.error(&format!("label '{name}' already defined on line {line}")));
        }
        while self.is(";") || self.is("::") {
            self.statement()?;
        }
        let is_last = self.block_ends(false);
        self.check_labels()?;
        self.function().label(name.to_string(), is_last).map_err(Self::jump_error)
    }

    fn return_statement(&mut self) -> Parsed<()> {
        self.advance()?;
        let slot = self.function().depth;
        if !self.block_ends(true) && !self.is(";") {
            let (count, last) = self.expressions()?;
            if let Some(pc) = last.open {
                let is_tail = count == 1;
                match &mut self.function().code.ops[pc] {
                    op @ Op::Call(..) if is_tail => *op = Op::TailCall(slot as Slot),
                    Op::Call(_, results) | Op::Vararg(results) => *results = ALL,
                    _ => {}
                }
            }
        }
        self.accept(";")?;
        // What follows cannot be reached.
        self.function().emit_to(Op::Return(slot as Slot), slot);
        Ok(())
    }

    fn expression_statement(&mut self) -> Parsed<()> {
        let depth = self.function().depth;
        let target = self.suffixed()?;
        if self.is("=") || self.is(",") {
            let mut targets = vec![target];
            while self.accept(",")? {
                targets.push(self.suffixed()?);
                self.deeper(targets.len())?;
            }
            self.assignment(&targets)?;
        } else {
            match target {
                Target::Value(Expression { open: Some(pc), .. }) => match &mut self.function().code.ops[pc] {
                    Op::Call(_, results) => {
                        *results = 0;
                        self.function().depth -= 1;
                    }
                    _ => return Err(self.error("syntax error")),
                },
                _ => return Err(self.error("syntax error")),
            }
        }
        let more = self.function().depth - depth;
        self.function().pop(more);
        Ok(())
    }

    fn assignment(&mut self, targets: &[Target]) -> Parsed<()> {
        if targets.iter().any(|target| matches!(target, Target::Value(_))) {
            return Err(self.error("syntax error"));
        }
        self.expect("=")?;
        let (count, last) = self.expressions()?;
        self.adjust(targets.len(), count, last);
        self.check_depth()?;
        targets.iter().rev().for_each(|target| self.store(target));
        Ok(())
    }

    // Expressions.

    /// Expressions with commas between: their number, and the last one.
    fn expressions(&mut self) -> Parsed<(usize, Expression)> {
        let (mut count, mut last) = (1, self.expression()?);
        while self.accept(",")? {
            last = self.expression()?;
            count += 1;
        }
        Ok((count, last))
    }

    /// Makes `count` expressions supply `targets` values.
    fn adjust(&mut self, targets: usize, count: usize, last: Expression) {
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

    fn expression(&mut self) -> Parsed<Expression> {
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

    fn suffixed(&mut self) -> Parsed<Target> {
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
    fn field_of(&mut self, target: Target) -> Parsed<Target> {
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
    fn open(&mut self, last: &Expression) {
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
    fn body(&mut self, is_method: bool, line: u32) -> Parsed<()> {
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

    fn end_function(&mut self) -> Parsed<Prototype> {
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
