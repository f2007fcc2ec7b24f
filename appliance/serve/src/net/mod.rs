//! What servers of several protocols share: the memory that clients hold, and output that waits for
//! its client.

pub(crate) mod budget;
pub(crate) mod output;
