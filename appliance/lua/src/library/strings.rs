//! The string library.

use super::pattern::{Capture, Matcher, Stop};
use crate::machine::{Arguments, BYTES_A_WORK, Machine, Run, Trouble, WORK_A_STEP};
use crate::value::{BoundId, Native, Value};
use std::sync::Arc;

/// What calling a function of the program from `gsub` adds to the depth of calls: its buffers are
/// on the stack in OpenZFS, so it can be nested six times.
const GSUB_WEIGHT: usize = 3;

/// Work of a search between two looks at the limits. Guessed.
const WORK_AT_ONCE: u64 = 1 << 14;

/// A position in a text of `length` bytes that counts from the end if it is negative.
fn position(at: i64, length: usize) -> i64 {
    match at {
        at if at >= 0 => at,
        at if at.unsigned_abs() > length as u64 => 0,
        at => length as i64 + at + 1,
    }
}

/// A value that replaces a match.
enum Replacement {
    Text(Arc<[u8]>),
    Table(Value),
    Function(Value),
}

impl Machine<'_> {
    pub(super) fn str_len(&mut self, args: Arguments) -> Run<usize> {
        let length = self.text_argument(args, 0)?.len();
        Ok(self.push(Value::Number(length as i64)))
    }

    /// The bytes from `first` to `last` that arguments select.
    fn range(&mut self, args: Arguments, length: usize, default: (i64, i64), at: usize) -> Run<std::ops::Range<usize>> {
        let first = self.number_or(args, at, default.0)?;
        let first = position(first, length);
        let last = self.number_or(args, at + 1, if default.1 == 0 { first } else { default.1 })?;
        let (first, last) = (first.max(1), position(last, length).min(length as i64));
        Ok(if first > last { 0..0 } else { first as usize - 1..last as usize })
    }

    pub(super) fn str_sub(&mut self, args: Arguments) -> Run<usize> {
        let text = self.text_argument(args, 0)?;
        self.number_argument(args, 1)?;
        let range = self.range(args, text.len(), (1, -1), 1)?;
        Ok(self.push_text(&text[range]))
    }

    pub(super) fn str_byte(&mut self, args: Arguments) -> Run<usize> {
        let text = self.text_argument(args, 0)?;
        let range = self.range(args, text.len(), (1, 0), 1)?;
        self.reserve(range.len() * size_of::<Value>())?;
        self.count_work(range.len() as u64)?;
        self.stack.extend(text[range.clone()].iter().map(|byte| Value::Number((*byte).into())));
        Ok(range.len())
    }

    pub(super) fn str_char(&mut self, args: Arguments) -> Run<usize> {
        let mut text = Vec::with_capacity(args.count);
        for at in 0..args.count {
            let Ok(byte) = u8::try_from(self.number_argument(args, at)?) else {
                return self.bad_argument(at + 1, "value out of range");
            };
            text.push(byte);
        }
        Ok(self.push_text(text))
    }

    pub(super) fn str_map(&mut self, args: Arguments, change: fn(&u8) -> u8) -> Run<usize> {
        let text = self.text_argument(args, 0)?;
        self.reserve(text.len())?;
        let text: Vec<u8> = text.iter().map(change).collect();
        Ok(self.push_text(text))
    }

    pub(super) fn str_reverse(&mut self, args: Arguments) -> Run<usize> {
        let text = self.text_argument(args, 0)?;
        self.reserve(text.len())?;
        let text: Vec<u8> = text.iter().rev().copied().collect();
        Ok(self.push_text(text))
    }

    pub(super) fn str_rep(&mut self, args: Arguments) -> Run<usize> {
        let (text, count) = (self.text_argument(args, 0)?, self.number_argument(args, 1)?);
        let separator = match self.argument(args, 2) {
            Value::Nil => Arc::default(),
            _ => self.text_argument(args, 2)?,
        };
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            return Ok(self.push_text(""));
        };
        let Some(bytes) = (text.len() + separator.len()).checked_mul(count).filter(|n| *n < isize::MAX as usize) else {
            return self.error("resulting string too large");
        };
        // The text and the string that it becomes.
        self.reserve(bytes.saturating_mul(2))?;
        let mut result = Vec::with_capacity(bytes);
        for at in 0..if bytes == 0 { 0 } else { count } {
            if at > 0 {
                result.extend_from_slice(&separator);
            }
            result.extend_from_slice(&text);
        }
        self.count_work(bytes as u64)?;
        Ok(self.push_text(result))
    }

    // Patterns.

    fn matched<T>(&mut self, result: Result<T, Stop>) -> Run<T> {
        match result {
            Ok(found) => Ok(found),
            Err(Stop::Malformed(message)) => self.error(message),
            Err(Stop::Work) => Err(Trouble::TimedOut),
            Err(Stop::Cancelled) => Err(Trouble::Cancelled),
        }
    }

    /// Pushes what a part of a pattern matched; without parts, the whole match.
    fn push_captures(&mut self, source: &[u8], captures: &[Capture], whole: Option<(usize, usize)>) -> Run<usize> {
        let whole = whole.filter(|_| captures.is_empty()).map(|(start, end)| Capture::Part(start, end));
        for capture in captures.iter().copied().chain(whole) {
            match capture {
                Capture::Part(start, end) => {
                    self.reserve(end - start)?;
                    self.push_text(&source[start..end]);
                }
                Capture::Position(at) => drop(self.push(Value::Number(at as i64 + 1))),
                Capture::Open(_) => return self.error("unfinished capture"),
            }
        }
        Ok(captures.len() + usize::from(whole.is_some()))
    }

    /// Where a text is in another one, from `start` on.
    fn find_plain(&mut self, source: &[u8], text: &[u8], start: usize) -> Run<Option<usize>> {
        let Some(first) = text.first() else { return Ok(Some(start)) };
        let (mut found, mut work) = (None, 0);
        for at in start..(source.len() + 1).saturating_sub(text.len()) {
            let is_close = source[at] == *first;
            work += if is_close { 1 + text.len() as u64 / WORK_A_STEP } else { 1 };
            if work >= WORK_AT_ONCE {
                self.count_work(std::mem::take(&mut work))?;
            }
            if is_close && source[at..].starts_with(text) {
                found = Some(at);
                break;
            }
        }
        self.count_work(work)?;
        Ok(found)
    }

    pub(super) fn str_find(&mut self, args: Arguments, is_find: bool) -> Run<usize> {
        let (source, pattern) = (self.text_argument(args, 0)?, self.text_argument(args, 1)?);
        let start = self.number_or(args, 2, 1)?;
        let start = position(start, source.len()).max(1) as usize - 1;
        if start > source.len() {
            return Ok(self.push(Value::Nil));
        }
        let is_plain = self.argument(args, 3).is_true() || !pattern.iter().any(|b| b"^$*+?.([%-".contains(b));
        if is_find && is_plain {
            let found = self.find_plain(&source, &pattern, start)?;
            let Some(at) = found else { return Ok(self.push(Value::Nil)) };
            self.push(Value::Number(at as i64 + 1));
            return Ok(1 + self.push(Value::Number((at + pattern.len()) as i64)));
        }
        let is_anchored = pattern.first() == Some(&b'^');
        let work = self.work_left();
        let mut matcher = Matcher::new(&source, &pattern, work, &mut *self.host);
        let mut at = start;
        let found = loop {
            match matcher.run(at, usize::from(is_anchored)) {
                Ok(None) if !is_anchored && at < source.len() => at += 1,
                result => break result,
            }
        };
        let (captures, left) = (std::mem::take(&mut matcher.captures), matcher.work);
        self.count_work(work - left)?;
        match self.matched(found)? {
            None => Ok(self.push(Value::Nil)),
            Some(end) if is_find => {
                self.push(Value::Number(at as i64 + 1));
                self.push(Value::Number(end as i64));
                Ok(2 + self.push_captures(&source, &captures, None)?)
            }
            Some(end) => self.push_captures(&source, &captures, Some((at, end))),
        }
    }

    pub(super) fn str_gmatch(&mut self, args: Arguments) -> Run<usize> {
        let (source, pattern) = (self.text_argument(args, 0)?, self.text_argument(args, 1)?);
        let values = vec![self.text(source), self.text(pattern), Value::Number(0)];
        let function = self.heap.new_bound(Native::StrGmatchNext, values);
        Ok(self.push(function))
    }

    pub(super) fn str_gmatch_next(&mut self, bound: Option<BoundId>) -> Run<usize> {
        let Some(bound) = bound else { return Ok(0) };
        let [Value::String(source), Value::String(pattern), Value::Number(start)] = self.heap.bound(bound).values[..]
        else {
            return Ok(0);
        };
        let (source, pattern) = (self.heap.text(source).clone(), self.heap.text(pattern).clone());
        let work = self.work_left();
        let mut matcher = Matcher::new(&source, &pattern, work, &mut *self.host);
        let mut at = start as usize;
        while at <= source.len() {
            let found = matcher.run(at, 0);
            if let Ok(None) = found {
                at += 1;
                continue;
            }
            let (captures, left) = (std::mem::take(&mut matcher.captures), matcher.work);
            self.count_work(work - left)?;
            let end = self.matched(found)?.unwrap_or(at);
            // After an empty match, the next one begins one byte later.
            let next = if end == at { end + 1 } else { end };
            self.heap.bound_mut(bound).values[2] = Value::Number(next as i64);
            return self.push_captures(&source, &captures, Some((at, end)));
        }
        let left = matcher.work;
        self.count_work(work - left)?;
        self.heap.bound_mut(bound).values[2] = Value::Number(source.len() as i64 + 1);
        Ok(0)
    }

    fn replacement(&mut self, args: Arguments) -> Run<Replacement> {
        let value = self.argument(args, 2);
        match value {
            Value::Number(_) | Value::String(_) => Ok(Replacement::Text(self.as_text(value).unwrap_or_default())),
            Value::Table(_) => Ok(Replacement::Table(value)),
            Value::Closure(_) | Value::Native(_) | Value::Bound(_) => Ok(Replacement::Function(value)),
            _ => self.bad_argument(3, "string/function/table expected"),
        }
    }

    pub(super) fn str_gsub(&mut self, args: Arguments) -> Run<usize> {
        let (source, pattern) = (self.text_argument(args, 0)?, self.text_argument(args, 1)?);
        let replacement = self.replacement(args)?;
        let most = self.number_or(args, 3, source.len() as i64 + 1)?;
        let is_anchored = pattern.first() == Some(&b'^');
        let (mut at, mut count, mut result) = (0, 0, Vec::new());
        while count < most {
            let work = self.work_left();
            let mut matcher = Matcher::new(&source, &pattern, work, &mut *self.host);
            let found = matcher.run(at, usize::from(is_anchored));
            let (captures, left) = (std::mem::take(&mut matcher.captures), matcher.work);
            self.count_work(work - left)?;
            let found = self.matched(found)?;
            if let Some(end) = found {
                count += 1;
                self.replace(&source, (at, end), &captures, &replacement, &mut result)?;
            }
            match found {
                Some(end) if end > at => at = end,
                _ if at < source.len() => {
                    result.push(source[at]);
                    at += 1;
                }
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        self.add(&mut result, source.get(at..).unwrap_or_default())?;
        self.push_text(result);
        Ok(1 + self.push(Value::Number(count)))
    }

    fn replace(
        &mut self,
        source: &[u8],
        (start, end): (usize, usize),
        captures: &[Capture],
        replacement: &Replacement,
        result: &mut Vec<u8>,
    ) -> Run<()> {
        let top = self.stack.len();
        let value = match replacement {
            Replacement::Text(text) => return self.expand(text, source, (start, end), captures, result),
            Replacement::Table(table) => {
                self.push_captures(source, captures, Some((start, end)))?;
                let key = self.stack[top];
                self.get(*table, key, GSUB_WEIGHT)?
            }
            Replacement::Function(function) => {
                self.push_captures(source, captures, Some((start, end)))?;
                let arguments = self.stack[top..].to_vec();
                self.call_back(*function, &arguments, GSUB_WEIGHT)?
            }
        };
        self.stack.truncate(top);
        match self.as_text(value) {
            Some(text) => self.add(result, &text),
            None if !value.is_true() => self.add(result, &source[start..end]),
            None => self.error(format!("invalid replacement value (a {})", value.type_name())),
        }
    }

    /// Adds a part to a result, if there is memory.
    fn add(&mut self, result: &mut Vec<u8>, part: &[u8]) -> Run<()> {
        self.reserve(result.len() + part.len())?;
        self.count_work(1 + part.len() as u64 / BYTES_A_WORK)?;
        result.extend_from_slice(part);
        Ok(())
    }

    /// Adds a replacement, in which `%1` is a part of the match.
    fn expand(
        &mut self,
        text: &[u8],
        source: &[u8],
        (start, end): (usize, usize),
        captures: &[Capture],
        result: &mut Vec<u8>,
    ) -> Run<()> {
        self.reserve(result.len() + text.len())?;
        self.count_work(text.len() as u64 / 2)?;
        let mut bytes = text.iter();
        while let Some(byte) = bytes.next() {
            if *byte != b'%' {
                result.push(*byte);
                continue;
            }
            match bytes.next() {
                Some(b'0') => self.add(result, &source[start..end])?,
                Some(digit @ b'1'..=b'9') => {
                    let at = usize::from(digit - b'1');
                    match captures.get(at) {
                        Some(Capture::Part(start, end)) => self.add(result, &source[*start..*end])?,
                        Some(Capture::Position(at)) => self.add(result, (at + 1).to_string().as_bytes())?,
                        None if at == 0 => self.add(result, &source[start..end])?,
                        Some(Capture::Open(_)) => return self.error("unfinished capture"),
                        None => return self.error("invalid capture index"),
                    }
                }
                Some(b'%') => result.push(b'%'),
                _ => return self.error("invalid use of '%' in replacement string"),
            }
        }
        Ok(())
    }

    // Formats.

    pub(super) fn str_format(&mut self, args: Arguments) -> Run<usize> {
        let format = self.text_argument(args, 0)?;
        let (mut result, mut at, mut next) = (Vec::new(), 0, 0);
        while let Some(byte) = format.get(at).copied() {
            at += 1;
            if byte != b'%' {
                result.push(byte);
                continue;
            }
            if format.get(at) == Some(&b'%') {
                at += 1;
                result.push(b'%');
                continue;
            }
            next += 1;
            if next >= args.count {
                return self.bad_argument(next + 1, "no value");
            }
            let item = self.format_item(&format, &mut at)?;
            self.format_value(args, next, &item, &mut result)?;
            self.reserve(result.len())?;
        }
        Ok(self.push_text(result))
    }

    fn format_item(&mut self, format: &[u8], at: &mut usize) -> Run<Item> {
        let mut item = Item::default();
        let flags = format[*at..].iter().take_while(|byte| b"-+ #0".contains(byte)).count();
        if flags > 5 {
            return self.error("invalid format (repeated flags)");
        }
        item.flags = format[*at..*at + flags].to_vec();
        *at += flags;
        // At most two digits each.
        let digits = |at: &mut usize| {
            let count = format[*at..].iter().take(2).take_while(|byte| byte.is_ascii_digit()).count();
            let number = format[*at..*at + count].iter().fold(0, |n, digit| n * 10 + usize::from(digit - b'0'));
            *at += count;
            number
        };
        item.width = digits(at);
        if format.get(*at) == Some(&b'.') {
            *at += 1;
            item.precision = Some(digits(at));
        }
        if format.get(*at).is_some_and(u8::is_ascii_digit) {
            return self.error("invalid format (width or precision too long)");
        }
        item.conversion = format.get(*at).copied().unwrap_or(0);
        *at += 1;
        Ok(item)
    }

    fn format_value(&mut self, args: Arguments, at: usize, item: &Item, result: &mut Vec<u8>) -> Run<()> {
        match item.conversion {
            b'c' => {
                let byte = self.number_argument(args, at)? as u8;
                item.pad(&[byte], false, result);
            }
            b'd' | b'i' => {
                let number = self.number_argument(args, at)?;
                let sign = match number {
                    number if number < 0 => "-",
                    _ if item.has(b'+') => "+",
                    _ if item.has(b' ') => " ",
                    _ => "",
                };
                item.number(sign, number.unsigned_abs().to_string(), result);
            }
            b'o' | b'u' | b'x' | b'X' => {
                let number = self.number_argument(args, at)? as u64;
                let is_marked = item.has(b'#') && number != 0;
                let (prefix, digits) = match item.conversion {
                    b'o' => (if is_marked { "0" } else { "" }, format!("{number:o}")),
                    b'u' => ("", number.to_string()),
                    b'x' => (if is_marked { "0x" } else { "" }, format!("{number:x}")),
                    _ => (if is_marked { "0X" } else { "" }, format!("{number:X}")),
                };
                item.number(prefix, digits, result);
            }
            b'q' => {
                let text = self.text_argument(args, at)?;
                self.reserve(result.len() + text.len())?;
                self.count_work(text.len() as u64)?;
                quote(&text, result);
            }
            b's' => {
                let value = self.any(args, at)?;
                let text = self.show(value)?;
                let text = &text[..item.precision.unwrap_or(text.len()).min(text.len())];
                self.reserve(result.len() + text.len())?;
                self.count_work(text.len() as u64 / BYTES_A_WORK)?;
                item.pad(text, false, result);
            }
            other => {
                let other = char::from(other);
                return self.error(format!("invalid option '%{other}' to 'format'"));
            }
        }
        Ok(())
    }
}

/// One conversion of a format.
#[derive(Default)]
struct Item {
    flags: Vec<u8>,
    width: usize,
    precision: Option<usize>,
    conversion: u8,
}

impl Item {
    fn has(&self, flag: u8) -> bool {
        self.flags.contains(&flag)
    }

    fn pad(&self, text: &[u8], with_zeros: bool, result: &mut Vec<u8>) {
        let missing = self.width.saturating_sub(text.len());
        if self.has(b'-') {
            result.extend_from_slice(text);
            result.extend(std::iter::repeat_n(b' ', missing));
        } else {
            result.extend(std::iter::repeat_n(if with_zeros { b'0' } else { b' ' }, missing));
            result.extend_from_slice(text);
        }
    }

    /// A number with its sign or prefix, before which zeros do not go.
    fn number(&self, sign: &str, mut digits: String, result: &mut Vec<u8>) {
        if self.precision == Some(0) && digits == "0" {
            digits.clear();
        }
        let zeros = match self.precision {
            Some(precision) => precision.saturating_sub(digits.len()),
            None if self.has(b'0') && !self.has(b'-') => self.width.saturating_sub(digits.len() + sign.len()),
            None => 0,
        };
        self.pad(format!("{sign}{}{digits}", "0".repeat(zeros)).as_bytes(), false, result);
    }
}

/// A text that Lua reads as the same text.
fn quote(text: &[u8], result: &mut Vec<u8>) {
    result.push(b'"');
    let mut rest = text.iter().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' | b'\\' | b'\n' => result.extend([b'\\', *byte]),
            0 | 1..=31 | 127 => {
                let is_digit = rest.peek().is_some_and(|next| next.is_ascii_digit());
                let code = if is_digit { format!("\\{byte:03}") } else { format!("\\{byte}") };
                result.extend_from_slice(code.as_bytes());
            }
            byte => result.push(*byte),
        }
    }
    result.push(b'"');
}
