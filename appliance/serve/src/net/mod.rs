//! What servers of several protocols share: the memory that clients hold, output that waits for its
//! client, and threads for requests that wait.

pub(crate) mod budget;
pub(crate) mod output;
pub(crate) mod sync;
pub(crate) mod waiting;
