//! The master node of a file system: which objects it has, and how its names compare.
//!
//! Facts: zfsvfs_init, zfs_get_zplprop.

use errors::{Error, Result};
use object::{ObjectSet, Zap};
use ondisk::zap::NormFlags;

/// Object number of the master node.
pub(super) const MASTER_NODE: u64 = 1;

/// ZPL version of a file system: which forms of files and names it may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u64);

impl Version {
    /// The newest supported version.
    pub const MAX: Self = Self(5);

    /// Entries of directories contain the type of the file.
    pub(super) fn has_entry_types(self) -> bool {
        self.0 >= 2
    }

    /// Files have DOS flags, a creation time that can be set, and entries of access lists of
    /// version 1, whose identities may have a domain.
    pub(super) fn has_fuids(self) -> bool {
        self.0 >= 3
    }

    /// Users and groups can have quotas.
    pub(super) fn has_quotas(self) -> bool {
        self.0 >= 4
    }

    /// New and changed files have system attributes instead of a znode.
    pub(super) fn has_system_attributes(self) -> bool {
        self.0 >= 5
    }
}

/// How names that differ only in case compare (`casesensitivity`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseSensitivity {
    /// They differ.
    Sensitive,
    /// They are equal.
    Insensitive,
    /// They differ, except for SMB clients.
    Mixed,
}

/// What the master node records. Fixed while the file system is open, except for the version and
/// what an upgrade of it adds.
pub(super) struct MasterNode {
    /// ZPL version when the file system was opened, 1 to [`Version::MAX`].
    pub version: Version,
    /// Object of the root directory.
    pub root: u64,
    /// Names and layouts of system attributes. `None`: files have znodes.
    pub sa_attrs: Option<u64>,
    /// Files that were removed while open.
    pub delete_queue: Option<u64>,
    /// Object with the names of identity domains; `None` if there are none.
    pub fuid_table: Option<u64>,
    /// Directory of SMB shares.
    pub shares: Option<u64>,
    pub names: NameRules,
}

impl MasterNode {
    pub fn read(objset: &ObjectSet) -> Result<Self> {
        let zap = Zap::open(objset.object(MASTER_NODE)?)?;
        let number = |name: &str| zap.lookup_u64(name);
        let version = number("VERSION")?.ok_or_else(|| Error::corrupt("", "the master node has no VERSION"))?;
        if !(1..=Version::MAX.0).contains(&version) {
            return Err(Error::unsupported("", format!("ZPL version {version} (known: 1 to {})", Version::MAX.0)));
        }
        Ok(Self {
            version: Version(version),
            root: number("ROOT")?.ok_or_else(|| Error::corrupt("", "the master node has no ROOT"))?,
            names: NameRules::read(&zap)?,
            sa_attrs: number("SA_ATTRS")?,
            delete_queue: number("DELETE_QUEUE")?,
            fuid_table: number("FUID")?.filter(|id| *id != 0),
            shares: number("SHARES")?.filter(|id| *id != 0),
        })
    }
}

/// How names compare and which are valid: `casesensitivity`, `normalization`, `utf8only`.
///
/// Unless names are case-sensitive, they are normalized to upper case.
pub(super) struct NameRules {
    case: CaseSensitivity,
    norm: NormFlags,
    utf8_only: bool,
}

impl NameRules {
    fn read(master: &Zap) -> Result<Self> {
        let number = |name: &str| Ok::<_, Error>(master.lookup_u64(name)?.unwrap_or(0));
        let case = match number("casesensitivity")? {
            0 => CaseSensitivity::Sensitive,
            1 => CaseSensitivity::Insensitive,
            2 => CaseSensitivity::Mixed,
            n => return Err(Error::unsupported("", format!("casesensitivity {n}"))),
        };
        let mut norm = NormFlags::from_bits_retain(number("normalization")?);
        if case != CaseSensitivity::Sensitive {
            norm |= NormFlags::TO_UPPER;
        }
        Ok(Self { case, norm, utf8_only: number("utf8only")? != 0 })
    }

    pub fn case(&self) -> CaseSensitivity {
        self.case
    }

    /// How names are normalized before they are compared.
    pub fn norm(&self) -> NormFlags {
        self.norm
    }

    pub fn utf8_only(&self) -> bool {
        self.utf8_only
    }

    /// Whether names are equal only if all their bytes are.
    pub fn are_exact(&self) -> bool {
        self.norm.is_empty()
    }

    /// Whether a name has an encoding that is allowed.
    pub fn allow(&self, name: &[u8]) -> bool {
        !self.utf8_only || std::str::from_utf8(name).is_ok()
    }
}
