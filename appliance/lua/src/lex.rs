//! Source text into tokens.

use crate::number;

/// A token. Names and strings are bytes of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Word(&'static str),
    /// Operators and punctuation.
    Sign(&'static str),
    Name(String),
    Text(Vec<u8>),
    Number(i64),
    /// A byte that begins no token.
    Other(u8),
    End,
}

const WORDS: &[&str] = &[
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local", "nil",
    "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// Longer signs come before those that they begin with.
const SIGNS: &[&str] = &[
    "...", "..", "==", "~=", "<=", ">=", "::", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=", "(", ")", "{", "}",
    "[", "]", ";", ":", ",", ".",
];

/// How errors name a program.
pub(crate) const CHUNK: &str = "[string \"channel program\"]";

pub(crate) struct Lexer<'a> {
    source: &'a [u8],
    at: usize,
    /// Where the current token begins.
    start: usize,
    pub(crate) line: u32,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Self {
        // The first line may name an interpreter.
        let at =
            if source.starts_with(b"#") { source.iter().position(|b| *b == b'\n').unwrap_or(source.len()) } else { 0 };
        Self { source, at, start: at, line: 1 }
    }

    fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    /// An error in the current token, whose text ends here.
    fn error(&self, message: &str) -> String {
        let text = String::from_utf8_lossy(&self.source[self.start..self.at.min(self.source.len())]);
        format!("{CHUNK}:{}: {message} near '{text}'", self.line)
    }

    /// The text of the current token.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.source[self.start..self.at]).into_owned()
    }

    /// Skips a line break, which may have two characters.
    fn skip_line_break(&mut self) {
        let first = self.peek();
        self.at += 1;
        if let (Some(first), Some(second @ (b'\n' | b'\r'))) = (first, self.peek())
            && first != second
        {
            self.at += 1;
        }
        self.line += 1;
    }

    pub(crate) fn next(&mut self) -> Result<Token, String> {
        loop {
            self.start = self.at;
            let Some(byte) = self.peek() else { return Ok(Token::End) };
            match byte {
                b'\n' | b'\r' => self.skip_line_break(),
                b' ' | b'\t' | 0x0b | 0x0c => self.at += 1,
                b'-' if self.peek_at(1) == Some(b'-') => self.skip_comment()?,
                b'"' | b'\'' => return self.text_token(byte),
                b'[' if matches!(self.peek_at(1), Some(b'[' | b'=')) => {
                    if let Some(level) = self.long_bracket() {
                        return self.long_text(level, "string").map(Token::Text);
                    }
                    if self.peek_at(1) == Some(b'=') {
                        self.at += 1;
                        return Err(self.error("invalid long string delimiter"));
                    }
                    self.at += 1;
                    return Ok(Token::Sign("["));
                }
                b'0'..=b'9' => return self.number(),
                b'.' if self.peek_at(1).is_some_and(|b| b.is_ascii_digit()) => return self.number(),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    while self.peek().is_some_and(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                        self.at += 1;
                    }
                    let name = self.text();
                    return Ok(match WORDS.iter().find(|word| **word == name) {
                        Some(word) => Token::Word(word),
                        None => Token::Name(name),
                    });
                }
                byte => {
                    let sign = SIGNS.iter().find(|sign| self.source[self.at..].starts_with(sign.as_bytes()));
                    self.at += sign.map_or(1, |sign| sign.len());
                    return Ok(sign.map_or(Token::Other(byte), |sign| Token::Sign(sign)));
                }
            }
        }
    }

    fn skip_comment(&mut self) -> Result<(), String> {
        self.at += 2;
        if self.peek() == Some(b'[')
            && let Some(level) = self.long_bracket()
        {
            return self.long_text(level, "comment").map(drop);
        }
        while self.peek().is_some_and(|b| b != b'\n' && b != b'\r') {
            self.at += 1;
        }
        Ok(())
    }

    /// The level of the long bracket that opens here.
    fn long_bracket(&self) -> Option<usize> {
        let level = self.source[self.at + 1..].iter().take_while(|b| **b == b'=').count();
        (self.peek_at(level + 1) == Some(b'[')).then_some(level)
    }

    fn long_text(&mut self, level: usize, what: &str) -> Result<Vec<u8>, String> {
        self.at += level + 2;
        let close = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
        if matches!(self.peek(), Some(b'\n' | b'\r')) {
            self.skip_line_break();
        }
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None => return Err(format!("{CHUNK}:{}: unfinished long {what} near <eof>", self.line)),
                Some(b']') if self.source[self.at..].starts_with(&close) => {
                    self.at += close.len();
                    return Ok(text);
                }
                Some(b'\n' | b'\r') => {
                    self.skip_line_break();
                    text.push(b'\n');
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn text_token(&mut self, quote: u8) -> Result<Token, String> {
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None => return Err(format!("{CHUNK}:{}: unfinished string near <eof>", self.line)),
                Some(b'\n' | b'\r') => return Err(self.error("unfinished string")),
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut text)?;
                }
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(Token::Text(text));
                    }
                    text.push(byte);
                }
            }
        }
    }

    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), String> {
        let Some(byte) = self.peek() else { return Ok(()) };
        let plain = match byte {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'"' | b'\'' => byte,
            b'\n' | b'\r' => {
                self.skip_line_break();
                text.push(b'\n');
                return Ok(());
            }
            b'z' => {
                self.at += 1;
                while let Some(space) = self.peek().filter(|b| b.is_ascii_whitespace() || *b == 0x0b) {
                    match space {
                        b'\n' | b'\r' => self.skip_line_break(),
                        _ => self.at += 1,
                    }
                }
                return Ok(());
            }
            b'x' => {
                self.at += 1;
                let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(self.peek()), digit(self.peek_at(1))) else {
                    self.at += 1;
                    return Err(self.error("hexadecimal digit expected"));
                };
                self.at += 2;
                text.push((high * 16 + low) as u8);
                return Ok(());
            }
            b'0'..=b'9' => {
                let mut code = 0;
                for _ in 0..3 {
                    let Some(digit) = self.peek().filter(u8::is_ascii_digit) else { break };
                    code = code * 10 + u32::from(digit - b'0');
                    self.at += 1;
                }
                let Ok(code) = u8::try_from(code) else { return Err(self.error("decimal escape too large")) };
                text.push(code);
                return Ok(());
            }
            _ => {
                self.at += 1;
                return Err(self.error("invalid escape sequence"));
            }
        };
        self.at += 1;
        text.push(plain);
        Ok(())
    }

    /// Everything that looks like a number is part of it, so that `1.5` is one malformed number.
    fn number(&mut self) -> Result<Token, String> {
        let is_hexadecimal = self.peek() == Some(b'0') && matches!(self.peek_at(1), Some(b'x' | b'X'));
        let exponent = if is_hexadecimal { [b'p', b'P'] } else { [b'e', b'E'] };
        if is_hexadecimal {
            self.at += 2;
        }
        while let Some(byte) = self.peek() {
            if exponent.contains(&byte) {
                self.at += 1;
                if matches!(self.peek(), Some(b'+' | b'-')) {
                    self.at += 1;
                }
            } else if byte.is_ascii_hexdigit() || byte == b'.' {
                self.at += 1;
            } else {
                break;
            }
        }
        let number = number::parse(&self.source[self.start..self.at]);
        number.map(Token::Number).ok_or_else(|| self.error("malformed number"))
    }
}
