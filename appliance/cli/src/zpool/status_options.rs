//! The options of `zpool status`.

use admin::vdev_names::NameOptions;

#[derive(Debug, Clone, Copy, Default)]
pub struct StatusOptions {
    /// `-v`: list damaged files by name.
    pub verbose: bool,
    /// `-x`: only unhealthy pools.
    pub explain: bool,
    /// `-p`: exact numbers.
    pub literal: bool,
    /// `-e`: only unhealthy devices.
    pub unhealthy: bool,
    /// `-s`: the count of slow operations.
    pub slow: bool,
    /// `-d`: the count of direct writes whose data changed during the write.
    pub direct: bool,
    /// `-i`: the progress of initialize.
    pub initialize: bool,
    /// `-t`: the progress of trim.
    pub trim: bool,
    /// `-D`: dedup table histograms.
    pub dedup: bool,
    /// `-g -L -P`: how devices are named.
    pub names: NameOptions,
    /// `--json-int`: numbers as JSON integers.
    pub json_int: bool,
    /// `--json-flat-vdevs`: devices in one flat object.
    pub flat: bool,
    /// `--json-pool-key-guid`: pools keyed by guid instead of name.
    pub key_guid: bool,
}
