//! Parses command lines like zpool(8) and zfs(8): clusters (`-Hp`), arguments joined or separate
//! (`-oname`, `-o name`), options after operands, `--` as the end, and long options that may be
//! abbreviated.
//!
//! Weir's own verbs use clap; this is for the verbs that scripts written for OpenZFS call.

/// What an argument is. Completions offer what it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgKind {
    /// Text of which nothing is known.
    Text,
    /// A file, directory or device.
    File,
    /// An imported pool.
    Pool,
    /// A file system or volume.
    Dataset,
    /// A file system or volume that does not exist yet.
    NewDataset,
    /// A snapshot.
    Snapshot,
    /// A file system, volume or snapshot.
    AnyDataset,
    /// One of these words, or several with commas between them.
    Words(&'static [&'static str]),
    /// Names of properties of pools.
    PoolProperties,
    /// The same, or `all`.
    AllPoolProperties,
    /// `property=value` of a pool.
    PoolAssignment,
    /// Names of properties of datasets.
    DatasetProperties,
    /// The same, or `all`.
    AllDatasetProperties,
    /// `property=value` of a dataset.
    DatasetAssignment,
}

/// The argument of an option.
#[derive(Debug, Clone, Copy)]
pub struct Argument {
    /// Its name in help texts.
    pub name: &'static str,
    pub kind: ArgKind,
    /// As the last word of a command line, the option may be without it.
    pub is_optional: bool,
}

/// An option of a verb. The parser accepts the options in a verb's row, and help, man pages and
/// completions are made from the same rows: so none can be accepted without being documented.
#[derive(Debug, Clone, Copy)]
pub struct Opt {
    /// Stands for the option in [`Parsed::given`].
    pub key: char,
    /// Whether `-` and the key is the option; otherwise it has a long form only.
    pub is_letter: bool,
    /// The long form, without the dashes.
    pub long: Option<&'static str>,
    pub argument: Option<Argument>,
    /// Whether each occurrence counts; otherwise the last one does.
    pub is_repeated: bool,
    /// What it does, in a sentence.
    pub help: &'static str,
    /// The error message if Weir does not support it.
    pub refused: Option<&'static str>,
}

/// An option without an argument.
pub const fn flag(letter: char, help: &'static str) -> Opt {
    Opt { key: letter, is_letter: true, long: None, argument: None, is_repeated: false, help, refused: None }
}

/// An option with an argument.
pub const fn value(letter: char, name: &'static str, kind: ArgKind, help: &'static str) -> Opt {
    Opt { argument: Some(Argument { name, kind, is_optional: false }), ..flag(letter, help) }
}

/// An option that has a long form only.
pub const fn long_flag(key: char, long: &'static str, help: &'static str) -> Opt {
    Opt { is_letter: false, long: Some(long), ..flag(key, help) }
}

impl Opt {
    /// The option with a long form too.
    pub const fn long(self, long: &'static str) -> Self {
        Self { long: Some(long), ..self }
    }

    /// The option with its long form only.
    pub const fn only_long(self, long: &'static str) -> Self {
        Self { is_letter: false, long: Some(long), ..self }
    }

    /// The option, each occurrence of which counts.
    pub const fn repeated(self) -> Self {
        Self { is_repeated: true, ..self }
    }

    /// The option, which needs no argument as the last word.
    pub const fn optional(self) -> Self {
        let argument = match self.argument {
            Some(argument) => Some(Argument { is_optional: true, ..argument }),
            None => None,
        };
        Self { argument, ..self }
    }

    /// The option, which is refused with this message.
    pub const fn refused(self, message: &'static str) -> Self {
        Self { refused: Some(message), ..self }
    }

    /// How it is written, with the name of its argument: `-o, --output file`.
    pub fn forms(&self) -> String {
        let letter = self.is_letter.then(|| format!("-{}", self.key));
        let long = self.long.map(|long| format!("--{long}"));
        let mut text: Vec<String> = letter.into_iter().chain(long).collect();
        if let (Some(argument), Some(last)) = (&self.argument, text.last_mut()) {
            let name = argument.name;
            *last += &if argument.is_optional { format!(" [{name}]") } else { format!(" {name}") };
        }
        text.join(", ")
    }
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Options in the given order, with their arguments.
    pub given: Vec<(char, String)>,
    /// The arguments that are not options.
    pub operands: Vec<String>,
    /// The option that ends the command line without its optional argument.
    pub bare: Option<char>,
}

/// An error in a command line.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// An unknown option, as the user wrote it.
    Unknown(String),
    /// An option lacks its argument.
    NoArgument(String),
    /// No error: help is requested.
    Help,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "invalid option '{option}'"),
            Self::NoArgument(option) => write!(f, "missing argument for '{option}' option"),
            Self::Help => write!(f, "help is requested"),
        }
    }
}

/// Parses `args`. `--help` ends the parse with [`Wrong::Help`]; `-h` is as wrong as in OpenZFS,
/// whose test suite expects that.
pub fn parse(options: &[Opt], args: &[String]) -> Result<Parsed, Wrong> {
    let mut parsed = Parsed::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            parsed.operands.extend(args.by_ref().cloned());
        } else if arg == "--help" {
            return Err(Wrong::Help);
        } else if let Some(long) = arg.strip_prefix("--") {
            long_option(options, long, &mut args, &mut parsed)?;
        } else if arg.len() > 1 && arg.starts_with('-') {
            cluster(options, &arg[1..], &mut args, &mut parsed)?;
        } else {
            parsed.operands.push(arg.clone());
        }
    }
    Ok(parsed)
}

