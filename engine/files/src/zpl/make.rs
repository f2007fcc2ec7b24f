//! Creation of files: inheritance, objects and attributes; and the initial contents of a dataset.
//!
//! Facts: zfs_mknode, zfs_acl_ids_create, zfs_create_fs.

use super::backing::Settings;
use super::log::Group;
use super::state::{State, old_znode};
use super::{CaseSensitivity, FileSystem, MASTER_NODE, NormFlags, Version, Znode, trivial_acl};
use crate::posix_acl::{ACCESS, DEFAULT};
use crate::vfs::{Caller, FileKind, NewNode, SetAttr, Time};
use dataset::quota::Principal;
use errors::{Refusal, Result};
use object::zap::ZapSpec;
use object::{NewObject, ObjectSet, SaTable, Tx, Zap};
use ondisk::ObjectType;
use ondisk::acl::Ace;
use ondisk::sa::Attr as Sa;
use ondisk::zap::Value as ZapValue;
use ondisk::znode::{Flags, LEGACY_BYTES};
use std::sync::Arc;

/// Longest target of a symbolic link: MAXPATHLEN with its NUL.
const TARGET_BYTES_MAX: usize = 4095;
/// Initial block size of a file.
const FIRST_BLOCK_BYTES: u32 = 512;
/// Object numbers that the kernel assigns to the objects that every file system has begin here:
/// attribute tables (unless its files have znodes), delete queue, root directory, registry,
/// layouts.
const FIRST: u64 = 32;

/// Fixed properties of a file whose creation is replayed from the intent log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forced {
    pub object: u64,
    /// 512-byte slots of its dnode.
    pub slots: u8,
    pub generation: u64,
    /// Creation time.
    pub time: Time,
    /// Final permission bits: nothing is inherited.
    pub mode: u32,
    /// Attributes that are set in the same change.
    pub attributes: Option<SetAttr>,
}

/// Complete description of a file to create.
pub(super) struct NewFile<'a> {
    pub kind: FileKind,
    /// Type and permissions.
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    pub parent: u64,
    pub flags: Flags,
    pub project: Option<u64>,
    pub rdev: u64,
    pub target: Option<&'a [u8]>,
    pub time: Time,
    pub generation: u64,
    pub slots: u8,
    pub object: Option<u64>,
    pub norm: NormFlags,
    pub version: Version,
}

/// The file type bits of a mode.
pub(super) fn kind_bits(kind: FileKind) -> u64 {
    let number = match kind {
        FileKind::Fifo => 1,
        FileKind::CharDevice => 2,
        FileKind::Directory => 4,
        FileKind::BlockDevice => 6,
        FileKind::Regular => 8,
        FileKind::Symlink => 10,
        FileKind::Socket => 12,
    };
    number << 12
}

fn time_bytes(time: Time) -> Vec<u8> {
    [time.seconds as u64, u64::from(time.nanoseconds)].iter().flat_map(|w| w.to_le_bytes()).collect()
}

