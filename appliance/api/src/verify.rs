//! The results of verifying a pool.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Overall result of a verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is readable and correct.
    Clean,
    /// All data is readable, but copies, parity, devices, space maps or accounting have errors.
    Damaged,
    /// Some data cannot be read from any copy.
    Lost,
}

/// Result of a verification, which reads all copies and all parity of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// Overall result.
    pub verdict: Verdict,
    /// Transaction group whose state was verified.
    pub txg: u64,
    /// Number of blocks read.
    pub blocks: u64,
    /// Bytes read from devices, every copy once.
    pub bytes: u64,
    /// Number of blocks with damaged copies that can still be read.
    pub damaged_blocks: u64,
    /// Number of blocks that cannot be read from any copy.
    pub lost_blocks: u64,
    /// Damaged files and other objects. At most 1,000.
    pub files: Vec<DamagedFile>,
    /// Devices on which errors were found or that are unavailable.
    pub devices: Vec<DamagedDevice>,
    /// Other findings, one sentence each.
    pub notes: Vec<String>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// A file or another object that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedFile {
    /// Name of the dataset or snapshot; `MOS` for the objects of the pool itself.
    pub dataset: String,
    /// Path in the dataset, or a description of the object.
    pub path: String,
    /// Whether some of its data is lost.
    pub lost: bool,
    /// Number of its damaged blocks.
    pub blocks: u64,
}

/// A device on which errors were found, or that is unavailable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedDevice {
    /// Path of the device or, if it is missing, its name in the pool.
    pub name: String,
    /// Why it could not be read; absent if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Number of copies or columns with wrong or outdated contents.
    pub bad_copies: u64,
    /// Number of copies or columns that could not be read.
    pub read_errors: u64,
}
