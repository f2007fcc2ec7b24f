//! Options of copying.

/// What to copy, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directories too, with their contents.
    pub recursive: bool,
    /// Keep the verified parts of a damaged file.
    pub best_effort: bool,
    /// Set owner and group of the copies (only root may).
    pub owner: bool,
    /// Number of threads that read and write contents.
    pub workers: usize,
}

impl Default for Options {
    /// At least two workers: one writes while the other reads.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let owner = rustix::process::geteuid().is_root();
        Self { recursive: false, best_effort: false, owner, workers: cores.clamp(2, 8) }
    }
}
