//! Requests as command lines, for histories, audit logs and events.

/// A command line: flags that are given, options with their arguments, operands.
pub fn line<'a>(
    verb: &str,
    flags: &[(bool, &str)],
    options: &[(&str, String)],
    operands: impl IntoIterator<Item = &'a str>,
) -> String {
    let mut line = verb.to_owned();
    for (_, flag) in flags.iter().filter(|(given, _)| *given) {
        line += &format!(" {flag}");
    }
    for (option, argument) in options {
        line += &format!(" {option} {argument}");
    }
    for operand in operands {
        line += &format!(" {operand}");
    }
    line
}

/// Properties as arguments of an option.
pub fn assignments<'a>(option: &'a str, properties: &[(String, String)]) -> Vec<(&'a str, String)> {
    properties.iter().map(|(name, value)| (option, format!("{name}={value}"))).collect()
}
