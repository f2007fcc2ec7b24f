//! Patterns: matching a string. Facts: lstrlib.c of Lua 5.2.

use crate::host::Host;

/// Parts of a pattern in parentheses: LUA_MAXCAPTURES of OpenZFS.
const CAPTURES_MAX: usize = 16;
/// Nesting of matches: MAXCCALLS.
const DEPTH_MAX: usize = 200;

/// Work between two questions to the host. Guessed.
const WORK_A_LOOK: u64 = 1 << 16;
/// Bytes of a set that are compared for the price of one byte of the subject. Guessed.
const SET_BYTES_A_WORK: usize = 4;

/// Why a match ends early.
pub(super) enum Stop {
    /// The pattern is wrong.
    Malformed(String),
    /// The limit of work is reached.
    Work,
    /// The host ends the program.
    Cancelled,
}

type Step<T> = Result<T, Stop>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// It has begun and not ended.
    Open(usize),
    Part(usize, usize),
    Position(usize),
}

pub(super) struct Matcher<'a> {
    pub(super) source: &'a [u8],
    pattern: &'a [u8],
    pub(super) captures: Vec<Capture>,
    depth: usize,
    /// Work that is left.
    pub(super) work: u64,
    /// Work until the host is asked again whether to go on.
    until_look: u64,
    host: &'a mut dyn Host,
}

fn malformed<T>(message: &str) -> Step<T> {
    Err(Stop::Malformed(message.to_owned()))
}

fn is_in_class(byte: u8, class: u8) -> bool {
    let is_member = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => return class == byte,
    };
    is_member != class.is_ascii_uppercase()
}

impl<'a> Matcher<'a> {
    pub(super) fn new(source: &'a [u8], pattern: &'a [u8], work: u64, host: &'a mut dyn Host) -> Self {
        Self { source, pattern, captures: Vec::new(), depth: 0, work, until_look: WORK_A_LOOK, host }
    }

    /// Matches the pattern from its byte `p` on at `s`. Returns the end of the match.
    pub(super) fn run(&mut self, s: usize, p: usize) -> Step<Option<usize>> {
        self.captures.clear();
        self.matches(s, p)
    }

    fn take_work(&mut self, amount: usize) -> Step<()> {
        self.work = self.work.checked_sub(amount as u64).ok_or(Stop::Work)?;
        match self.until_look.checked_sub(amount as u64) {
            Some(left) => self.until_look = left,
            None if self.host.is_cancelled() => return Err(Stop::Cancelled),
            None => self.until_look = WORK_A_LOOK,
        }
        Ok(())
    }

