//! A tokenizer for Rust: enough to tell code from comments and literals, and to skip tests.
//!
//! Below: nothing. Above: the checks of [`super`]. It accepts every program that compiles; what it
//! makes of other text does not matter, since `make lint` compiles first.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A keyword or name; `r#` is not part of it.
    Ident,
    /// `::` is one token, all other punctuation one for each character.
    Punct,
    /// Text, characters, numbers and lifetimes.
    Literal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub line: u32,
}

impl<'a> Token<'a> {
    pub fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }

    pub fn ident(&self) -> Option<&'a str> {
        (self.kind == Kind::Ident).then_some(self.text)
    }
}

/// The part of a comment that is on one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Comment<'a> {
    /// Without the marks `//`, `///`, `//!`, `/*`.
    pub text: &'a str,
    pub line: u32,
    /// Nothing precedes it on the line.
    pub alone: bool,
    /// Length of the whole line, in characters.
    pub columns: usize,
}

pub struct Source<'a> {
    pub tokens: Vec<Token<'a>>,
    pub comments: Vec<Comment<'a>>,
}

impl<'a> Source<'a> {
    pub fn lex(text: &'a str) -> Source<'a> {
        let mut lexer = Lexer { text, at: 0, line: 1, tokens: Vec::new(), comments: Vec::new() };
        lexer.run();
        Source { tokens: lexer.tokens, comments: lexer.comments }
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    tokens: Vec<Token<'a>>,
    comments: Vec<Comment<'a>>,
}

fn starts_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_name(byte: u8) -> bool {
    starts_name(byte) || byte.is_ascii_digit()
}

impl<'a> Lexer<'a> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn run(&mut self) {
        while self.at < self.text.len() {
            let start = self.at;
            match self.byte(0) {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                byte if byte.is_ascii_whitespace() => self.at += 1,
                b'/' if self.byte(1) == b'/' => {
                    self.at = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
                    self.comment(start, self.at);
                }
                b'/' if self.byte(1) == b'*' => self.block_comment(),
                b'"' => self.string(0),
                b'\'' => self.quote(),
                byte if byte.is_ascii_digit() => self.number(),
                byte if starts_name(byte) => self.name(),
                b':' if self.byte(1) == b':' => {
                    self.at += 2;
                    self.push(Kind::Punct, start, self.line);
                }
                _ => {
                    self.at += 1;
                    self.push(Kind::Punct, start, self.line);
                }
            }
        }
    }

    fn push(&mut self, kind: Kind, start: usize, line: u32) {
        self.tokens.push(Token { kind, text: &self.text[start..self.at], line });
    }

    fn comment(&mut self, start: usize, end: usize) {
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |length| start + length);
        let text = self.text[start..end].trim_start_matches(['/', '*', '!']).trim_end_matches("*/");
        let alone = self.text[line_start..start].trim().is_empty();
        let columns = self.text[line_start..line_end].trim_end().chars().count();
        self.comments.push(Comment { text, line: self.line, alone, columns });
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        let mut start = self.at;
        loop {
            match (self.byte(0), self.byte(1)) {
                (b'/', b'*') => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', b'/') => {
                    depth -= 1;
                    self.at += 2;
                }
                (b'\n', _) => {
                    self.comment(start, self.at);
                    self.line += 1;
                    self.at += 1;
                    start = self.at;
                }
                _ => self.at += 1,
            }
            if depth == 0 || self.at >= self.text.len() {
                self.at = self.at.min(self.text.len());
                return self.comment(start, self.at);
            }
        }
    }

    /// A string with escapes, whose prefix is `prefix` bytes long.
    fn string(&mut self, prefix: usize) {
        let (start, line) = (self.at, self.line);
        self.at += prefix + 1;
        while self.at < self.text.len() && self.byte(0) != b'"' {
            self.line += u32::from(self.byte(0) == b'\n');
            if self.byte(0) == b'\\' {
                self.at += 1;
                self.line += u32::from(self.byte(0) == b'\n');
            }
            self.at += 1;
        }
        self.at = (self.at + 1).min(self.text.len());
        self.push(Kind::Literal, start, line);
    }

    fn raw_string(&mut self, prefix: usize, hashes: usize) {
        let (start, line) = (self.at, self.line);
        let body = start + prefix + hashes + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        self.at = self.text[body..].find(&end).map_or(self.text.len(), |length| body + length + end.len());
        self.line += self.text[start..self.at].matches('\n').count() as u32;
        self.push(Kind::Literal, start, line);
    }

    /// A character or a lifetime.
    fn quote(&mut self) {
        let start = self.at;
        let mut rest = self.text[start + 1..].chars();
        let first = rest.next();
        if first == Some('\\') {
            // The escaped character may be a quote itself.
            self.at += 3;
            while self.at < self.text.len() && self.byte(0) != b'\'' {
                self.at += 1;
            }
            self.at = (self.at + 1).min(self.text.len());
        } else if rest.next() == Some('\'') {
            self.at += 2 + first.map_or(0, char::len_utf8);
        } else {
            self.at += 1;
            while continues_name(self.byte(0)) {
                self.at += 1;
            }
        }
        self.push(Kind::Literal, start, self.line);
    }

    fn number(&mut self) {
        let start = self.at;
        while continues_name(self.byte(0)) || (self.byte(0) == b'.' && self.byte(1).is_ascii_digit()) {
            self.at += 1;
        }
        self.push(Kind::Literal, start, self.line);
    }

    fn name(&mut self) {
        let start = self.at;
        while continues_name(self.byte(0)) {
            self.at += 1;
        }
        let name = &self.text[start..self.at];
        let hashes = self.text[self.at..].bytes().take_while(|&byte| byte == b'#').count();
        let prefix = self.at - start;
        match (name, self.byte(hashes)) {
            ("r" | "br" | "cr", b'"') => {
                self.at = start;
                self.raw_string(prefix, hashes);
            }
            ("b" | "c", b'"') if hashes == 0 => {
                self.at = start;
                self.string(prefix);
            }
            ("b", b'\'') if hashes == 0 => self.quote(),
            ("r", byte) if hashes == 1 && starts_name(byte) => {
                self.at += 1;
                self.name();
            }
            _ => self.push(Kind::Ident, start, self.line),
        }
    }
}

