//! Statements and blocks.

use super::{Expression, Parsed, Parser, Target};
use crate::code::{ALL, Op, Slot};
use crate::lex::Token;
use crate::value::Value;
use std::sync::Arc;

impl Parser<'_> {
    fn block_ends(&self, with_until: bool) -> bool {
        match self.token {
            Token::Word("else" | "elseif" | "end") | Token::End => true,
            Token::Word("until") => with_until,
            _ => false,
        }
    }

    pub(super) fn statements(&mut self) -> Parsed<()> {
        while !self.block_ends(true) {
            if self.is("return") {
                return self.statement();
            }
            self.statement()?;
        }
        Ok(())
    }

    pub(super) fn leave(&mut self) -> Parsed<()> {
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
}
