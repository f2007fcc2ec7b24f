//! Memory that a server holds for its clients, shared so that no client can take it from the
//! others.
//!
//! ```text
//!   Budget ─ Account (all connections of a client) ─┬ charged: what came or waits to be sent
//!                                                   └ Reservation: for what is about to be made
//! ```
//! A client is given more only while it holds less than what remains free for all others. One that
//! never takes its answers thus stops at half of the memory, two at a third each, and there is
//! always some for the next one.
//!
//! Invariants:
//!   * what is reserved leaves as much free as the client holds with it, unless the client held
//!     nothing
//!   * a client that holds nothing gets memory as long as there is any

use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// See the module documentation.
pub(crate) struct Budget {
    max: usize,
    used: Arc<AtomicUsize>,
    accounts: Mutex<HashMap<Client, Weak<Account>>>,
    /// Threads that wait for memory sleep here.
    released: (Mutex<()>, Condvar),
    /// Number of threads that sleep in [`Account::reserve`].
    waiting: AtomicUsize,
}

/// Whose connections share an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Client {
    /// All from one network.
    Network(IpAddr),
    /// A connection from this host, with its number: its users trust each other, and one that is
    /// stopped must not delay the others.
    Local(u64),
}

/// What one client holds.
pub(crate) struct Account {
    budget: Arc<Budget>,
    client: Client,
    used: AtomicUsize,
}

/// Reserved memory, until it is dropped.
pub(crate) struct Reservation {
    account: Arc<Account>,
    bytes: usize,
}

impl Budget {
    /// A budget of `max` bytes; `used` exposes the bytes in use.
    pub fn new(max: usize, used: Arc<AtomicUsize>) -> Arc<Self> {
        let (accounts, released) = Default::default();
        Arc::new(Self { max, used, accounts, released, waiting: AtomicUsize::new(0) })
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    /// The account of a client, which exists as long as it is used.
    pub fn account(self: &Arc<Self>, client: Client) -> Arc<Account> {
        let mut accounts = self.accounts.lock();
        if let Some(known) = accounts.get(&client).and_then(Weak::upgrade) {
            return known;
        }
        let new = Arc::new(Account { budget: self.clone(), client, used: AtomicUsize::new(0) });
        accounts.insert(client, Arc::downgrade(&new));
        new
    }

    /// Whether a thread waits for memory.
    pub fn is_short(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    fn has_room(&self, held: usize, bytes: usize) -> bool {
        let used = self.used();
        match held {
            // The first one fits however little there is.
            0 => used == 0 || used.saturating_add(bytes) <= self.max,
            _ => held.saturating_add(bytes) <= self.max.saturating_sub(used.saturating_add(bytes)),
        }
    }
}

impl Account {
    pub fn client(&self) -> Client {
        self.client
    }

    /// Whether `bytes` bytes could be reserved now.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.budget.has_room(self.used.load(Ordering::SeqCst), bytes)
    }

    /// Adds memory that is in use already, even if there is no room for it.
    pub fn charge(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
        self.budget.used.fetch_add(bytes, Ordering::SeqCst);
    }

    pub fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.budget.used.fetch_sub(bytes, Ordering::SeqCst);
        if self.budget.is_short() {
            // A thread that has just found no room waits by now.
            drop(self.budget.released.0.lock());
            self.budget.released.1.notify_all();
        }
    }

    /// Reserves `bytes` bytes if there is room.
    pub fn try_reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let fits = |held: usize| self.budget.has_room(held, bytes).then(|| held.saturating_add(bytes));
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).ok()?;
        self.budget.used.fetch_add(bytes, Ordering::SeqCst);
        Some(Reservation { account: self.clone(), bytes })
    }

    /// Reserves `bytes` bytes. Waits until there is room.
    pub fn reserve(self: &Arc<Self>, bytes: usize) -> Reservation {
        if let Some(reserved) = self.try_reserve(bytes) {
            return reserved;
        }
        let budget = &self.budget;
        let mut released = budget.released.0.lock();
        budget.waiting.fetch_add(1, Ordering::SeqCst);
        loop {
            if let Some(reserved) = self.try_reserve(bytes) {
                budget.waiting.fetch_sub(1, Ordering::SeqCst);
                return reserved;
            }
            budget.released.1.wait(&mut released);
        }
    }
}

impl Reservation {
    /// Adds what `other` has reserved from the same account.
    pub fn absorb(&mut self, mut other: Reservation) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account), "one client");
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut accounts = self.budget.accounts.lock();
        // The client may have got another account by now.
        if accounts.get(&self.client).is_some_and(|known| known.strong_count() == 0) {
            accounts.remove(&self.client);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(max: usize) -> Arc<Budget> {
        Budget::new(max, Arc::default())
    }

    fn client(n: u8) -> Client {
        Client::Network([10, 0, 0, n].into())
    }

    /// Reserves units of one byte until there is no room.
    fn fill(account: &Arc<Account>) -> Vec<Reservation> {
        std::iter::from_fn(|| account.try_reserve(1)).collect()
    }

    #[test]
    fn clients_that_return_nothing_leave_memory_for_the_next_one() {
        let budget = budget(1200);
        let accounts: Vec<_> = (0..6).map(|n| budget.account(client(n))).collect();
        let held: Vec<_> = accounts.iter().map(fill).collect();
        // Each one takes half of what the ones before it left.
        assert_eq!(held.iter().map(Vec::len).collect::<Vec<_>>(), [600, 300, 150, 75, 37, 19]);
        drop(held);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn all_connections_of_a_client_have_one_account() {
        let budget = budget(100);
        let first = budget.account(client(1));
        let held = fill(&first);
        assert!(!budget.account(client(1)).has_room(1));
        assert!(budget.account(client(2)).has_room(50));
        assert!(!budget.account(client(2)).has_room(51));
        drop((first, held));
        assert!(budget.account(client(1)).has_room(50));
        assert_eq!(budget.accounts.lock().len(), 0, "accounts without users are removed");
    }

    #[test]
    fn a_first_request_is_granted_even_if_it_is_larger_than_the_budget() {
        let budget = budget(10);
        let (a, b) = (budget.account(client(1)), budget.account(client(2)));
        let first = a.try_reserve(11);
        assert!(first.is_some() && a.try_reserve(1).is_none() && b.try_reserve(1).is_none());
        drop(first);
        assert!(b.try_reserve(10).is_some());
    }

    #[test]
    fn a_thread_waits_until_its_own_client_releases_memory_and_others_do_not() {
        let budget = budget(100);
        let (greedy, other) = (budget.account(client(1)), budget.account(client(2)));
        let mut held = fill(&greedy);
        let waits = std::thread::spawn({
            let greedy = greedy.clone();
            move || drop(greedy.reserve(10))
        });
        while !budget.is_short() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(other.reserve(50));
        assert!(!waits.is_finished());
        held.truncate(40);
        waits.join().expect("it got its memory");
        assert!(!budget.is_short());
    }

    proptest! {
        #[test]
        fn one_client_never_reserves_more_than_half(sizes in prop::collection::vec(1usize..400, 1..50)) {
            let budget = budget(1000);
            let account = budget.account(client(1));
            let held: Vec<_> = sizes.iter().filter_map(|n| account.try_reserve(*n)).collect();
            prop_assert!(!held.is_empty() && budget.used() <= 500);
            prop_assert!(budget.account(client(2)).has_room(500));
        }
    }
}
