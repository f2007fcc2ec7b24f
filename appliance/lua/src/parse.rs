//! Programs into instructions, in one pass.
//!
//! Here: tokens, limits and variables; then [`statements`] and [`expressions`].
//!
//! Facts: the grammar of Lua 5.2's manual; lparser.c for messages and limits.

mod expressions;
mod statements;

use crate::code::{Capture, Op, Origin, Prototype, Slot};
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
}
