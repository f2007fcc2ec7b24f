//! `zfs program`: what [`admin::verbs::zfs::program`] does, in OpenZFS's words.
//!
//! Facts: zfs_do_channel_program, dump_nvlist, nvlist_print_json.

use crate::context::{Context, Failure, Outcome};
use crate::getopt::{ArgKind, flag, value};
use crate::verb::{Call, Verb, for_owner};
use admin::verbs::zfs::program::{self, INSTRUCTIONS, MEMORY_BYTES, ProgramRequest};
use lua::Datum;
use std::io::Read;
use std::path::Path;

/// The row of `zfs program`.
pub static VERB: Verb = for_owner("program", "Run a Lua program that changes datasets atomically", run)
    .usage(&["[-jn] [-t <instruction limit>] [-m <memory limit (b)>] <pool> <program file> [lua args...]"])
    .options(&[
        flag('n', "Only look at datasets: the functions that change them are missing."),
        value('t', "instructions", ArgKind::Text, "End the program after this many Lua instructions."),
        value('m', "bytes", ArgKind::Text, "End the program when it uses this much memory."),
        flag('j', "Print the result as JSON.").long("json"),
    ])
    .operands(&[ArgKind::Pool, ArgKind::File, ArgKind::Text])
    .history("zfs program")
    .examples(&[("zfs program tank prune.lua tank/home 7", "Run prune.lua with two arguments.")]);

/// The longest program. Guessed: the longest list that OpenZFS's kernel takes.
const SOURCE_MAX_BYTES: u64 = 16 << 20;
const FAILED: &str = "Channel program execution failed";

/// `zfs program`.
pub fn run(cx: &mut Context<'_>, call: &Call) -> Outcome {
    let parsed = &call.parsed;
    let limit = |letter: char, default: u64| match parsed.last(letter) {
        None => Ok(default),
        Some(text) => {
            number(text).ok_or_else(|| Failure::usage(format!("invalid argument '{text}': expected integer")))
        }
    };
    let (instruction_limit, memory_limit) = (limit('t', INSTRUCTIONS)?, limit('m', MEMORY_BYTES)?);
    let [pool, script, arguments @ ..] = parsed.operands.as_slice() else {
        return Err(Failure::usage("invalid number of arguments"));
    };
    let request = ProgramRequest {
        pool: pool.clone(),
        source: read(cx, script)?,
        script: script.clone(),
        arguments: arguments.to_vec(),
        read_only: parsed.has('n'),
        instruction_limit,
        memory_limit,
    };
    let result = match program::run(&cx.invocation(call.history()), &request)? {
        Ok(result) => result,
        Err(failure) => {
            cx.complain(&format!("{FAILED}:\n{}", failure.message));
            if let Some(instructions) = failure.instructions {
                cx.complain(&format!("{instructions} Lua instructions"));
            }
            return Err(Failure::Code(1));
        }
    };
    let list: Vec<(Datum, Datum)> = result.into_iter().map(|value| (Datum::text("return"), value)).collect();
    let mut text = Vec::new();
    if parsed.has('j') {
        print_json(&list, &mut text);
    } else if list.is_empty() {
        text.extend_from_slice(b"Channel program fully executed and did not produce output.\n");
    } else {
        text.extend_from_slice(b"Channel program fully executed and produced output:\n");
        print_list(&list, 4, &mut text);
    }
    // A closed reader is no error.
    let _ = cx.out.write_all(&text);
    Ok(0)
}

/// A number as strtoull reads it: decimal, `0x…`, or octal with a leading zero.
fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (digits, base) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = u64::from_str_radix(digits, base).ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

fn read(cx: &Context<'_>, script: &str) -> Result<Vec<u8>, Failure> {
    let why = |verb: &str, name: &str, error: &std::io::Error| {
        Failure::failed(format!("cannot {verb} '{name}': {}", admin::mounts::text(error)))
    };
    let (name, from): (_, Box<dyn Read + '_>) = match script {
        "-" => ("standard input", cx.client.input().map_err(|e| why("read", "standard input", &e))?),
        path => {
            let opened = cx.client.absolute(Path::new(path)).and_then(std::fs::File::open);
            (path, Box::new(opened.map_err(|e| why("open", path, &e))?))
        }
    };
    let mut source = Vec::new();
    from.take(SOURCE_MAX_BYTES + 1).read_to_end(&mut source).map_err(|e| why("read", name, &e))?;
    if source.len() as u64 > SOURCE_MAX_BYTES {
        return Err(Failure::failed(format!("cannot read '{name}': File too large")));
    }
    // In OpenZFS a program is a C string.
    source.truncate(source.iter().position(|byte| *byte == 0).unwrap_or(source.len()));
    Ok(source)
}

fn name(key: &Datum) -> &[u8] {
    match key {
        Datum::Text(name) => name,
        _ => &[],
    }
}

fn print_list(list: &[(Datum, Datum)], indent: usize, out: &mut Vec<u8>) {
    for (key, value) in list {
        out.extend(std::iter::repeat_n(b' ', indent));
        out.extend_from_slice(name(key));
        match value {
            Datum::Boolean(is_true) => out.extend_from_slice(format!(": {is_true}").as_bytes()),
            Datum::Number(number) => out.extend_from_slice(format!(": {number}").as_bytes()),
            Datum::Text(text) => {
                out.extend_from_slice(b": '");
                out.extend_from_slice(text);
                out.push(b'\'');
            }
            Datum::Table(_) => out.push(b':'),
            Datum::Nil | Datum::Rows(_) | Datum::Other(_) => {}
        }
        out.push(b'\n');
        if let Datum::Table(inner) = value {
            print_list(inner, indent + 4, out);
        }
    }
}

fn print_json(list: &[(Datum, Datum)], out: &mut Vec<u8>) {
    out.push(b'{');
    for (at, (key, value)) in list.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        print_json_text(name(key), out);
        out.push(b':');
        match value {
            Datum::Boolean(is_true) => out.extend_from_slice(is_true.to_string().as_bytes()),
            Datum::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Datum::Text(text) => print_json_text(text, out),
            Datum::Table(inner) => print_json(inner, out),
            Datum::Nil | Datum::Rows(_) | Datum::Other(_) => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
}

fn print_json_text(text: &[u8], out: &mut Vec<u8>) {
    let text = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_strtoull_reads_them() {
        for (text, value) in [
            ("100", Some(100)),
            ("0x10", Some(16)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("-1", Some(u64::MAX)),
            ("9223372036854775808", Some(1 << 63)),
            ("18446744073709551616", None),
            ("1k", None),
            ("+-1", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }

    #[test]
    fn results_are_printed_as_lists_and_as_json() {
        let inner = vec![(Datum::text("1"), Datum::Boolean(true)), (Datum::text("x"), Datum::text("a\"b"))];
        let list = vec![(Datum::text("return"), Datum::Table(inner)), (Datum::text("none"), Datum::Nil)];
        let (mut text, mut json) = (Vec::new(), Vec::new());
        print_list(&list, 4, &mut text);
        print_json(&list, &mut json);
        assert_eq!(String::from_utf8_lossy(&text), "    return:\n        1: true\n        x: 'a\"b'\n    none\n");
        assert_eq!(String::from_utf8_lossy(&json), r#"{"return":{"1":true,"x":"a\"b"},"none":null}"#);
    }
}
