//! Logs the I/O errors of a mount, each once: the kernel asks for a broken page many times.

use files::vfs::NodeId;
use parking_lot::Mutex;

pub(super) struct ErrorLog {
    /// Name in log messages: POOL/DATASET.
    label: String,
    /// The node and message logged last.
    last: Mutex<(NodeId, String)>,
}

impl ErrorLog {
    pub fn new(label: String) -> Self {
        Self { label, last: Mutex::new((NodeId(0), String::new())) }
    }

    /// Logs `message` about `node`, whose path is `path`, unless it was the last one.
    pub fn report(&self, node: NodeId, message: String, path: impl FnOnce() -> String) {
        let mut last = self.last.lock();
        if last.0 != node || last.1 != message {
            let path = path();
            tracing::error!(file_system = %self.label, %path, %message, "failed");
            *last = (node, message);
        }
    }
}
