//! Messages of errors, with the names of variables and the places in the source.

use super::{BYTES_A_WORK, Machine, Run, Trouble};
use crate::code::Op;
use crate::lex::CHUNK;
use crate::thread::Frame;
use crate::value::Value;

impl Machine<'_> {
    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) -> Value {
        self.note_work(text.as_ref().len() as u64 / BYTES_A_WORK);
        Value::String(self.heap.string(text.as_ref()))
    }

    /// The place of a call in the source, if it is one of Lua. 0: the innermost call.
    pub(crate) fn place(&self, level: usize) -> String {
        let frame = self.frames.len().checked_sub(level + 1).map(|at| &self.frames[at]);
        match frame.and_then(|frame| self.line(frame)) {
            Some(line) => format!("{CHUNK}:{line}: "),
            None => String::new(),
        }
    }

    fn line(&self, frame: &Frame) -> Option<u32> {
        let Value::Closure(id) = frame.function else { return None };
        self.heap.closure(id).code.lines.get(frame.pc.saturating_sub(1)).copied()
    }

    /// An error in the function that runs.
    pub(super) fn runtime_error<T>(&mut self, message: &str) -> Run<T> {
        let text = format!("{}{message}", self.place(0));
        Err(Trouble::Error(self.text(text)))
    }

    /// An error of a library function: its place is the caller's.
    pub(crate) fn error<T>(&mut self, message: impl AsRef<[u8]>) -> Run<T> {
        let text = [self.place(1).as_bytes(), message.as_ref()].concat();
        Err(Trouble::Error(self.text(text)))
    }

    /// A wrong argument of a library function, counted from 1.
    pub(crate) fn bad_argument<T>(&mut self, mut number: usize, message: &str) -> Run<T> {
        let name = self.frames.len().checked_sub(1).and_then(|at| self.call_name(at));
        if let Some(("method", name)) = &name {
            number -= 1;
            if number == 0 {
                return self.error(format!("calling '{name}' on bad self"));
            }
        }
        let name = name.map_or_else(|| "?".to_owned(), |(_, name)| name);
        self.error(format!("bad argument #{number} to '{name}' ({message})"))
    }

    pub(super) fn operand_error<T>(&mut self, what: &str, value: Value, operand: u8) -> Run<T> {
        let name = self.frames.last().and_then(|frame| match frame.function {
            Value::Closure(id) => {
                let code = self.heap.closure(id).code.clone();
                let name = code.origin(frame.pc - 1, operand).name();
                name.map(|(kind, name)| format!("{kind} '{name}' (a {} value)", value.type_name()))
            }
            _ => None,
        });
        let name = name.unwrap_or_else(|| format!("a {} value", value.type_name()));
        self.runtime_error(&format!("attempt to {what} {name}"))
    }

    /// What the caller calls the function of a call.
    fn call_name(&self, at: usize) -> Option<(&'static str, String)> {
        if self.frames[at].is_tail {
            return None;
        }
        let caller = &self.frames[at.checked_sub(1)?];
        let Value::Closure(id) = caller.function else { return None };
        let code = &self.heap.closure(id).code;
        let pc = caller.pc - 1;
        let metamethod = |name: &str| Some(("metamethod", name.to_owned()));
        match code.ops[pc] {
            Op::Call(..) | Op::TailCall(_) => code.origin(pc, 0).name().map(|(kind, name)| (kind, name.to_owned())),
            Op::ForCall(..) => Some(("for iterator", "for iterator".to_owned())),
            Op::Index | Op::Field(_) | Op::Method(_) | Op::UpvalueField(..) => metamethod("__index"),
            Op::SetIndex(_) | Op::SetPair(_) | Op::SetField(..) | Op::SetUpvalueField(..) => metamethod("__newindex"),
            Op::Add => metamethod("__add"),
            Op::Sub => metamethod("__sub"),
            Op::Mul => metamethod("__mul"),
            Op::Div => metamethod("__div"),
            Op::Mod => metamethod("__mod"),
            Op::Pow => metamethod("__pow"),
            Op::Negate => metamethod("__unm"),
            Op::Length => metamethod("__len"),
            Op::Concat(_) => metamethod("__concat"),
            Op::Equal | Op::NotEqual => metamethod("__eq"),
            Op::Less | Op::Greater => metamethod("__lt"),
            Op::LessEqual | Op::GreaterEqual => metamethod("__le"),
            _ => None,
        }
    }

    /// The calls that led here. Facts: luaL_traceback.
    pub(crate) fn traceback(&self) -> String {
        const FIRST: usize = 12;
        const LAST: usize = 10;
        let (mut text, count) = ("stack traceback:".to_owned(), self.frames.len());
        let mut level = 1;
        while level <= count {
            let at = count - level;
            level += 1;
            if count > FIRST + LAST && level == FIRST {
                text += "\n\t...";
                level = count - LAST;
                continue;
            }
            let frame = &self.frames[at];
            let code = match frame.function {
                Value::Closure(id) => Some(&self.heap.closure(id).code),
                _ => None,
            };
            text += "\n\t";
            match self.line(frame) {
                Some(line) => text += &format!("{CHUNK}:{line}: in "),
                None => text += "[C]: in ",
            }
            text += &match (self.call_name(at), code) {
                (Some((_, name)), _) => format!("function '{name}'"),
                (None, Some(code)) if code.line == 0 => "main chunk".to_owned(),
                (None, Some(code)) => format!("function <{CHUNK}:{}>", code.line),
                (None, None) => "?".to_owned(),
            };
            if frame.is_tail {
                text += "\n\t(...tail calls...)";
            }
        }
        text
    }
}
