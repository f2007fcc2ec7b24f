//! The verbs of zfs(8).

mod dependents;
pub mod destroy;
pub mod rollback;

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
