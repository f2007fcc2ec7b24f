//! What files need to know of their dataset: its space, and the properties that affect attributes.

/// Space of a dataset, as statfs(2) reports it, derived from the dataset's properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that the dataset references.
    pub referenced_bytes: u64,
    /// Bytes still available to it.
    pub available_bytes: u64,
    /// Number of objects in it.
    pub objects: u64,
    /// Identity of the object set (`ds_fsid_guid`).
    pub fsid_guid: u64,
}

/// The properties that determine how a dataset is presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `pool/dataset@snapshot`, for messages.
    pub name: String,
    /// `acltype=posix`: POSIX ACLs are visible.
    pub posix_acl: bool,
    /// Not `xattr=off`: attributes of the user namespace are visible.
    pub user_xattr: bool,
    /// `recordsize`: unit of statfs.
    pub record_bytes: u32,
    /// `longname=on`: names of up to 1023 bytes.
    pub long_names: bool,
    /// Space for statfs, unless the file system is open for writing.
    pub space: Space,
}

impl Default for Options {
    /// The settings of a dataset with no property set, except that ACLs are visible.
    fn default() -> Self {
        Self {
            name: String::new(),
            posix_acl: true,
            user_xattr: true,
            record_bytes: 128 << 10,
            long_names: false,
            space: Space::default(),
        }
    }
}
