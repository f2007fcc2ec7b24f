//! The results of verifying a pool.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Everything is readable and as it should be.
    Clean,
    /// All data is readable, but something is wrong: copies, parity, devices, space or accounting.
    Damaged,
    /// Some data cannot be read in any way.
    Lost,
}

/// Result of the verification.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verification {
    /// How bad it is.
    pub verdict: Verdict,
    /// Txg that was looked at.
    pub txg: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Bytes read, each copy once.
    pub bytes: u64,
    /// Blocks with something wrong that can be read all the same.
    pub damaged_blocks: u64,
    /// Blocks that cannot be read in any way.
    pub lost_blocks: u64,
    /// Files and other objects that are damaged. At most 1,000.
    pub files: Vec<DamagedFile>,
    /// Devices with something wrong.
    pub devices: Vec<DamagedDevice>,
    /// Everything else, in sentences.
    pub notes: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// A file or another object that is damaged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedFile {
    /// The dataset, or `<metadata>`.
    pub dataset: String,
    /// The path in it, or the kind of object.
    pub path: String,
    /// Whether some of it is lost.
    pub lost: bool,
    /// Blocks concerned.
    pub blocks: u64,
}

/// A device with something wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DamagedDevice {
    /// Its path.
    pub name: String,
    /// Why it could not be used, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Copies or columns with wrong contents.
    pub bad_copies: u64,
    /// Reads that failed.
    pub read_errors: u64,
}
