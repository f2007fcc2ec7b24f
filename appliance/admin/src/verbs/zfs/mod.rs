//! The verbs of zfs(8).

pub mod bookmark;
pub mod create;
mod dependents;
pub mod destroy;
pub mod hold;
pub mod inherit;
pub mod keys;
pub mod promote;
pub mod rename;
pub mod rollback;
pub mod set;
pub mod snapshot;

/// A command line of `zfs`: flags that are given, options with their arguments, operands.
fn line(verb: &str, flags: &[(bool, &str)], options: &[(&str, String)], operands: &[&str]) -> String {
    let mut line = format!("zfs {verb}");
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

/// Properties as options of a command line.
fn assignments(properties: &[(String, String)]) -> Vec<(&'static str, String)> {
    properties.iter().map(|(name, value)| ("-o", format!("{name}={value}"))).collect()
}
