//! The coroutine library.

use crate::machine::{Arguments, Machine, Returned, Run};
use crate::thread::{Status, Thread};
use crate::value::{BoundId, Native, ThreadId, Value};

impl Machine<'_> {
    fn thread_argument(&mut self, args: Arguments) -> Run<ThreadId> {
        match self.argument(args, 0) {
            Value::Thread(id) => Ok(id),
            _ => self.bad_argument(1, "coroutine expected"),
        }
    }

    fn new_coroutine(&mut self, args: Arguments) -> Run<Value> {
        let body = self.argument(args, 0);
        if !matches!(body, Value::Closure(_) | Value::Native(_) | Value::Bound(_)) {
            return self.type_error(args, 0, "function");
        }
        let thread = Thread { stack: vec![body], ..Thread::default() };
        Ok(Value::Thread(self.heap.new_thread(thread)))
    }

    pub(super) fn co_create(&mut self, args: Arguments) -> Run<usize> {
        let thread = self.new_coroutine(args)?;
        Ok(self.push(thread))
    }

    pub(super) fn co_wrap(&mut self, args: Arguments) -> Run<usize> {
        let thread = self.new_coroutine(args)?;
        let function = self.heap.new_bound(Native::CoWrapped, vec![thread]);
        Ok(self.push(function))
    }

    /// Why a coroutine cannot be resumed.
    fn obstacle(&self, thread: ThreadId) -> Option<String> {
        match self.status(thread) {
            "suspended" if self.is_deepest() => Some("C stack overflow".to_owned()),
            "suspended" => None,
            "dead" => Some("cannot resume dead coroutine".to_owned()),
            _ => Some("cannot resume non-suspended coroutine".to_owned()),
        }
    }

    pub(super) fn co_resume(&mut self, args: Arguments) -> Run<Returned> {
        let thread = self.thread_argument(args)?;
        if let Some(why) = self.obstacle(thread) {
            self.push(Value::Boolean(false));
            self.push_text(why);
            return Ok(Returned::Values(2));
        }
        self.resume(thread, args.base + 1)
    }

    pub(super) fn co_wrapped(&mut self, bound: Option<BoundId>, args: Arguments) -> Run<Returned> {
        let Some(Value::Thread(thread)) = bound.and_then(|bound| self.heap.bound(bound).values.first().copied()) else {
            return Ok(Returned::Values(0));
        };
        match self.obstacle(thread) {
            Some(why) => self.error(why),
            None => self.resume(thread, args.base),
        }
    }

    fn status(&self, thread: ThreadId) -> &'static str {
        match self.heap.thread(thread).status {
            Status::Suspended => "suspended",
            Status::Running => "running",
            Status::Normal => "normal",
            Status::Dead => "dead",
        }
    }

    pub(super) fn co_status(&mut self, args: Arguments) -> Run<usize> {
        let thread = self.thread_argument(args)?;
        let status = self.status(thread);
        Ok(self.push_text(status))
    }

    pub(super) fn co_running(&mut self) -> usize {
        self.push(Value::Thread(self.current));
        self.push(Value::Boolean(self.current == self.main)) + 1
    }
}