impl NewFile<'_> {
    /// Creates the object with its attributes; no name leads to it yet. Calls `register` with the
    /// object number before the object has attributes.
    pub fn make(&self, objset: &Arc<ObjectSet>, sa: &SaTable, tx: &Tx, register: impl FnOnce(u64)) -> Result<u64> {
        let is_sa = self.version.has_system_attributes();
        let (bonus_type, bonus) = match is_sa {
            true => (ObjectType::SA, Vec::new()),
            false => (ObjectType::ZNODE, vec![0; LEGACY_BYTES]),
        };
        let object = if self.kind == FileKind::Directory {
            let spec = ZapSpec {
                norm_flags: self.norm,
                bonus_type,
                bonus,
                slots: self.slots,
                id: self.object,
                ..ZapSpec::new(ObjectType::DIRECTORY_CONTENTS)
            };
            Zap::create(objset, tx, &spec)?.object().map_or(0, object::Object::id)
        } else {
            let new = NewObject {
                slots: self.slots(),
                id: self.object,
                ..NewObject::new(ObjectType::PLAIN_FILE_CONTENTS, FIRST_BLOCK_BYTES).with_bonus(bonus_type, bonus)
            };
            objset.create_object(tx, &new)?.id()
        };
        register(object);
        let done = objset.object(object).and_then(|o| match is_sa {
            true => sa.build(tx, &o, &self.attributes()),
            false => old_znode::build(tx, &o, &self.attributes(), (&self.list(), self.target), self.version),
        });
        if done.is_err() {
            // No name leads to it: only its space would be lost.
            let _ = objset.free_object(tx, object);
        }
        done.map(|()| object)
    }

    /// 512-byte slots of its dnode.
    pub fn slots(&self) -> u8 {
        match self.kind {
            // In larger dnodes OpenZFS looks for the target of an old symbolic link where it does
            // not store it.
            FileKind::Symlink if !self.version.has_system_attributes() => 1,
            _ => self.slots,
        }
    }

    /// The ACL, which expresses no more than the mode.
    fn list(&self) -> Vec<Ace> {
        trivial_acl::trivial(self.mode & 0o777, self.kind == FileKind::Directory)
    }

    /// The attributes in the order in which the kernel packs them: space accounting expects some of
    /// them at fixed offsets.
    fn attributes(&self) -> Vec<(Sa, Vec<u8>)> {
        let (is_dir, list) = (self.kind == FileKind::Directory, self.list());
        let flags = self.flags | trivial_acl::mode_of(&list, self.uid, self.gid).1;
        let word = |n: u64| n.to_le_bytes().to_vec();
        let size = match (is_dir, self.target) {
            (true, _) => 2,
            (false, Some(target)) => target.len() as u64,
            (false, None) => 0,
        };
        let time = time_bytes(self.time);
        let mut out = vec![
            (Sa::Mode, word(self.mode)),
            (Sa::Size, word(size)),
            (Sa::Gen, word(self.generation)),
            (Sa::Uid, word(self.uid)),
            (Sa::Gid, word(self.gid)),
            (Sa::Parent, word(self.parent)),
            (Sa::Flags, word(flags.bits())),
            (Sa::Atime, time.clone()),
            (Sa::Mtime, time.clone()),
            (Sa::Ctime, time.clone()),
            (Sa::Crtime, time),
            (Sa::Links, word(if is_dir { 2 } else { 1 })),
        ];
        if let Some(project) = self.project {
            out.push((Sa::Projid, word(project)));
        }
        if matches!(self.kind, FileKind::CharDevice | FileKind::BlockDevice) {
            out.push((Sa::Rdev, word(self.rdev)));
        }
        out.push((Sa::DaclCount, word(list.len() as u64)));
        out.push((Sa::DaclAces, trivial_acl::pack(&list)));
        if let Some(target) = self.target {
            out.push((Sa::Symlink, target.to_vec()));
        }
        out
    }
}

/// Flags of every new file.
pub(super) fn new_flags(is_dir: bool, version: Version) -> Flags {
    let changed = if version.has_fuids() { Flags::ARCHIVE | Flags::AV_MODIFIED } else { Flags::empty() };
    let flags = changed | Flags::ACL_TRIVIAL;
    if is_dir { flags | Flags::ACL_AUTO_INHERIT } else { flags }
}

/// A file that is not created yet, with the access control lists that it gets.
pub(super) struct Inherited {
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    pub flags: Flags,
    pub project: Option<u64>,
    pub access_list: Option<Vec<u8>>,
    pub default_list: Option<Vec<u8>>,
    /// The ZFS ACL, if it differs from that of the mode.
    pub entries: Option<Vec<Ace>>,
}

