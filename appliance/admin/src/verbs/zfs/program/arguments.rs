//! Arguments of the functions: positions and keywords, as OpenZFS checks them. Facts:
//! `zcp_parse_args`, `zcp_args_error`.

use lua::{Complaint, Datum};

/// The longest message, with its NUL.
const MESSAGE_MAX: usize = 512;

/// A name and the type of its value.
type Argument = (&'static str, &'static str);

/// What a function takes.
pub struct Signature {
    pub name: &'static str,
    pub positions: &'static [Argument],
    pub keywords: &'static [Argument],
}

impl Signature {
    fn refuse<T>(&self, message: String) -> Result<T, Complaint> {
        let mut all: Vec<String> = self.positions.iter().map(|(name, kind)| format!("<{name}({kind})>")).collect();
        all.extend(self.keywords.iter().map(|(name, kind)| format!("{name}=({kind})")));
        let full = format!("{message}: {}{{{}}}", self.name, all.join(", "));
        Err(Complaint::Error(if full.len() < MESSAGE_MAX { full } else { message }))
    }

    /// The arguments by position, then those by keyword; nil for those that are not given.
    pub fn parse(&self, arguments: Vec<Datum>) -> Result<Vec<Datum>, Complaint> {
        match <[Datum; 1]>::try_from(arguments) {
            Ok([Datum::Table(entries)]) => self.parse_table(entries),
            Ok([only]) => self.parse_positions(vec![only]),
            Err(arguments) => self.parse_positions(arguments),
        }
    }

    fn check_position(&self, at: usize, value: &Datum) -> Result<(), Complaint> {
        let (found, expected) = (value.type_name(), self.positions[at].1);
        match found == expected {
            true => Ok(()),
            false => self.refuse(format!("arg {} wrong type (is '{found}', expected '{expected}')", at + 1)),
        }
    }

    fn parse_positions(&self, mut arguments: Vec<Datum>) -> Result<Vec<Datum>, Complaint> {
        for at in 0..self.positions.len() {
            match arguments.get(at) {
                Some(value) => self.check_position(at, value)?,
                None => return self.refuse("too few arguments".to_owned()),
            }
        }
        if arguments.len() > self.positions.len() {
            return self.refuse("too many positional arguments".to_owned());
        }
        arguments.resize(self.positions.len() + self.keywords.len(), Datum::Nil);
        Ok(arguments)
    }

    fn parse_table(&self, mut entries: Vec<(Datum, Datum)>) -> Result<Vec<Datum>, Complaint> {
        let mut take = |key: Datum| {
            let at = entries.iter().position(|(found, _)| *found == key);
            at.map_or(Datum::Nil, |at| entries.remove(at).1)
        };
        let mut found = Vec::new();
        for at in 0..self.positions.len() {
            match take(Datum::Number(at as i64 + 1)) {
                Datum::Nil => return self.refuse("too few arguments".to_owned()),
                value => {
                    self.check_position(at, &value)?;
                    found.push(value);
                }
            }
        }
        for (name, expected) in self.keywords {
            let value = take(Datum::text(name));
            let kind = value.type_name();
            if value != Datum::Nil && kind != *expected {
                return self.refuse(format!("kwarg '{name}' wrong type (is '{kind}', expected '{expected}')"));
            }
            found.push(value);
        }
        match entries.first() {
            None => Ok(found),
            Some((Datum::Number(number), _)) if *number > 0 => self.refuse("too many positional arguments".to_owned()),
            Some((Datum::Text(name), _)) => self.refuse(format!("invalid kwarg '{}'", String::from_utf8_lossy(name))),
            Some((Datum::Number(name), _)) => self.refuse(format!("invalid kwarg '{name}'")),
            Some(_) => self.refuse("kwarg keys must be strings".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESTROY: Signature = Signature {
        name: "destroy",
        positions: &[("filesystem | snapshot", "string")],
        keywords: &[("defer", "boolean")],
    };

    fn refusal(arguments: Vec<Datum>) -> String {
        match DESTROY.parse(arguments) {
            Err(Complaint::Error(message)) => message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn arguments_are_named_in_refusals() {
        const USAGE: &str = "destroy{<filesystem | snapshot(string)>, defer=(boolean)}";
        let (foo, number) = (Datum::text("foo"), Datum::Number(12_345));
        let table = |entries: &[(Datum, Datum)]| vec![Datum::Table(entries.to_vec())];
        let (one, defer) = (Datum::Number(1), Datum::text("defer"));
        for (arguments, expected) in [
            (vec![], "too few arguments"),
            (vec![foo.clone(), foo.clone()], "too many positional arguments"),
            (vec![number.clone()], "arg 1 wrong type (is 'number', expected 'string')"),
            (table(&[(defer.clone(), Datum::Boolean(true))]), "too few arguments"),
            (
                table(&[(one.clone(), foo.clone()), (defer.clone(), number.clone())]),
                "kwarg 'defer' wrong type (is 'number', expected 'boolean')",
            ),
            (table(&[(one.clone(), foo.clone()), (foo.clone(), Datum::Boolean(true))]), "invalid kwarg 'foo'"),
            (table(&[(one.clone(), foo.clone()), (Datum::Number(2), number)]), "too many positional arguments"),
        ] {
            assert_eq!(refusal(arguments), format!("{expected}: {USAGE}"));
        }
        assert_eq!(DESTROY.parse(vec![foo.clone()]), Ok(vec![foo.clone(), Datum::Nil]));
        let given = table(&[(one, foo.clone()), (defer, Datum::Boolean(true))]);
        assert_eq!(DESTROY.parse(given), Ok(vec![foo, Datum::Boolean(true)]));
    }
}
