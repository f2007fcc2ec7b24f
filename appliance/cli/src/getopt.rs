//! Parses command lines like zpool(8) and zfs(8): clusters (`-Hp`), arguments joined or separate
//! (`-oname`, `-o name`), options after operands, `--` as the end, and long options that may be
//! abbreviated.
//!
//! Weir's own verbs use clap; this is for the verbs that scripts written for OpenZFS call.

/// Options that a verb accepts.
pub struct Options {
    /// Letters; a colon after a letter means that it takes an argument.
    pub short: &'static str,
    /// Long options: name, whether it takes an argument, and its letter in [`Parsed::given`].
    pub long: &'static [(&'static str, bool, char)],
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Options in the given order, with their arguments.
    pub given: Vec<(char, String)>,
    /// The arguments that are not options.
    pub operands: Vec<String>,
}

/// An error in a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An unknown option, as the user wrote it.
    Unknown(String),
    /// An option lacks its argument.
    NoArgument(String),
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "invalid option '{option}'"),
            Self::NoArgument(option) => write!(f, "missing argument for '{option}' option"),
        }
    }
}

impl Options {
    /// Parses arguments without the verb. Stops at the first error.
    pub fn parse(&self, args: &[String]) -> Result<Parsed, Wrong> {
        let mut parsed = Parsed::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            if arg == "--" {
                parsed.operands.extend(args.by_ref().cloned());
            } else if let Some(long) = arg.strip_prefix("--") {
                self.long_option(long, &mut args, &mut parsed)?;
            } else if arg.len() > 1 && arg.starts_with('-') {
                self.cluster(&arg[1..], &mut args, &mut parsed)?;
            } else {
                parsed.operands.push(arg.clone());
            }
        }
        Ok(parsed)
    }

    fn cluster<'a>(
        &self,
        letters: &str,
        args: &mut impl Iterator<Item = &'a String>,
        parsed: &mut Parsed,
    ) -> Result<(), Wrong> {
        for (i, letter) in letters.char_indices() {
            match self.takes_argument(letter) {
                None => return Err(Wrong::Unknown(letter.to_string())),
                Some(false) => parsed.given.push((letter, String::new())),
                Some(true) => {
                    let joined = &letters[i + letter.len_utf8()..];
                    let argument = match joined {
                        "" => args.next().ok_or_else(|| Wrong::NoArgument(letter.to_string()))?.clone(),
                        _ => joined.to_owned(),
                    };
                    parsed.given.push((letter, argument));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn takes_argument(&self, letter: char) -> Option<bool> {
        let at = self.short.find(letter).filter(|_| letter != ':')?;
        Some(self.short[at + letter.len_utf8()..].starts_with(':'))
    }

    fn long_option<'a>(
        &self,
        text: &str,
        args: &mut impl Iterator<Item = &'a String>,
        parsed: &mut Parsed,
    ) -> Result<(), Wrong> {
        let (name, joined) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let exact = self.long.iter().find(|o| o.0 == name);
        let mut starting = self.long.iter().filter(|o| o.0.starts_with(name));
        let option = match (exact, starting.next(), starting.next()) {
            (Some(option), ..) | (None, Some(option), None) => option,
            _ => return Err(Wrong::Unknown(format!("--{name}"))),
        };
        let argument = match (option.1, joined) {
            (false, None) => String::new(),
            (false, Some(_)) => return Err(Wrong::Unknown(format!("--{text}"))),
            (true, Some(value)) => value,
            (true, None) => args.next().ok_or_else(|| Wrong::NoArgument(format!("--{name}")))?.clone(),
        };
        parsed.given.push((option.2, argument));
        Ok(())
    }
}

impl Parsed {
    /// Whether an option was given.
    pub fn has(&self, letter: char) -> bool {
        self.given.iter().any(|(l, _)| *l == letter)
    }

    /// The argument of the last occurrence of an option.
    pub fn last(&self, letter: char) -> Option<&str> {
        self.given.iter().rev().find(|(l, _)| *l == letter).map(|(_, a)| a.as_str())
    }

    /// The arguments of all occurrences of an option.
    pub fn all(&self, letter: char) -> impl Iterator<Item = &str> {
        self.given.iter().filter(move |(l, _)| *l == letter).map(|(_, a)| a.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: Options = Options { short: "Hpo:d:", long: &[("json", false, 'j'), ("json-int", false, 'J')] };

    fn parse(line: &str) -> Result<Parsed, Wrong> {
        OPTIONS.parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn clusters_and_arguments_may_be_joined() {
        let parsed = parse("-Hpo name tank -ousd -d1 x -- -H").expect("good");
        assert_eq!(parsed.operands, ["tank", "x", "-H"]);
        assert_eq!(parsed.last('o'), Some("usd"));
        assert_eq!(parsed.all('o').collect::<Vec<_>>(), ["name", "usd"]);
        assert_eq!(
            (parsed.has('H'), parsed.has('p'), parsed.has('j'), parsed.last('d')),
            (true, true, false, Some("1"))
        );
    }

    #[test]
    fn long_options_may_be_shortened_when_that_is_clear() {
        assert!(parse("--json").expect("good").has('j'));
        assert!(parse("--json-i").expect("good").has('J'));
        assert_eq!(parse("--jso"), Err(Wrong::Unknown("--jso".into())));
        assert_eq!(parse("--nosuch"), Err(Wrong::Unknown("--nosuch".into())));
        assert_eq!(parse("--json=1"), Err(Wrong::Unknown("--json=1".into())));
    }

    #[test]
    fn errors_have_the_messages_of_openzfs() {
        assert_eq!(parse("-Hx").expect_err("bad").to_string(), "invalid option 'x'");
        assert_eq!(parse("-H -o").expect_err("bad").to_string(), "missing argument for 'o' option");
        assert_eq!(parse("-:").expect_err("bad").to_string(), "invalid option ':'");
        assert_eq!(parse("- -").expect("a lone dash is an operand").operands, ["-", "-"]);
    }
}
