//! How the machine switches between coroutines.

use crate::code::ALL;
use crate::machine::{LEVELS_MAX, Machine, Returned, Run, Trouble};
use crate::thread::{After, Status};
use crate::value::{Native, ThreadId, Value};

impl Machine<'_> {
    /// Whether coroutines wait for each other too deeply for another one.
    pub(crate) fn is_deepest(&self) -> bool {
        self.levels + 1 >= LEVELS_MAX
    }

    /// Continues a suspended coroutine with the values from `first` on.
    pub(crate) fn resume(&mut self, thread: ThreadId, first: usize) -> Run<Returned> {
        self.levels += 1;
        let values = self.stack.split_off(first);
        self.park();
        self.heap.thread_mut(self.current).status = Status::Normal;
        let resumer = std::mem::replace(&mut self.current, thread);
        self.unpark();
        let state = self.heap.thread_mut(thread);
        (state.status, state.resumer) = (Status::Running, Some(resumer));
        let first = self.stack.len();
        self.stack.extend(values);
        match self.frames.pop() {
            // It waits in `yield`, which returns the values.
            Some(frame) => self.supply(frame.at, first, frame.after),
            None => self.call(0, After::Results(ALL))?,
        }
        // A library function as the body of a coroutine has ended.
        if self.frames.is_empty() && self.current == thread {
            self.end_thread(0)?;
        }
        Ok(Returned::Switched)
    }

    /// Suspends the running coroutine, and hands the values from `first` on to its resumer.
    pub(crate) fn suspend(&mut self, first: usize) -> Run<Returned> {
        if self.current == self.main {
            return self.error("attempt to yield from outside a coroutine");
        }
        if self.nested > 0 {
            return self.error("attempt to yield across a C-call boundary");
        }
        self.return_to_resumer(first, Status::Suspended)?;
        Ok(Returned::Switched)
    }

    pub(crate) fn end_thread(&mut self, first: usize) -> Run<()> {
        self.return_to_resumer(first, Status::Dead)
    }

    fn return_to_resumer(&mut self, first: usize, status: Status) -> Run<()> {
        let values = self.stack.split_off(first);
        self.switch_back(status);
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        let first = self.stack.len();
        if frame.function == Value::Native(Native::CoResume) {
            self.stack.push(Value::Boolean(true));
        }
        self.stack.extend(values);
        self.supply(frame.at, first, frame.after);
        // The resumer may have been called by a library function of a third one.
        if self.frames.is_empty() && self.current != self.main { self.end_thread(0) } else { Ok(()) }
    }

    fn switch_back(&mut self, status: Status) {
        self.levels -= 1;
        self.park();
        let thread = self.heap.thread_mut(self.current);
        thread.status = status;
        if status == Status::Dead {
            (thread.stack, thread.frames) = (Vec::new(), Vec::new());
            let charged = std::mem::take(&mut thread.charged_bytes);
            self.heap.discharge(charged);
        }
        let resumer = self.heap.thread_mut(self.current).resumer.take();
        self.current = resumer.unwrap_or(self.main);
        self.unpark();
        self.heap.thread_mut(self.current).status = Status::Running;
    }

    /// The running coroutine ends with an error: `resume` returns it, a wrapped coroutine passes it
    /// on.
    pub(crate) fn end_thread_with(&mut self, mut value: Value, home: ThreadId) -> Run<()> {
        loop {
            self.close(0);
            self.switch_back(Status::Dead);
            let Some(frame) = self.frames.last().copied() else { return Err(Trouble::Error(value)) };
            if frame.function == Value::Native(Native::CoResume) {
                self.frames.pop();
                let first = self.stack.len();
                self.stack.extend([Value::Boolean(false), value]);
                self.supply(frame.at, first, frame.after);
                let is_body = self.frames.is_empty() && self.current != self.main;
                return if is_body { self.end_thread(0) } else { Ok(()) };
            }
            if let Some(text) = self.as_text(value) {
                let text = [self.place(1).as_bytes(), &text].concat();
                value = self.text(text);
            }
            if self.current == home {
                return Err(Trouble::Error(value));
            }
        }
    }
}
