//! Atomic values at whose use a test can preempt a thread, as at the locks of
//! [`schedule`](super).
//!
//! Invariant: all accesses are sequentially consistent inside [`explore`](super::explore), whatever
//! the order that is given: a weaker order is not explored.

use super::EXPLORING;
pub use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::SeqCst;

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[doc = concat!("As `std::sync::atomic::", stringify!($name), "`.")]
        #[derive(Debug)]
        pub enum $name {
            Real(std::sync::atomic::$name),
            Explored(shuttle::sync::atomic::$name),
        }

        impl $name {
            pub fn new(value: $value) -> Self {
                match EXPLORING.get() {
                    true => Self::Explored(shuttle::sync::atomic::$name::new(value)),
                    false => Self::Real(std::sync::atomic::$name::new(value)),
                }
            }

            pub fn load(&self, order: Ordering) -> $value {
                match self {
                    Self::Real(value) => value.load(order),
                    Self::Explored(value) => value.load(SeqCst),
                }
            }

            pub fn store(&self, new: $value, order: Ordering) {
                match self {
                    Self::Real(value) => value.store(new, order),
                    Self::Explored(value) => value.store(new, SeqCst),
                }
            }

            pub fn swap(&self, new: $value, order: Ordering) -> $value {
                match self {
                    Self::Real(value) => value.swap(new, order),
                    Self::Explored(value) => value.swap(new, SeqCst),
                }
            }

            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                match self {
                    Self::Real(value) => value.compare_exchange(current, new, success, failure),
                    Self::Explored(value) => value.compare_exchange(current, new, SeqCst, SeqCst),
                }
            }

            pub fn get_mut(&mut self) -> &mut $value {
                match self {
                    Self::Real(value) => value.get_mut(),
                    Self::Explored(value) => value.get_mut(),
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(<$value>::default())
            }
        }
    };
}

macro_rules! counter {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            pub fn fetch_add(&self, more: $value, order: Ordering) -> $value {
                match self {
                    Self::Real(value) => value.fetch_add(more, order),
                    Self::Explored(value) => value.fetch_add(more, SeqCst),
                }
            }

            pub fn fetch_sub(&self, less: $value, order: Ordering) -> $value {
                match self {
                    Self::Real(value) => value.fetch_sub(less, order),
                    Self::Explored(value) => value.fetch_sub(less, SeqCst),
                }
            }
        }
    };
}

atomic!(AtomicBool, bool);
counter!(AtomicU8, u8);
counter!(AtomicUsize, usize);
