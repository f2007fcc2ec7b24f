//! Lua 5.2 as OpenZFS's channel programs have it: numbers are 64-bit integers, there is no
//! floating point, and nothing reads files or code.
//!
//! ```text
//!   source ── lex ── parse ─> code ── machine ─> result: a Datum, or what ended the program
//!                                       └ library, Host (functions that the caller provides)
//! ```
//!
//! A crate that binds Lua's own interpreter would have numbers of floating point: a guid would lose
//! its last digits on the way through a program.
//!
//! Invariants:
//!   * a program ends within its limits of instructions and memory, whatever it does
//!   * instructions and memory are the same for the same program and the same answers of the host
//!   * no input panics

mod code;
mod compile;
mod function;
mod heap;
mod host;
mod lex;
mod library;
mod machine;
mod number;
mod parse;
mod thread;
mod value;

pub use host::{Complaint, Datum, FunctionId, Host};

use lex::CHUNK;
use machine::{Machine, Trouble};
use value::{Native, Value};

/// How deeply tables of a result may be nested: ZCP_NVLIST_MAX_DEPTH.
const RESULT_DEPTH_MAX: usize = 20;

/// A program and what it may use.
#[derive(Debug, Clone)]
pub struct Program<'a> {
    pub source: &'a [u8],
    /// The value of `...`.
    pub argument: Datum,
    /// Global variables with their values. `a.b` is the field `b` of the global table `a`.
    pub globals: &'a [(&'a str, i64)],
    /// Global functions of the host, with names alike.
    pub functions: &'a [(&'a str, FunctionId)],
    /// The number of instructions after which it is ended.
    pub instruction_limit: u64,
    /// Bytes of memory.
    pub memory_limit: usize,
}

/// Why a program has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It cannot be compiled.
    Syntax(String),
    /// An error in the program. A value that is not a message has only the place.
    Error(String),
    /// It returned something that cannot leave it.
    Result(String),
    Memory,
    /// The message, and the number of instructions.
    TimedOut(String, u64),
    /// The host ended it.
    Cancelled(String),
}

/// Runs a program. `Ok(None)`: it returned nothing.
pub fn run(program: &Program<'_>, host: &mut dyn Host) -> Result<Option<Datum>, Failure> {
    let mut machine = Machine::new(host, program.memory_limit, program.instruction_limit);
    machine.open_libraries();
    for (name, number) in program.globals {
        machine.set_global(name, Value::Number(*number));
    }
    for (name, function) in program.functions {
        machine.set_global(name, Value::Native(Native::Host(*function)));
    }
    let code = parse::parse(program.source, &mut machine.heap).map_err(Failure::Syntax)?;
    let argument = machine.bring(program.argument.clone());
    if let Err(trouble) = machine.start(code, argument) {
        return Err(failure(&mut machine, trouble));
    }
    match machine.stack[..] {
        [] => Ok(None),
        [value] => leave(&machine, value, "return", 0).map(Some).map_err(Failure::Result),
        _ => Err(Failure::Result("Multiple return values not supported".to_owned())),
    }
}

fn failure(machine: &mut Machine<'_>, trouble: Trouble) -> Failure {
    let traceback = machine.traceback();
    let with = |message: &str| format!("{message}\n{traceback}");
    match trouble {
        Trouble::Memory => Failure::Memory,
        Trouble::TimedOut => Failure::TimedOut(with("Channel program timed out."), machine.executed),
        Trouble::Cancelled => Failure::Cancelled(with("Channel program was canceled.")),
        Trouble::Error(value) => Failure::Error(match machine.as_text(value) {
            Some(message) => with(&String::from_utf8_lossy(&message)),
            None => traceback,
        }),
    }
}

/// A value as it leaves the program. Facts: `zcp_lua_to_nvlist_impl`, `zcp_table_to_nvlist`.
fn leave(machine: &Machine<'_>, value: Value, key: &str, depth: usize) -> Result<Datum, String> {
    match value {
        Value::Nil => Ok(Datum::Nil),
        Value::Boolean(is_true) => Ok(Datum::Boolean(is_true)),
        Value::Number(number) => Ok(Datum::Number(number)),
        Value::String(id) => Ok(Datum::text(machine.heap.text(id))),
        Value::Table(id) => {
            let (mut entries, mut names) = (Vec::new(), std::collections::HashSet::new());
            for (key, value) in machine.heap.table(id).iter() {
                let name = match key {
                    Value::String(id) => machine.heap.text(id).to_vec(),
                    Value::Boolean(is_true) => is_true.to_string().into_bytes(),
                    Value::Number(number) => number.to_string().into_bytes(),
                    other => return Err(format!("Invalid key type '{}' in table", other.type_name())),
                };
                let shown = String::from_utf8_lossy(&name).into_owned();
                if !names.insert(name.clone()) {
                    return Err(format!("Collision of key '{shown}' in table"));
                }
                if depth >= RESULT_DEPTH_MAX {
                    return Err(format!("Maximum table depth ({RESULT_DEPTH_MAX}) exceeded for table"));
                }
                entries.push((Datum::Text(name), leave(machine, value, &shown, depth + 1)?));
            }
            Ok(Datum::Table(entries))
        }
        other => Err(format!("Invalid value type '{}' for key '{key}'", other.type_name())),
    }
}

/// The name by which messages of a program begin.
pub fn chunk_name() -> &'static str {
    CHUNK
}
