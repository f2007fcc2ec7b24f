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
mod failure;
mod function;
mod heap;
mod host;
mod lex;
mod library;
mod machine;
mod number;
mod parse;
mod switch;
mod thread;
mod value;

pub use failure::Failure;
pub use host::{Complaint, Datum, FunctionId, Host};

use code::Prototype;
use heap::Heap;
use lex::CHUNK;
use machine::{Machine, Trouble};
use value::{Native, Value};

/// How deeply tables of a result may be nested: ZCP_NVLIST_MAX_DEPTH.
const RESULT_DEPTH_MAX: usize = 20;

/// What an entry of a result takes besides its name: an nvpair's header and value.
const RESULT_ENTRY_BYTES: usize = 40;
/// What zfs(8) says about a result that is larger than the limit of memory.
const RESULT_TOO_LARGE: &str = "Return value too large.";
/// Entries of a result between two questions to the host. Guessed.
const ENTRIES_A_LOOK: u64 = 4096;

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

/// A program that was compiled, with its texts in memory.
pub struct Compiled {
    code: Prototype,
    heap: Heap,
}

/// Compiles a program within its limit of memory. It takes time that grows with the source.
pub fn compile(source: &[u8], memory_limit: usize) -> Result<Compiled, Failure> {
    let mut heap = Heap::new(memory_limit);
    let code = parse::parse(source, &mut heap)?;
    Ok(Compiled { code, heap })
}

/// Compiles and runs a program. `Ok(None)`: it returned nothing.
pub fn run(program: &Program<'_>, host: &mut dyn Host) -> Result<Option<Datum>, Failure> {
    run_compiled(compile(program.source, program.memory_limit)?, program, host)
}

/// The same, after [`compile`].
pub fn run_compiled(compiled: Compiled, program: &Program<'_>, host: &mut dyn Host) -> Result<Option<Datum>, Failure> {
    let mut machine = Machine::new(host, compiled.heap, program.instruction_limit);
    machine.open_libraries();
    for (name, number) in program.globals {
        machine.set_global(name, Value::Number(*number));
    }
    for (name, function) in program.functions {
        machine.set_global(name, Value::Native(Native::Host(*function)));
    }
    let argument = machine.bring(program.argument.clone());
    if let Err(trouble) = machine.start(compiled.code, argument) {
        return Err(failure(&mut machine, trouble));
    }
    match machine.stack[..] {
        [] => Ok(None),
        [value] => {
            let mut room = Room { bytes: program.memory_limit, entries: 0 };
            match leave(&mut machine, value, "return", 0, &mut room) {
                Ok(result) => Ok(Some(result)),
                Err(Stays::Because(message)) => Err(Failure::Result(message)),
                Err(Stays::Cancelled) => Err(failure(&mut machine, Trouble::Cancelled)),
            }
        }
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

/// Why a value cannot leave the program.
enum Stays {
    Because(String),
    Cancelled,
}

/// What is left for the result. A table counts as often as it occurs.
struct Room {
    bytes: usize,
    entries: u64,
}

impl Room {
    fn take(&mut self, machine: &mut Machine<'_>, bytes: usize) -> Result<(), Stays> {
        let too_large = || Stays::Because(RESULT_TOO_LARGE.to_owned());
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_large)?;
        self.entries += 1;
        match self.entries.is_multiple_of(ENTRIES_A_LOOK) && machine.host.is_cancelled() {
            true => Err(Stays::Cancelled),
            false => Ok(()),
        }
    }
}

/// A value as it leaves the program. Facts: `zcp_lua_to_nvlist_impl`, `zcp_table_to_nvlist`; the
/// limit of memory is that of the result, as in `lzc_channel_program`.
fn leave(machine: &mut Machine<'_>, value: Value, key: &str, depth: usize, room: &mut Room) -> Result<Datum, Stays> {
    match value {
        Value::Nil => Ok(Datum::Nil),
        Value::Boolean(is_true) => Ok(Datum::Boolean(is_true)),
        Value::Number(number) => Ok(Datum::Number(number)),
        Value::String(id) => {
            let text = machine.heap.text(id).clone();
            room.take(machine, text.len())?;
            Ok(Datum::text(text))
        }
        Value::Table(id) => {
            let (mut entries, mut names) = (Vec::new(), std::collections::HashSet::new());
            let mut last = Value::Nil;
            while let Ok(Some((key, value))) = machine.heap.table(id).next(last) {
                last = key;
                let name = match key {
                    Value::String(id) => machine.heap.text(id).to_vec(),
                    Value::Boolean(is_true) => is_true.to_string().into_bytes(),
                    Value::Number(number) => number.to_string().into_bytes(),
                    other => return Err(Stays::Because(format!("Invalid key type '{}' in table", other.type_name()))),
                };
                room.take(machine, RESULT_ENTRY_BYTES + name.len())?;
                let shown = String::from_utf8_lossy(&name).into_owned();
                if !names.insert(name.clone()) {
                    return Err(Stays::Because(format!("Collision of key '{shown}' in table")));
                }
                if depth >= RESULT_DEPTH_MAX {
                    let message = format!("Maximum table depth ({RESULT_DEPTH_MAX}) exceeded for table");
                    return Err(Stays::Because(message));
                }
                entries.push((Datum::Text(name), leave(machine, value, &shown, depth + 1, room)?));
            }
            Ok(Datum::Table(entries))
        }
        other => Err(Stays::Because(format!("Invalid value type '{}' for key '{key}'", other.type_name()))),
    }
}

/// The name by which messages of a program begin.
pub fn chunk_name() -> &'static str {
    CHUNK
}