/// The index of the first argument that is neither an option nor the argument of one; the number
/// of arguments if there is none.
pub fn first_operand(options: &[Opt], args: &[String]) -> usize {
    let mut rest = args.iter();
    loop {
        let at = args.len() - rest.len();
        let Some(arg) = rest.next() else { return at };
        let parsed = &mut Parsed::default();
        let is_good = match arg.strip_prefix("--") {
            Some("") => return at,
            Some("help") => Ok(()),
            Some(long) => long_option(options, long, &mut rest, parsed),
            None if arg.len() > 1 && arg.starts_with('-') => cluster(options, &arg[1..], &mut rest, parsed),
            None => return at,
        };
        // The parser reports what is wrong.
        if is_good.is_err() {
            return args.len();
        }
    }
}

fn letter(options: &[Opt], letter: char) -> Option<&Opt> {
    options.iter().find(|option| option.is_letter && option.key == letter)
}

fn cluster<'a>(
    options: &[Opt],
    letters: &str,
    args: &mut impl Iterator<Item = &'a String>,
    parsed: &mut Parsed,
) -> Result<(), Wrong> {
    for (i, given) in letters.char_indices() {
        let option = letter(options, given).ok_or_else(|| Wrong::Unknown(given.to_string()))?;
        let Some(argument) = option.argument else {
            parsed.given.push((given, String::new()));
            continue;
        };
        let joined = &letters[i + given.len_utf8()..];
        let next = if joined.is_empty() { args.next().cloned() } else { Some(joined.to_owned()) };
        match next {
            Some(next) => parsed.given.push((given, next)),
            None if argument.is_optional => parsed.bare = Some(given),
            None => return Err(Wrong::NoArgument(given.to_string())),
        }
        return Ok(());
    }
    Ok(())
}

fn long_option<'a>(
    options: &[Opt],
    text: &str,
    args: &mut impl Iterator<Item = &'a String>,
    parsed: &mut Parsed,
) -> Result<(), Wrong> {
    let (name, joined) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    let all = || options.iter().filter_map(|option| Some((option, option.long?)));
    let exact = all().find(|(_, long)| *long == name);
    let mut starting = all().filter(|(_, long)| long.starts_with(name));
    let option = match (exact, starting.next(), starting.next()) {
        (Some((option, _)), ..) | (None, Some((option, _)), None) => option,
        _ => return Err(Wrong::Unknown(format!("--{name}"))),
    };
    let argument = match (option.argument, joined) {
        (None, None) => String::new(),
        (None, Some(_)) => return Err(Wrong::Unknown(format!("--{text}"))),
        (Some(_), Some(value)) => value,
        (Some(_), None) => args.next().ok_or_else(|| Wrong::NoArgument(format!("--{name}")))?.clone(),
    };
    parsed.given.push((option.key, argument));
    Ok(())
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

    const OPTIONS: &[Opt] = &[
        flag('H', ""),
        flag('p', ""),
        value('o', "field", ArgKind::Text, ""),
        value('d', "depth", ArgKind::Text, ""),
        long_flag('j', "json", ""),
        long_flag('J', "json-int", ""),
        value('c', "script", ArgKind::Text, "").optional(),
    ];

    fn parse(line: &str) -> Result<Parsed, Wrong> {
        super::parse(OPTIONS, &line.split(' ').map(str::to_owned).collect::<Vec<_>>())
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
        assert_eq!(parse("-j").expect_err("bad").to_string(), "invalid option 'j'");
        assert_eq!(parse("- -").expect("a lone dash is an operand").operands, ["-", "-"]);
    }

    #[test]
    fn the_first_operand_is_found_behind_options_and_their_arguments() {
        let rows = [
            ("", 0),
            ("tank", 0),
            ("-H tank -p", 1),
            ("-Hpo name tank", 2),
            ("-oname --json tank", 2),
            ("-H -- tank", 1),
            ("-H -", 1),
            ("-Hc", 1),
            ("-H -o", 2),
            ("-x tank", 2),
        ];
        for (line, expected) in rows {
            let args: Vec<String> = line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
            assert_eq!(first_operand(OPTIONS, &args), expected, "{line}");
        }
    }

    #[test]
    fn an_optional_argument_may_be_missing_at_the_end_only() {
        let parsed = parse("-Hc").expect("good");
        assert_eq!((parsed.bare, parsed.has('H'), parsed.has('c')), (Some('c'), true, false));
        let parsed = parse("-c -H tank").expect("good");
        assert_eq!((parsed.last('c'), parsed.bare, parsed.has('H')), (Some("-H"), None, false));
    }

    #[test]
    fn help_is_requested_by_a_long_option() {
        assert_eq!(parse("tank --help"), Err(Wrong::Help));
        assert_eq!(parse("-h"), Err(Wrong::Unknown("h".into())));
        assert_eq!(parse("-x --help"), Err(Wrong::Unknown("x".into())));
        assert_eq!(parse("-- --help").expect("an operand").operands, ["--help"]);
        assert_eq!(parse("-o --help").expect("an argument").last('o'), Some("--help"));
    }

    #[test]
    fn an_option_is_shown_as_it_is_written() {
        assert_eq!(
            OPTIONS.iter().map(Opt::forms).collect::<Vec<_>>().join("; "),
            "-H; -p; -o field; -d depth; --json; --json-int; -c [script]"
        );
        assert_eq!(value('r', "rate", ArgKind::Text, "").long("rate").forms(), "-r, --rate rate");
    }
}