impl FileSystem {
    /// What a new file of `kind` inherits from `who` and from its directory.
    pub(super) fn inherit(
        &self,
        settings: &Settings,
        who: &Caller,
        parent: &State,
        kind: FileKind,
        mode: u32,
        umask: u32,
    ) -> Result<Inherited> {
        let is_dir = kind == FileKind::Directory;
        let (mut mode, mut access_list, mut default_list) = (u64::from(mode & 0o7777), None, None);
        if kind == FileKind::Symlink {
            mode = 0o777;
        } else {
            let of_parent = match settings.posix_acl {
                true => self.stored_list(parent, DEFAULT)?,
                false => None,
            };
            match of_parent {
                None => mode &= !u64::from(umask),
                Some(list) => {
                    default_list = is_dir.then(|| list.to_bytes());
                    let (cut, bits) = list.inherited(mode as u32);
                    mode = u64::from(bits);
                    access_list = (!cut.is_mode_alone()).then(|| cut.to_bytes());
                }
            }
        }
        let gid = if parent.mode & 0o2000 != 0 { parent.gid } else { u64::from(who.gid) };
        if parent.mode & 0o2000 != 0 && is_dir {
            mode |= 0o2000;
        } else if mode & 0o2000 != 0 && !who.privileged && !is_member(who, gid) {
            mode &= !0o2000;
        }
        let version = self.version();
        let mut flags = new_flags(is_dir, version) | parent.flags & Flags::XATTR;
        let inherited = if parent.flags.contains(Flags::PROJINHERIT) { parent.project } else { 0 };
        let plain = matches!(kind, FileKind::Regular | FileKind::Directory);
        // Types without contents have the attribute only if it is not the default.
        let has_projects = settings.projects && version.has_system_attributes();
        let project = (has_projects && (plain || inherited != 0)).then_some(inherited);
        if project.is_some() {
            flags |= Flags::PROJID;
        }
        if plain {
            flags |= parent.flags & Flags::PROJINHERIT;
        }
        let uid = u64::from(who.uid);
        let entries = self.inherit_entries(settings, parent, kind, mode)?;
        if let Some(list) = &entries {
            mode = mode & !0o777 | trivial_acl::mode_of(list, uid, gid).0;
        }
        Ok(Inherited { mode: mode | kind_bits(kind), uid, gid, flags, project, access_list, default_list, entries })
    }

    /// The ZFS ACL of a new file, if its directory has inheritable entries.
    fn inherit_entries(
        &self,
        settings: &Settings,
        parent: &State,
        kind: FileKind,
        mode: u64,
    ) -> Result<Option<Vec<Ace>>> {
        if !parent.flags.contains(Flags::INHERIT_ACE)
            || parent.flags.contains(Flags::XATTR)
            || kind == FileKind::Symlink
        {
            return Ok(None);
        }
        let of_parent = self.aces(&Znode::new(parent.attributes(self)?)?)?.unwrap_or_default();
        let (how, is_dir) = (settings.acl_inherit, kind == FileKind::Directory);
        let (list, mode_counts) = trivial_acl::inherited(&of_parent, how, is_dir, kind == FileKind::Regular, mode);
        if list.is_empty() {
            return Ok(None);
        }
        let passes = matches!(how, trivial_acl::AclInherit::Passthrough | trivial_acl::AclInherit::PassthroughX);
        let trim = settings.acl_mode == trivial_acl::AclMode::GroupMask && !passes;
        if mode_counts && settings.acl_mode != trivial_acl::AclMode::Restricted {
            return Ok(Some(trivial_acl::of_new(&list, mode, is_dir, trim)));
        }
        Ok(Some(list))
    }

    /// Fails if a user, group or project that the new file counts toward has no space or files
    /// left.
    pub(super) fn check_quota(&self, uid: u64, gid: u64, project: u64) -> Result<()> {
        let live = self.live()?;
        let whose = [(Principal::User, uid), (Principal::Group, gid), (Principal::Project, project)];
        // Project 0 means no project.
        for (principal, id) in whose.into_iter().take(if project == 0 { 2 } else { 3 }) {
            if live.backing.is_over_quota(principal, id, false)? || live.backing.is_over_quota(principal, id, true)? {
                return Err(Refusal::QuotaExceeded.at(format!("{principal:?} {id}")));
            }
        }
        Ok(())
    }

