//! `zfs program`: a channel program, which looks at datasets and changes them in one txg.
//!
//! ```text
//!   run ── a thread: write::in_one_txg ── the syncing thread: lua::run ── library ─┬ changes: OneTxg
//!    └ waits, and cancels the program when its caller is gone                       └ properties, lists: its tree
//! ```
//! Invariants:
//!   * a program sees each of its changes at once, and no other changes datasets meanwhile
//!   * what it changed before an error, a limit or the end of its caller stays, as in OpenZFS
//!   * a panic of the interpreter ends the program only; one of the engine suspends the pool, as
//!     anywhere else
//!
//! Facts: module/zfs/zcp.c, zfs_do_channel_program.

mod arguments;
mod changes;
mod errno;
mod library;
mod lists;
mod properties;

use crate::state::Imported;
use crate::verbs::line::line;
use crate::verbs::{Invocation, Kind, Reason, Refusal};
use crate::write::WritablePool;
use crate::{kept_keys, mounts};
use dataset::property::get;
use dataset::write::{OneTxg, in_one_txg};
use dataset::{Datasets, View};
use library::{Event, Library};
use lua::{Compiled, Datum, Failure, Program};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The limits when none are given: ZCP_DEFAULT_INSTRLIMIT, ZCP_DEFAULT_MEMLIMIT.
pub const INSTRUCTIONS: u64 = 10_000_000;
pub const MEMORY_BYTES: u64 = 10 << 20;
/// The highest limits: ZCP_MAX_INSTRLIMIT, ZCP_MAX_MEMLIMIT.
const INSTRUCTIONS_MAX: u64 = 100_000_000;
const MEMORY_MAX_BYTES: u64 = 100 << 20;
/// From this limit on, zfs(8) has no room for the result, and reports that first.
const RESULT_MAX_BYTES: u64 = 1 << 47;
/// How often the caller is looked for. Guessed.
const LOOK: Duration = Duration::from_millis(100);

/// Which program to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramRequest {
    pub pool: String,
    /// The program.
    pub source: Vec<u8>,
    /// The name of its file.
    pub script: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Functions of `zfs.sync` are refused (`-n`).
    pub read_only: bool,
    pub instruction_limit: u64,
    pub memory_limit: u64,
}

/// How a program ended that has no result: what OpenZFS prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFailure {
    pub message: String,
    /// The number of instructions, if they were the reason.
    pub instructions: Option<u64>,
}

impl ProgramRequest {
    /// The request as a command line, for histories and logs.
    pub fn command_line(&self) -> String {
        let flags = [(self.read_only, "-n")];
        let operands = [&*self.pool, &*self.script].into_iter().chain(self.arguments.iter().map(String::as_str));
        line("zfs program", &flags, &[], operands)
    }
}

/// How a program ended.
type Ended = (Result<Option<Datum>, Failure>, Vec<Event>);

/// Runs a program. The inner result: what it returned, if anything, or how it failed.
pub fn run(
    invocation: &Invocation<'_>,
    request: &ProgramRequest,
) -> Result<Result<Option<Datum>, ProgramFailure>, Refusal> {
    let absent = || {
        let pool = &request.pool;
        Refusal::new(Kind::NotFound, format!("cannot open '{pool}': no such pool\ncannot open pool '{pool}'"))
    };
    let found = invocation.state.pool(&request.pool);
    let record = found.map_err(|e| Refusal::new(Kind::Failed, format!("{e:#}")))?.ok_or_else(absent)?;
    if let Some(message) = wrong_limit(request) {
        return Ok(Err(ProgramFailure { message: message.to_owned(), instructions: None }));
    }
    // Not in the syncing thread, since it may take long.
    let compiled = match lua::compile(&request.source, memory_limit(request)) {
        Ok(compiled) => compiled,
        Err(failure) => return Ok(Err(explain(failure))),
    };
    let mut failure = None;
    let result = invocation.change(&record, |pool| match run_on(invocation, request, compiled, &record, pool)? {
        Ok(result) => Ok(result),
        Err(error) => {
            failure = Some(error);
            // A program that failed is not in the history.
            Err(Reason::new(Kind::Failed, "the program failed"))
        }
    });
    match (result, failure) {
        (Ok(result), _) => Ok(Ok(result)),
        (Err(_), Some(failure)) => Ok(Err(failure)),
        (Err(reason), None) => Err(reason.refuse("Channel program execution failed")),
    }
}