    fn matches(&mut self, s: usize, p: usize) -> Step<Option<usize>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return malformed("pattern too complex");
        }
        let result = self.matches_here(s, p);
        self.depth -= 1;
        result
    }

    fn matches_here(&mut self, mut s: usize, mut p: usize) -> Step<Option<usize>> {
        loop {
            self.take_work(1)?;
            let Some(byte) = self.pattern.get(p).copied() else { return Ok(Some(s)) };
            match (byte, self.pattern.get(p + 1).copied()) {
                (b'(', Some(b')')) => return self.start_capture(s, p + 2, Capture::Position(s)),
                (b'(', _) => return self.start_capture(s, p + 1, Capture::Open(s)),
                (b')', _) => return self.end_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.source.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balance(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return malformed("missing '[' after '%f' in pattern");
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.source[s - 1] };
                    let here = self.source.get(s).copied().unwrap_or(0);
                    if self.is_in_set(before, p, end - 1) || !self.is_in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit @ b'0'..=b'9')) => match self.back_reference(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.is_single(s, p, end)?
                                && let Some(found) = self.matches(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'+') => {
                            return if self.is_single(s, p, end)? { self.expand(s + 1, p, end) } else { Ok(None) };
                        }
                        Some(b'*') => return self.expand(s, p, end),
                        Some(b'-') => return self.expand_least(s, p, end),
                        _ if !self.is_single(s, p, end)? => return Ok(None),
                        _ => (s, p) = (s + 1, end),
                    }
                }
            }
        }
    }

    /// The end of the class that begins at `p`.
    fn class_end(&mut self, p: usize) -> Step<usize> {
        let end = self.find_class_end(p)?;
        self.take_work((end - p) / SET_BYTES_A_WORK)?;
        Ok(end)
    }

    fn find_class_end(&self, p: usize) -> Step<usize> {
        let mut at = p + 1;
        match self.pattern[p] {
            b'%' if at == self.pattern.len() => malformed("malformed pattern (ends with '%')"),
            b'%' => Ok(at + 1),
            b'[' => {
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                loop {
                    let Some(byte) = self.pattern.get(at) else {
                        return malformed("malformed pattern (missing ']')");
                    };
                    at += 1;
                    if *byte == b'%' && at < self.pattern.len() {
                        at += 1;
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(at),
        }
    }

    /// Whether the byte is in the set from `p` (its `[`) to `end` (its `]`).
    fn is_in_set(&self, byte: u8, mut p: usize, end: usize) -> bool {
        let mut is_positive = true;
        if self.pattern.get(p + 1) == Some(&b'^') {
            is_positive = false;
            p += 1;
        }
        p += 1;
        while p < end {
            if self.pattern[p] == b'%' {
                p += 1;
                if is_in_class(byte, self.pattern[p]) {
                    return is_positive;
                }
            } else if self.pattern[p + 1] == b'-' && p + 2 < end {
                if (self.pattern[p]..=self.pattern[p + 2]).contains(&byte) {
                    return is_positive;
                }
                p += 2;
            } else if self.pattern[p] == byte {
                return is_positive;
            }
            p += 1;
        }
        !is_positive
    }

    /// Whether the byte at `s` matches the class from `p` to `end`.
    fn is_single(&mut self, s: usize, p: usize, end: usize) -> Step<bool> {
        let Some(byte) = self.source.get(s).copied() else { return Ok(false) };
        self.take_work((end - p) / SET_BYTES_A_WORK)?;
        Ok(match self.pattern[p] {
            b'.' => true,
            b'%' => is_in_class(byte, self.pattern[p + 1]),
            b'[' => self.is_in_set(byte, p, end - 1),
            other => other == byte,
        })
    }

    fn balance(&mut self, s: usize, p: usize) -> Step<Option<usize>> {
        let (Some(open), Some(close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return malformed("malformed pattern (missing arguments to '%b')");
        };
        if self.source.get(s) != Some(open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.source.len() {
            self.take_work(1)?;
            let byte = &self.source[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn expand(&mut self, s: usize, p: usize, end: usize) -> Step<Option<usize>> {
        let mut count = 0;
        while self.is_single(s + count, p, end)? {
            self.take_work(1)?;
            count += 1;
        }
        loop {
            if let Some(found) = self.matches(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn expand_least(&mut self, mut s: usize, p: usize, end: usize) -> Step<Option<usize>> {
        loop {
            if let Some(found) = self.matches(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.is_single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn start_capture(&mut self, s: usize, p: usize, capture: Capture) -> Step<Option<usize>> {
        if self.captures.len() >= CAPTURES_MAX {
            return malformed("too many captures");
        }
        let count = self.captures.len();
        self.captures.push(capture);
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures.truncate(count);
        }
        Ok(found)
    }

    fn end_capture(&mut self, s: usize, p: usize) -> Step<Option<usize>> {
        let open = self.captures.iter().rposition(|capture| matches!(capture, Capture::Open(_)));
        let Some(at) = open else { return malformed("invalid pattern capture") };
        let before = self.captures[at];
        if let Capture::Open(start) = before {
            self.captures[at] = Capture::Part(start, s);
        }
        let found = self.matches(s, p)?;
        if found.is_none() {
            self.captures[at] = before;
        }
        Ok(found)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Step<Option<usize>> {
        let at = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some(Capture::Part(start, end)) = self.captures.get(at).copied() else {
            return malformed(&format!("invalid capture index %{}", at.wrapping_add(1)));
        };
        let part = &self.source[start..end];
        self.take_work(part.len())?;
        Ok(self.source[s..].starts_with(part).then_some(s + part.len()))
    }
}