    /// Creates a file in `parent` under `name`, which must be unused and already checked.
    pub(super) fn make_in(
        &self,
        tx: &Tx,
        settings: &Settings,
        who: &Caller,
        parent: &mut State,
        (name, new): (&[u8], &NewNode),
        how: (u32, u32, Option<&Forced>),
    ) -> Result<Made> {
        let made = self.make_alone(tx, settings, who, parent, new, how)?;
        let (id, now) = (made.state.object.id(), self.live()?.backing.now());
        if let Err(e) = self.enter(tx, parent, name, id, made.state.kind, now) {
            let _ = self.objset.free_object(tx, id);
            return Err(e);
        }
        Ok(made)
    }

    /// Creates a file without a name, as if in `parent`.
    pub(super) fn make_alone(
        &self,
        tx: &Tx,
        settings: &Settings,
        who: &Caller,
        parent: &State,
        new: &NewNode,
        (mode, umask, forced): (u32, u32, Option<&Forced>),
    ) -> Result<Made> {
        let live = self.live()?;
        let now = live.backing.now();
        let kind = kind_of_new(new);
        let mut inherited = self.inherit(settings, who, parent, kind, mode, umask)?;
        if let Some(forced) = forced {
            (inherited.mode, inherited.access_list, inherited.default_list) =
                (u64::from(forced.mode & 0o7777) | kind_bits(kind), None, None);
            (inherited.uid, inherited.gid) = (u64::from(who.uid), u64::from(who.gid));
            inherited.entries = None;
        } else {
            self.check_quota(inherited.uid, inherited.gid, inherited.project.unwrap_or(0))?;
        }
        let target = match new {
            NewNode::Symlink(target) if target.len() > TARGET_BYTES_MAX => {
                return Err(Refusal::NameTooLong.at("target of a symbolic link"));
            }
            NewNode::Symlink(target) => Some(&target[..]),
            _ => None,
        };
        let file = NewFile {
            kind,
            mode: inherited.mode,
            uid: inherited.uid,
            gid: inherited.gid,
            parent: parent.object.id(),
            flags: inherited.flags,
            project: inherited.project,
            rdev: match new {
                NewNode::CharDevice { major, minor } | NewNode::BlockDevice { major, minor } => {
                    u64::from(major << 20 | minor & 0xf_ffff)
                }
                _ => 0,
            },
            target,
            time: forced.map_or(now, |f| f.time),
            generation: forced.map_or(tx.txg(), |f| f.generation),
            slots: forced.map_or(settings.dnode_slots, |f| f.slots).max(1),
            object: forced.map(|f| f.object),
            norm: self.master.names.norm(),
            version: self.version(),
        };
        let id = file.make(&self.objset, &self.sa, tx, |id| live.forget(id))?;
        match self.load_state(id) {
            Ok(state) => {
                let Inherited { access_list, default_list, entries, .. } = inherited;
                Ok(Made { state, slots: file.slots(), access_list, default_list, entries })
            }
            Err(e) => {
                let _ = self.objset.free_object(tx, id);
                Err(e)
            }
        }
    }

    /// Stores the access control lists that a new file inherited, as part of its creation, so that
    /// it is never found without them.
    pub(super) fn store_lists(&self, tx: &Tx, settings: &Settings, made: &mut Made, group: &mut Group) -> Result<()> {
        if let Some(list) = made.entries.take() {
            made.state.set_acl(self, tx, &list)?;
            group.acl(tx, &made.state, &list);
        }
        let lists = [(DEFAULT, made.default_list.take()), (ACCESS, made.access_list.take())];
        for (name, list) in lists {
            if let Some(list) = list {
                self.store_xattr(tx, settings, &mut made.state, group, (name, Some(&list)))?;
            }
        }
        Ok(())
    }
}

/// A file that was created, and the access control lists that are still to be stored.
pub(super) struct Made {
    pub state: State,
    pub slots: u8,
    access_list: Option<Vec<u8>>,
    default_list: Option<Vec<u8>>,
    entries: Option<Vec<Ace>>,
}

/// Whether the caller is known to be in a group.
pub(super) fn is_member(who: &Caller, gid: u64) -> bool {
    u64::from(who.gid) == gid || who.groups.iter().any(|g| u64::from(*g) == gid)
}