fn memory_limit(request: &ProgramRequest) -> usize {
    usize::try_from(request.memory_limit).unwrap_or(usize::MAX)
}

fn wrong_limit(request: &ProgramRequest) -> Option<&'static str> {
    let (instructions, memory) = (request.instruction_limit, request.memory_limit);
    if memory >= RESULT_MAX_BYTES {
        return Some("Return value too large.");
    }
    let are_valid = (1..=INSTRUCTIONS_MAX).contains(&instructions) && (1..=MEMORY_MAX_BYTES).contains(&memory);
    (!are_valid).then_some("Invalid instruction or memory limit.")
}

fn run_on(
    invocation: &Invocation<'_>,
    request: &ProgramRequest,
    compiled: Compiled,
    record: &Imported,
    pool: &WritablePool,
) -> Result<Result<Option<Datum>, ProgramFailure>, Reason> {
    if !request.read_only {
        let mounted = invocation.mounts(record).map_or_else(Vec::new, |mounts| mounts.below(&record.name));
        let is_shown = |m: &mounts::Mounted, name: &str| {
            m.dataset == name || m.by_hand && mounts::is_at_or_below(name, &m.dataset)
        };
        let tree = pool.live.synced()?;
        pool.close_idle(&|name| mounted.iter().any(|m| is_shown(m, name)) || is_shared(&tree, name))?;
    }
    let is_cancelled = Arc::new(AtomicBool::new(false));
    let (done, waiting) = channel::<()>();
    let ended = std::thread::scope(|scope| {
        let (request, altroot, flag) = (request.clone(), record.altroot.clone(), is_cancelled.clone());
        let thread = scope.spawn(move || {
            let _done = done;
            let uses = pool.files().uses().clone();
            let is_used = Box::new(move |object| uses.has(object));
            in_one_txg(&pool.live, is_used, move |txg| interpret(&request, compiled, altroot.as_deref(), txg, &flag))
        });
        // The channel closes when the thread ends.
        while let Err(RecvTimeoutError::Timeout) = waiting.recv_timeout(LOOK) {
            if (invocation.is_gone)() {
                is_cancelled.store(true, Ordering::Relaxed);
            }
        }
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    let ((result, events), refreshed) = ended?;
    for event in &events {
        match event {
            Event::Destroyed(name) => kept_keys::forget_below(&invocation.state, record, name),
            Event::Root { before, now } => kept_keys::hand_on(&invocation.state, record, before, now),
        }
    }
    refreshed?;
    Ok(result.map_err(explain))
}

/// Whether NFS serves a file system, for which it need not be mounted.
fn is_shared(tree: &Arc<Datasets>, name: &str) -> bool {
    let share = tree.entry(name).and_then(|entry| get(&entry, "sharenfs", &View::default()));
    match share {
        Ok(Some(share)) => share.value.raw != "off",
        // Volumes have no such property.
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Runs in the syncing thread.
fn interpret(
    request: &ProgramRequest,
    compiled: Compiled,
    altroot: Option<&str>,
    txg: &OneTxg<'_>,
    is_cancelled: &AtomicBool,
) -> Ended {
    let arguments = Datum::array(request.arguments.iter().map(Datum::text));
    let program = Program {
        source: &request.source,
        argument: Datum::Table(vec![(Datum::text("argv"), arguments)]),
        globals: errno::GLOBALS,
        functions: library::FUNCTIONS,
        instruction_limit: request.instruction_limit,
        memory_limit: memory_limit(request),
    };
    let library = Library::new(txg, &request.pool, request.read_only, is_cancelled);
    let mut library = library.with_altroot(altroot);
    let result = catch_unwind(AssertUnwindSafe(|| lua::run_compiled(compiled, &program, &mut library)));
    let result = match result {
        Ok(result) => result,
        Err(panic) if library.is_in_engine() => resume_unwind(panic),
        Err(_) => Err(Failure::Error("the interpreter failed".to_owned())),
    };
    (result, library.into_events())
}

fn explain(failure: Failure) -> ProgramFailure {
    let (message, instructions) = match failure {
        Failure::Syntax(message) | Failure::Error(message) | Failure::Result(message) | Failure::Cancelled(message) => {
            (message, None)
        }
        Failure::Memory => ("Memory limit exhausted.".to_owned(), None),
        Failure::TimedOut(message, instructions) => (message, Some(instructions)),
    };
    ProgramFailure { message, instructions }
}
