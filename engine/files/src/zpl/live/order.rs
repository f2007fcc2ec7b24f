//! Asserts the order of transactions and locks that the parent module describes: each thread knows
//! whether it is in a transaction, and whether it holds the lock of a node.

use std::cell::Cell;

thread_local! {
    /// Whether this thread holds a lock of nodes: for reading, or for a change.
    static HOLDS_NODES: Cell<bool> = const { Cell::new(false) };
    /// Whether this thread runs an operation in a transaction.
    static IN_TRANSACTION: Cell<bool> = const { Cell::new(false) };
}

/// Asserts that the calling thread holds no lock of a node, before it does something that may wait
/// for a thread that needs one.
pub(in crate::zpl) fn assert_unlocked(what: &str) {
    // A second panic would end the process.
    let is_held = HOLDS_NODES.get() && !std::thread::panicking();
    assert!(!is_held, "{what} while the thread holds the lock of a file");
}

/// Sets a flag of the calling thread until it is dropped.
struct Flagged(&'static std::thread::LocalKey<Cell<bool>>);

impl Drop for Flagged {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The calling thread begins a transaction, and has none once this is dropped.
pub(in crate::zpl) struct InTransaction {
    _flag: Flagged,
}

impl InTransaction {
    pub fn begin() -> Self {
        assert_unlocked("a transaction begins");
        let is_nested = IN_TRANSACTION.replace(true) && !std::thread::panicking();
        assert!(!is_nested, "a transaction begins within another one");
        Self { _flag: Flagged(&IN_TRANSACTION) }
    }
}

/// The lock of one node for reading, or of all nodes of a change.
pub(super) struct HoldsNodes {
    _flag: Flagged,
}

impl HoldsNodes {
    pub fn begin(what: &str) -> Self {
        assert_unlocked(what);
        HOLDS_NODES.set(true);
        Self { _flag: Flagged(&HOLDS_NODES) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_and_transactions_may_follow_each_other() {
        for _ in 0..2 {
            let transaction = InTransaction::begin();
            drop(HoldsNodes::begin("a file is locked"));
            drop(HoldsNodes::begin("a file is locked"));
            drop(transaction);
            assert_unlocked("nothing happens");
        }
    }

    #[test]
    #[should_panic(expected = "a second file is locked while the thread holds the lock of a file")]
    fn a_file_that_is_locked_while_another_one_is_panics() {
        let _first = HoldsNodes::begin("a first file is locked");
        HoldsNodes::begin("a second file is locked");
    }

    #[test]
    #[should_panic(expected = "a transaction begins while the thread holds the lock of a file")]
    fn a_transaction_that_begins_while_a_file_is_locked_panics() {
        let _file = HoldsNodes::begin("a file is locked");
        InTransaction::begin();
    }

    #[test]
    #[should_panic(expected = "a transaction begins within another one")]
    fn a_transaction_within_another_one_panics() {
        let _outer = InTransaction::begin();
        InTransaction::begin();
    }

    #[test]
    fn a_thread_that_panicked_holds_nothing() {
        let panicking = || {
            let (_transaction, _file) = (InTransaction::begin(), HoldsNodes::begin("a file is locked"));
            panic!("in the middle of an operation");
        };
        assert!(std::panic::catch_unwind(panicking).is_err());
        drop(InTransaction::begin());
    }
}