fn kind_of_new(new: &NewNode) -> FileKind {
    match new {
        NewNode::Regular => FileKind::Regular,
        NewNode::Directory => FileKind::Directory,
        NewNode::Symlink(_) => FileKind::Symlink,
        NewNode::Fifo => FileKind::Fifo,
        NewNode::Socket => FileKind::Socket,
        NewNode::CharDevice { .. } => FileKind::CharDevice,
        NewNode::BlockDevice { .. } => FileKind::BlockDevice,
    }
}

/// Properties of a file system that are fixed at creation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateOptions {
    /// ZPL version.
    pub version: Version,
    /// `casesensitivity`.
    pub case: CaseSensitivity,
    /// `normalization`: how names are compared, apart from case.
    pub normalization: NormFlags,
    pub utf8_only: bool,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Times of the root directory.
    pub time: Time,
    /// Files have projects (`project_quota` is enabled).
    pub projects: bool,
    /// 512-byte slots of the root directory's dnode (`dnodesize`).
    pub dnode_slots: u8,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            version: Version::MAX,
            case: CaseSensitivity::Sensitive,
            normalization: NormFlags::empty(),
            utf8_only: false,
            uid: 0,
            gid: 0,
            time: Time::default(),
            projects: true,
            dnode_slots: 1,
        }
    }
}

/// Fills a new, empty object set with the objects that every file system has: master node,
/// attribute tables, delete queue, root directory. Numbers and contents are those that the kernel
/// module uses.
pub fn create_contents(objset: &Arc<ObjectSet>, tx: &Tx, options: &CreateOptions) -> Result<()> {
    let zap = |object_type, id| Zap::create(objset, tx, &ZapSpec { id: Some(id), ..ZapSpec::new(object_type) });
    let master = zap(ObjectType::MASTER_NODE, MASTER_NODE)?;
    let case = match options.case {
        CaseSensitivity::Sensitive => 0,
        CaseSensitivity::Insensitive => 1,
        CaseSensitivity::Mixed => 2,
    };
    let put = |name: &str, value: u64| master.insert(tx, name.as_bytes(), &ZapValue::one(value));
    put("normalization", options.normalization.bits())?;
    put("utf8only", u64::from(options.utf8_only))?;
    put("casesensitivity", case)?;
    put("VERSION", options.version.0)?;
    let is_sa = options.version.has_system_attributes();
    let mut numbers = FIRST..;
    let mut next = || numbers.next().expect("numbers do not end");
    let tables = if is_sa { Some(next()) } else { None };
    if let Some(id) = tables {
        zap(ObjectType::SA_MASTER_NODE, id)?;
        put("SA_ATTRS", id)?;
    }
    let queue = next();
    zap(ObjectType::UNLINKED_SET, queue)?;
    put("DELETE_QUEUE", queue)?;

    let root_id = next();
    if let Some(id) = tables {
        let tables = Zap::open(objset.object(id)?)?;
        for (name, object_type) in
            [("REGISTRY", ObjectType::SA_ATTR_REGISTRATION), ("LAYOUTS", ObjectType::SA_ATTR_LAYOUTS)]
        {
            let id = next();
            zap(object_type, id)?;
            tables.insert_u64(tx, name, id)?;
        }
    }
    let sa = SaTable::load(objset, tables)?;
    let mut norm = options.normalization;
    if options.case != CaseSensitivity::Sensitive {
        norm |= NormFlags::TO_UPPER;
    }
    let has_projects = options.projects && is_sa;
    let flags = new_flags(true, options.version) | if has_projects { Flags::PROJID } else { Flags::empty() };
    let root = NewFile {
        kind: FileKind::Directory,
        mode: 0o40755,
        uid: u64::from(options.uid),
        gid: u64::from(options.gid),
        parent: root_id,
        flags,
        project: has_projects.then_some(0),
        rdev: 0,
        target: None,
        time: options.time,
        generation: tx.txg(),
        slots: options.dnode_slots.max(1),
        object: Some(root_id),
        norm,
        version: options.version,
    };
    root.make(objset, &sa, tx, |_| {})?;
    put("ROOT", root_id)
}