/// The tokens without items, fields and statements that only tests have: those after
/// `#[cfg(test)]` or `#[cfg(all(test, ..))]`. Empty if the whole file is one.
pub fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let inner = tokens[at].is("#") && tokens.get(at + 1).is_some_and(|token| token.is("!"));
        let open = at + 1 + usize::from(inner);
        if !tokens[at].is("#") || !tokens.get(open).is_some_and(|token| token.is("[")) {
            kept.push(tokens[at]);
            at += 1;
            continue;
        }
        let end = close(tokens, open);
        if !is_test(&tokens[open + 1..end]) {
            kept.extend_from_slice(&tokens[at..=end.min(tokens.len() - 1)]);
            at = end + 1;
        } else if inner {
            return Vec::new();
        } else {
            at = item_end(tokens, end + 1);
        }
    }
    kept
}

fn is_test(attribute: &[Token]) -> bool {
    let text: Vec<&str> = attribute.iter().take(5).map(|token| token.text).collect();
    text.starts_with(&["cfg", "(", "test", ")"]) || text == ["cfg", "(", "all", "(", "test"]
}

/// The index of the bracket that closes the one at `open`.
pub fn close(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            _ if token.kind != Kind::Punct => {}
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth -= 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The index after the item, field, arm or statement that begins at `at`.
fn item_end(tokens: &[Token], mut at: usize) -> usize {
    const ITEMS: &[&str] = &[
        "fn",
        "impl",
        "struct",
        "enum",
        "mod",
        "use",
        "const",
        "static",
        "trait",
        "type",
        "unsafe",
        "extern",
        "async",
        "union",
        "macro_rules",
        "let",
    ];
    while at + 1 < tokens.len() && tokens[at].is("#") && tokens[at + 1].is("[") {
        at = close(tokens, at + 1) + 1;
    }
    let mut word = at;
    if tokens.get(word).is_some_and(|token| token.is("pub")) {
        word += 1;
        if tokens.get(word).is_some_and(|token| token.is("(")) {
            word = close(tokens, word) + 1;
        }
    }
    let is_item = tokens.get(word).is_some_and(|token| ITEMS.contains(&token.text));
    let is_statement = tokens.get(word).is_some_and(|token| ["use", "let"].contains(&token.text));
    let mut angles = 0;
    while at < tokens.len() {
        match tokens[at].text {
            _ if tokens[at].kind != Kind::Punct => {}
            "(" | "[" => at = close(tokens, at),
            "{" => {
                at = close(tokens, at);
                if !is_statement {
                    return at + 1;
                }
            }
            ")" | "]" | "}" => return at,
            ";" => return at + 1,
            "<" => angles += 1,
            ">" if !tokens[at - 1].is("-") && !tokens[at - 1].is("=") => angles -= 1,
            "," if !is_item && angles <= 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
        tokens.iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        let text = "let a = \"// no \\\" comment\"; // one\nlet b = r#\"/* \" */\"#; /* two\n /* three */ four */ let c = '\"';";
        let source = Source::lex(text);
        let comments: Vec<(&str, u32, bool)> =
            source.comments.iter().map(|comment| (comment.text.trim(), comment.line, comment.alone)).collect();
        assert_eq!(comments, [("one", 1, false), ("two", 2, false), ("/* three */ four", 3, true)]);
        let idents: Vec<&str> = source.tokens.iter().filter_map(Token::ident).collect();
        assert_eq!(idents, ["let", "a", "let", "b", "let", "c"]);
        assert_eq!(source.tokens.iter().filter(|token| token.kind == Kind::Literal).count(), 3);
    }

    #[test]
    fn quotes_hashes_and_numbers_are_distinguished() {
        let source =
            Source::lex(r###"fn f<'a>(r#type: &'a str) { ('\'', 'x', b'\\', b"\"", c"", br##""#"##, 0..5, 1.5) }"###);
        let literals: Vec<&str> =
            source.tokens.iter().filter(|token| token.kind == Kind::Literal).map(|token| token.text).collect();
        let expected = ["'a", "'a", "'\\''", "'x'", "'\\\\'", "b\"\\\"\"", "c\"\"", "br##\"\"#\"##", "0", "5", "1.5"];
        assert_eq!(literals, expected);
        assert!(source.tokens.iter().any(|token| token.ident() == Some("type")));
    }

    #[test]
    fn lines_are_counted_through_strings_and_comments() {
        let source = Source::lex("\"a\n\\\nb\" r\"\n\" /*\n*/ end");
        assert_eq!(source.tokens.last().unwrap().line, 5);
    }

    #[test]
    fn test_items_fields_and_statements_are_skipped() {
        let text = "use a::b; #[cfg(test)] use c::{d, e}; #[cfg(all(test, unix))] mod tests { fn f() {} } \
            struct S { x: u8, #[cfg(test)] pub y: Map<A, B>, z: u8 } \
            #[cfg(test)] #[allow(dead)] fn g(a: u8) -> u8 { 1 } #[cfg(unix)] fn h() { #[cfg(test)] let q = T { a }; }";
        let text = texts(&without_tests(&Source::lex(text).tokens)).concat();
        assert_eq!(text, "usea::b;structS{x:u8,z:u8}#[cfg(unix)]fnh(){}");
        assert!(without_tests(&Source::lex("//! A test.\n#![cfg(test)]\nfn f() {}").tokens).is_empty());
    }
}
